//! The user's settings of the interface: `openai.toml` in the configuration directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::StatusCode;
use nerve_api::ErrorKind;
use nerve_api::request::{CommandLine, CreateNode, NodeRef, Seconds};
use nerve_api::value::BackendKind;
use nerve_types::name;
use serde::Deserialize;

use super::error::ApiError;
use crate::http::problem::Problem;

/// Maximum size of the file in bytes.
const MAX_FILE: u64 = 64 * 1024;
/// Maximum number of templates.
const MAX_TEMPLATES: usize = 100;
/// Maximum length of a template's name: names of its nodes contain it.
const MAX_TEMPLATE_NAME: usize = 16;
/// Default time limit of a turn.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);
/// Range of the time limit in seconds.
const TIMEOUTS: std::ops::RangeInclusive<u64> = 1..=86_400;

/// The settings.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Config {
    /// Mode of models without a suffix.
    pub(super) mode: Mode,
    /// Treatment of the turn of a client that disconnects.
    pub(super) on_disconnect: OnDisconnect,
    /// Display of the agent's tool calls.
    pub(super) tool_calls: ToolCallDisplay,
    /// Time limit of a turn.
    pub(super) timeout: Option<Seconds>,
    /// Templates of new nodes by name.
    pub(super) new: BTreeMap<String, Template>,
}

/// Ways to map a request to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    /// The last message is sent to the node if the earlier ones are the node's own conversation.
    #[default]
    Match,
    /// The last message is sent to the node, whatever the earlier ones are.
    Node,
    /// A fork of the node answers.
    Fork,
}

/// Treatment of the turn of a client that disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum OnDisconnect {
    /// Interrupts it.
    #[default]
    Interrupt,
    /// Lets it run to its end.
    Continue,
}

/// Display of the agent's tool calls in answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ToolCallDisplay {
    /// Hides them.
    #[default]
    Hidden,
    /// Shows each one as a line of text.
    Text,
}

/// A template: the specification of new nodes, as for CREATE_NODE.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Template {
    session: Option<String>,
    command: Option<CommandLine>,
    backend: BackendKind,
    cwd: Option<PathBuf>,
    env: BTreeMap<String, String>,
    profile: Option<String>,
}

impl Template {
    /// Returns the session of the nodes.
    pub(super) fn session(&self) -> Option<String> {
        self.session.clone()
    }

    /// Returns the request for a node.
    pub(super) fn node(self, at: NodeRef) -> CreateNode {
        let Template { session: _, command, backend, cwd, env, profile } = self;
        CreateNode { command, backend, cwd, env, profile, ..CreateNode::at(at) }
    }
}

impl Config {
    /// Reads the file; a missing one has no settings.
    ///
    /// # Errors
    /// The file is not readable, too large or invalid.
    pub(super) async fn load(path: &Path) -> Result<Config, ApiError> {
        let text = match read(path).await {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Config::default()),
            Err(error) => return Err(invalid(path, &error.to_string())),
        };
        Config::parse(&text).map_err(|message| invalid(path, &message))
    }

    fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            format!("line {line}: {}", error.message().trim())
        })?;
        if config.new.len() > MAX_TEMPLATES {
            return Err(format!("more than {MAX_TEMPLATES} templates"));
        }
        for template in config.new.keys() {
            name::check("template", template).map_err(|error| error.to_string())?;
            if template.len() > MAX_TEMPLATE_NAME {
                return Err(format!(
                    "the name of template '{template}' exceeds {MAX_TEMPLATE_NAME} characters"
                ));
            }
        }
        if !TIMEOUTS.contains(&config.timeout().as_secs()) {
            return Err(format!("timeout: not from {} to {} seconds", TIMEOUTS.start(), TIMEOUTS.end()));
        }
        Ok(config)
    }

    /// Returns the time limit of a turn.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout.map_or(DEFAULT_TIMEOUT, Seconds::duration)
    }
}

async fn read(path: &Path) -> std::io::Result<String> {
    let size = tokio::fs::metadata(path).await?.len();
    if size > MAX_FILE {
        return Err(std::io::Error::other(format!("its {size} bytes exceed {MAX_FILE}")));
    }
    tokio::fs::read_to_string(path).await
}

fn invalid(path: &Path, message: &str) -> ApiError {
    let message = format!("invalid settings in {}: {message}", path.display());
    let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorKind::InvalidRequest, message);
    ApiError::from(problem.hint("correct the file: it is read for each request")).code("invalid_settings")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_templates_are_read() {
        let text = "mode = \"fork\"\non_disconnect = \"continue\"\ntool_calls = \"text\"\ntimeout = 90\n\
            [new.reviewer]\ncommand = [\"claude\", \"--model\", \"opus\"]\ncwd = \"/shop\"\nenv = { A = \"1\" }\nsession = \"work\"\n\
            [new.shell]\nbackend = \"bash\"\n";
        let config = Config::parse(text).unwrap();
        assert_eq!((config.mode, config.on_disconnect), (Mode::Fork, OnDisconnect::Continue));
        assert_eq!((config.tool_calls, config.timeout()), (ToolCallDisplay::Text, Duration::from_secs(90)));
        let reviewer = config.new["reviewer"].clone();
        assert_eq!(reviewer.session().as_deref(), Some("work"));
        let node = reviewer.node(NodeRef { session: Some("work".into()), node: "n".into() });
        let argv = ["claude", "--model", "opus"].map(str::to_string).to_vec();
        assert_eq!((node.command, node.cwd), (Some(CommandLine::Argv(argv)), Some(PathBuf::from("/shop"))));
        assert_eq!((node.env["A"].as_str(), node.node_id.as_str()), ("1", "n"));
        assert_eq!(
            config.new["shell"].clone().node(NodeRef { session: None, node: "n".into() }).backend,
            BackendKind::Bash
        );
        let empty = Config::parse("").unwrap();
        assert_eq!((empty.mode, empty.on_disconnect), (Mode::Match, OnDisconnect::Interrupt));
    }

    #[test]
    fn error_names_line_or_value() {
        let templates: String = (0..=MAX_TEMPLATES).map(|at| format!("[new.t{at}]\n")).collect();
        for (text, word) in [
            ("\nmode = \"guess\"", "line 2"),
            ("colour = 1", "colour"),
            ("[new.a]\n\nshell = 1", "line 3"),
            ("timeout = 0", "timeout"),
            ("timeout = 100000", "timeout"),
            ("[new.\"A b\"]", "A b"),
            ("[new.a-name-that-is-too-long]", "a-name-that-is-too-long"),
            (&templates, "100"),
        ] {
            let error = Config::parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
