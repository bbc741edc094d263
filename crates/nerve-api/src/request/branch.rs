//! Parameters of the commands for branches of recorded sessions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::proxy::{ProxyOption, ProxySettings};
use super::value::Seconds;

/// CREATE_BRANCH: creates a node that continues a recorded session from one of its snapshots, and sends it an instruction.
/// Requires `source_id` or `recording`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreateBranch {
    /// Id of the recorded node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_id: Option<String>,
    /// Recording: an id, a unique prefix of one, or an absolute path; or the id of a running unrecorded session. Instead of `source_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    /// Instruction for the agent of the new node.
    pub instruction: String,
    /// Snapshot to continue from: its number, its label, `end`, or `now` to take one first. Default: `end`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Id of the new node. Default: derived from the recorded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_id: Option<String>,
    /// Session of both nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Target directory of the files, as an absolute path. It must be empty or not exist. Default: a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Works in the recorded directory, with its current files.
    #[serde(default)]
    pub in_place: bool,
    /// Git work tree that has the snapshots, as an absolute path. Default: where they were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// Environment variables in addition to the inherited ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Proxy of the new node. Default: with the settings of the recorded node's.
    #[serde(default, deserialize_with = "ProxyOption::settings", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<ProxyOption>"))]
    pub proxy: Option<Box<ProxySettings>>,
    /// Uses no proxy, even if the recorded node had one.
    #[serde(default)]
    pub no_proxy: bool,
    /// Waits for the answer. Otherwise the reply comes when the agent has accepted the instruction. Default: true.
    #[serde(default = "enabled")]
    pub wait: bool,
    /// Time limit for the answer, in seconds. Default: the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
    /// Returns the plan and creates nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Span of the caller, in the format of the `traceparent` header (W3C Trace Context). An invalid one is ignored with a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Vendor-specific trace data, in the format of the `tracestate` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

fn enabled() -> bool {
    true
}

impl CreateBranch {
    /// Creates a request with all defaults, without a source.
    pub fn new(instruction: impl Into<String>) -> CreateBranch {
        CreateBranch {
            source_id: None,
            recording: None,
            instruction: instruction.into(),
            at: None,
            target_id: None,
            session_id: None,
            to: None,
            in_place: false,
            dir: None,
            env: BTreeMap::new(),
            proxy: None,
            no_proxy: false,
            wait: true,
            timeout: None,
            dry_run: false,
            traceparent: None,
            tracestate: None,
        }
    }
}

/// LIST_BRANCHES: lists the folders of branches on the server's machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListBranches {}

/// DELETE_BRANCH: removes the folder of a branch that no node uses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeleteBranch {
    /// Name of the folder, or its path, as listed.
    pub name: String,
    /// Removes it even if files have changed since the branch was created.
    #[serde(default)]
    pub force: bool,
}
