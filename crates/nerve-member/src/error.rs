//! Errors of a membership, with hints.

use std::io;
use std::path::{Path, PathBuf};

use nerve_cluster::{MachineId, RunId};
use nerve_nats::BrokerError;
use nerve_types::ErrorKind;

/// An error of a membership.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// There is no configuration.
    #[error("this machine is in no cluster")]
    NotConfigured,
    /// There is a configuration already.
    #[error("this machine is in a cluster already: {}", .0.display())]
    AlreadyConfigured(PathBuf),
    /// Other users can read a file with secrets.
    #[error("{} is not private: {problem}", path.display())]
    NotPrivate {
        /// The file.
        path: PathBuf,
        /// Its mode or owner.
        problem: String,
    },
    /// A file or an option has invalid content.
    #[error("invalid {what}: {problem}")]
    Invalid {
        /// The path of the file, or the setting.
        what: String,
        /// The problem.
        problem: String,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {problem}", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The I/O error.
        problem: String,
    },
    /// Another process uses the machine's identity.
    #[error("another server of this machine is a member: it holds {}", .0.display())]
    IdentityInUse(PathBuf),
    /// The broker has no such cluster.
    #[error("no cluster '{cluster}' at the broker")]
    NoCluster {
        /// The cluster.
        cluster: String,
        /// URL of a broker.
        broker: String,
    },
    /// Another machine has the name.
    #[error("machine name '{name}' is taken by machine {holder}")]
    NameTaken {
        /// The name.
        name: String,
        /// The machine that has it.
        holder: MachineId,
    },
    /// The cluster has no such machine.
    #[error("the cluster has no machine '{0}'")]
    NoMachine(String),
    /// The machine is a member now.
    #[error("machine '{0}' is a member")]
    IsMember(String),
    /// The graph cannot run on several machines.
    #[error("the graph cannot run in a cluster: {0}")]
    Graph(String),
    /// The cluster has a run with this id.
    #[error("run '{0}' exists already")]
    RunExists(RunId),
    /// The broker did not reply to the plan of a run, so the run may exist.
    #[error("run '{run}' may have started: {error}")]
    StartUnknown {
        /// The run.
        run: RunId,
        /// The error of the broker.
        error: BrokerError,
    },
    /// The cluster has no such run.
    #[error("the cluster has no run '{0}'")]
    NoRun(RunId),
    /// A later version of nerve wrote a part of the run's journal.
    #[error("run '{0}' was written by a later version of nerve")]
    LaterVersion(RunId),
    /// The step of the run does not wait for a decision.
    #[error("step '{step}' of run '{run}' is not in doubt")]
    NotInDoubt {
        /// The run.
        run: RunId,
        /// The step.
        step: String,
    },
    /// The run has ended.
    #[error("run '{0}' has ended")]
    RunEnded(RunId),
    /// The run has not ended.
    #[error("run '{0}' has not ended")]
    RunActive(RunId),
    /// The step cannot run again, because another step of the run has failed, or the run was cancelled.
    #[error(
        "step '{step}' of run '{run}' cannot run again: another step has failed, or the run was cancelled"
    )]
    RunFailed {
        /// The run.
        run: RunId,
        /// The step.
        step: String,
    },
    /// The broker failed or refused.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

impl MemberError {
    /// Returns the error of reading a file.
    pub(crate) fn read(path: &Path, error: &io::Error) -> MemberError {
        MemberError::File { action: "read", path: path.to_path_buf(), problem: error.to_string() }
    }

    /// Returns the error of writing a file.
    pub(crate) fn write(path: &Path, error: &io::Error) -> MemberError {
        MemberError::File { action: "write", path: path.to_path_buf(), problem: error.to_string() }
    }

