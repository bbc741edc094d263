//! The compared recorders: nerve's own and others.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nerve_api::request::{CommandLine, CreateNode};
use nerve_api::value::NodeState;
use nerve_client::{NerveClient, RemoteNode};
use nerve_record::ahr::{AhrError, Reader};
use nerve_record::inspect::inspect;
use nerve_testkit::wait_until;
use tokio::runtime::Runtime;

use crate::server_process::LiveServer;
use crate::{process, support};

const LIMIT: Duration = Duration::from_secs(300);

/// A reader of a program's terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Raw,
    Node,
    /// A node that is not recorded.
    Unrecorded,
    /// `nerve record`.
    Record,
    Script,
    Asciinema,
}

pub(crate) const WAYS: [Way; 6] =
    [Way::Raw, Way::Node, Way::Unrecorded, Way::Record, Way::Script, Way::Asciinema];

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Raw => "raw",
            Way::Node => "node",
            Way::Unrecorded => "node that is not recorded",
            Way::Record => "`nerve record`",
            Way::Script => "`script`",
            Way::Asciinema => "`asciinema`",
        }
    }

    /// Returns the external program it needs.
    fn peer(self) -> Option<&'static str> {
        match self {
            Way::Script => Some("script"),
            Way::Asciinema => Some("asciinema"),
            _ => None,
        }
    }

    fn is_node(self) -> bool {
        matches!(self, Way::Node | Way::Unrecorded)
    }
}

/// A server, a folder for recordings, and the missing peers.
pub(crate) struct Stage {
    runtime: Runtime,
    server: LiveServer,
    client: NerveClient,
    folder: PathBuf,
    missing: Vec<&'static str>,
    started: Cell<u32>,
}

/// A program that is being recorded.
pub(crate) struct Running<'a> {
    stage: &'a Stage,
    start: Instant,
    target: Target,
    /// The process that reads the terminal.
    pub(crate) pid: String,
    /// Path of the recording.
    file: Option<PathBuf>,
    way: Way,
}

enum Target {
    Node(RemoteNode),
    Process(Child),
}

/// Result of a recording.
pub(crate) struct Recorded {
    pub(crate) seconds: f64,
    /// Bytes of the file.
    pub(crate) size: Option<u64>,
}

impl Stage {
    pub(crate) fn new(folder: &Path) -> Result<Stage> {
        let runtime = Runtime::new()?;
        let server = LiveServer::start()?;
        let client = runtime.block_on(server.client())?;
        let there = |peer: &&str| Command::new(peer).arg("--version").output().is_ok();
        let missing = WAYS.into_iter().filter_map(Way::peer).filter(|peer| !there(peer)).collect();
        Ok(Stage { runtime, server, client, folder: folder.into(), missing, started: Cell::new(0) })
    }

    /// Returns the available recorders.
    pub(crate) fn ways(&self) -> impl Iterator<Item = Way> {
        WAYS.into_iter().filter(|way| way.peer().is_none_or(|peer| !self.missing.contains(&peer)))
    }

    /// Returns notes about the missing recorders.
    pub(crate) fn missing(&self) -> Vec<String> {
        self.missing.iter().map(|peer| format!("Not compared with {peer}: it is not installed.")).collect()
    }

    /// Returns the pid of the server.
    pub(crate) fn server(&self) -> String {
        self.server.process.id().to_string()
    }

    /// Starts a program under a recorder.
    pub(crate) fn start(&self, way: Way, argv: &[&str]) -> Result<Running<'_>> {
        self.started.set(self.started.get() + 1);
        let name = format!("run-{}", self.started.get());
        let file = self.folder.join(&name);
        let start = Instant::now();
        if way.is_node() {
            return self.start_node(way, &name, argv, start);
        }
        let line = shell_words::join(argv);
        let path = file.to_str().context("the folder's name is no UTF-8")?;
        let home = &self.server.home;
        let mut command = match way {
            Way::Raw => support::fresh_process(&[&["raw"], argv].concat())?,
            Way::Record => crate::server_process::nerve(
                home,
                &[&["record", "--headless", "--out-file", path, "--"], argv].concat(),
            ),
            Way::Script => peer(home.command("script"), &["-q", "-c", &line, path]),
            Way::Asciinema => peer(home.command("asciinema"), &["rec", "-q", "-c", &line, path]),
            Way::Node | Way::Unrecorded => unreachable!("started above"),
        };
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let file = (way != Way::Raw).then_some(file);
        let pid = child.id().to_string();
        Ok(Running { stage: self, start, pid, target: Target::Process(child), file, way })
    }

    fn start_node(&self, way: Way, name: &str, argv: &[&str], start: Instant) -> Result<Running<'_>> {
        let mut params = CreateNode::new(name);
        params.command = Some(CommandLine::Argv(argv.iter().map(ToString::to_string).collect()));
        params.record = way == Way::Node;
        let (node, info) = self.runtime.block_on(async {
            let node = self.client.create_node(&params).await?;
            let info = node.info().await?;
            anyhow::Ok((node, info))
        })?;
        let pid =
            process::parent(&info.metadata.number("pid").context("the node has no process")?.to_string())?;
        ensure!(pid != self.server(), "the node has no host");
        let file = info.metadata.known_text("recording_path").map(PathBuf::from);
        Ok(Running { stage: self, start, target: Target::Node(node), pid, file, way })
    }
}

impl Running<'_> {
    /// Waits for the end of program and recorder. With `bytes`, the program's output length, nerve's recordings are checked.
    pub(crate) fn finish(self, bytes: Option<u64>) -> Result<Recorded> {
        let runtime = &self.stage.runtime;
        let seconds = match self.target {
            Target::Process(mut child) => {
                if !wait_until(LIMIT, || !matches!(child.try_wait(), Ok(None))) {
                    child.kill()?;
                }
                let status = child.wait()?;
                ensure!(status.success(), "{}: {status}", self.way.name());
                self.start.elapsed().as_secs_f64()
            }
            Target::Node(node) => {
                // The node is stopped when all output is modelled; its host ends when all is written.
                runtime.block_on(node.wait(&[NodeState::Stopped], Some(LIMIT)))?;
                ensure!(wait_until(LIMIT, || !process::is_alive(&self.pid)), "the host does not end");
                let seconds = self.start.elapsed().as_secs_f64();
                // Frees its scrollback for the next runs.
                runtime.block_on(node.stop())?;
                seconds
            }
        };
        let Some(file) = &self.file else { return Ok(Recorded { seconds, size: None }) };
        if let (Way::Node | Way::Record, Some(bytes)) = (self.way, bytes) {
            check(file, bytes)?;
        }
        let size = std::fs::metadata(file)?.len();
        ensure!(size > 0, "{} wrote nothing", self.way.name());
        std::fs::remove_file(file)?;
        Ok(Recorded { seconds, size: Some(size) })
    }
}

fn peer(mut command: Command, arguments: &[&str]) -> Command {
    command.args(arguments).stderr(Stdio::null());
    command
}

/// Checks that the recording is complete.
fn check(recording: &Path, bytes: u64) -> Result<()> {
    let summary = inspect(&mut Reader::open(recording)?, |_| Ok::<_, AhrError>(()))?;
    ensure!(summary.is_intact() && summary.finished, "{} is incomplete", recording.display());
    ensure!(summary.output.bytes == bytes, "{} bytes of {bytes} are recorded", summary.output.bytes);
    Ok(())
}