    /// Returns the error of a setting or file.
    pub(crate) fn invalid(what: impl ToString, problem: impl ToString) -> MemberError {
        MemberError::Invalid { what: what.to_string(), problem: problem.to_string() }
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            MemberError::NotConfigured
            | MemberError::NoCluster { .. }
            | MemberError::NoRun(_)
            | MemberError::NoMachine(_) => ErrorKind::NotFound,
            MemberError::AlreadyConfigured(_) | MemberError::NameTaken { .. } | MemberError::RunExists(_) => {
                ErrorKind::AlreadyExists
            }
            MemberError::Graph(_)
            | MemberError::NotInDoubt { .. }
            | MemberError::RunFailed { .. }
            | MemberError::RunEnded(_)
            | MemberError::RunActive(_)
            | MemberError::IsMember(_) => ErrorKind::InvalidRequest,
            MemberError::LaterVersion(_) => ErrorKind::Api,
            MemberError::StartUnknown { .. } => ErrorKind::Network,
            MemberError::NotPrivate { .. } => ErrorKind::Permission,
            MemberError::Invalid { .. } => ErrorKind::InvalidRequest,
            MemberError::File { .. } => ErrorKind::Process,
            MemberError::IdentityInUse(_) => ErrorKind::Busy,
            MemberError::Broker(error) => match error {
                BrokerError::Unavailable(_) => ErrorKind::Network,
                BrokerError::Authentication(_) => ErrorKind::Authentication,
                BrokerError::Configuration(_) => ErrorKind::InvalidRequest,
                _ => ErrorKind::Api,
            },
        }
    }

    /// Returns what helps, preferably a command to run.
    pub fn hint(&self) -> String {
        match self {
            MemberError::NotConfigured => "join one: nerve cluster join CLUSTER --broker URL".to_string(),
            MemberError::AlreadyConfigured(_) => "leave it first: nerve cluster leave".to_string(),
            MemberError::NotPrivate { path, .. } => {
                format!("make it your own file with mode 0600: chmod 600 {}", path.display())
            }
            MemberError::Invalid { .. } => "see: nerve cluster join --help".to_string(),
            MemberError::File { .. } => "check the file's owner, its mode and the disk".to_string(),
            MemberError::IdentityInUse(_) => "list the servers: nerve server list".to_string(),
            MemberError::NoCluster { cluster, broker } => {
                format!("check the name, or create it: nerve cluster init {cluster} --broker {broker}")
            }
            MemberError::NameTaken { name, .. } => format!(
                "choose another name: --name NAME; if that machine no longer exists, run on a member: nerve cluster remove {name}"
            ),
            MemberError::NoMachine(_) => "list the machines: nerve cluster status".to_string(),
            MemberError::IsMember(_) => "leave the cluster on that machine: nerve cluster leave".to_string(),
            MemberError::Graph(_) => {
                "change the graph, or run it on one machine, without `on`: nerve graph run FILE".to_string()
            }
            MemberError::RunExists(_) => "choose another id: --run-id ID".to_string(),
            MemberError::StartUnknown { run, .. } => {
                format!("look for it before you start it again: nerve cluster runs {run}")
            }
            MemberError::NoRun(_) => "list the runs: nerve cluster runs".to_string(),
            MemberError::LaterVersion(_) => "update nerve on this machine".to_string(),
            MemberError::NotInDoubt { run, .. } | MemberError::RunEnded(run) => {
                format!("see its steps: nerve cluster runs {run}")
            }
            MemberError::RunActive(run) => format!("cancel it first: nerve cluster cancel {run}"),
            MemberError::RunFailed { run, step } => {
                format!("let it fail: nerve cluster decide {run} {step} fail")
            }
            MemberError::Broker(error) => match error {
                BrokerError::Unavailable(_) => {
                    "check that nats-server runs there with JetStream, and the URL: --broker URL".to_string()
                }
                BrokerError::Authentication(_) => {
                    "check the user and password in the file of --credentials".to_string()
                }
                BrokerError::Configuration(_) => {
                    "check the URL of --broker, and the files of --ca, --certificate and --key".to_string()
                }
                BrokerError::Full(_) => "give the broker's JetStream more space".to_string(),
                _ => "check the broker's log, its version (2.11 or newer) and that JetStream is enabled"
                    .to_string(),
            },
        }
    }
}
