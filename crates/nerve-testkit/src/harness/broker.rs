//! A NATS server on a loopback port, with its own folder.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::process::{KillOnDrop, freeze, signal};
use crate::{DEADLINE, skip, wait_for};

/// A NATS server with JetStream that acknowledges writes after fsync. Killed on drop; its folder is removed.
#[derive(Debug)]
pub struct Broker {
    program: PathBuf,
    folder: tempfile::TempDir,
    settings: String,
    port: u16,
    process: Option<KillOnDrop>,
}

/// Returns the `nats-server` of the pinned Python packages, if it is installed.
fn find_nats_server() -> Option<PathBuf> {
    let folder = match std::env::var_os("NERVE_TEST_PYPI") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/pypi"),
    };
    let program = folder.canonicalize().ok()?.join("bin/nats-server");
    program.exists().then_some(program)
}

impl Broker {
    /// Starts a server like [`Broker::start`]; `None` if it is not installed, and `test` is skipped.
    ///
    /// # Panics
    /// It does not start, or is missing where no test may be skipped.
    #[track_caller]
    pub fn start_if_installed(test: &str, settings: &str) -> Option<Broker> {
        let Some(program) = find_nats_server() else {
            skip(test, "nats-server is not installed: cargo xtask setup");
            return None;
        };
        Some(Broker::start(&program, settings))
    }

    /// Starts a server at a free port. `settings`: further lines of its configuration file.
    ///
    /// # Panics
    /// It does not start.
    #[track_caller]
    pub fn start(program: &Path, settings: &str) -> Broker {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("no folder for the broker: {error}"));
        let (program, settings) = (program.to_path_buf(), settings.to_string());
        let mut broker = Broker { program, folder, settings, port: 0, process: None };
        broker.restart();
        broker
    }

    /// Returns the URL of the server. Stays the same after a restart.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Kills the server (SIGKILL). Its disk stays.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts the server again on its disk, at its port. Kills it first if it runs.
    ///
    /// # Panics
    /// It does not start.
    #[track_caller]
    pub fn restart(&mut self) {
        self.kill();
        let folder = self.folder.path();
        let (config, log) = (folder.join("nats.conf"), folder.join("log"));
        // Port -1 stands for a free one.
        let listen = if self.port == 0 { "127.0.0.1:-1".into() } else { format!("127.0.0.1:{}", self.port) };
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "listen: \"{listen}\"\nports_file_dir: {folder:?}\n\
             jetstream {{\n  store_dir: {:?}\n  sync_interval: always\n  max_file_store: 64MB\n}}\n{}\n",
            folder.join("data"),
            self.settings,
        );
        let output = fs::write(&config, text).and_then(|()| fs::File::create(&log));
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let process = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let ports = folder.join(format!("nats-server_{}.ports", process.id()));
        self.process = Some(KillOnDrop(process));
        let port = wait_for(DEADLINE, || port(&ports));
        let log = || fs::read_to_string(&log).unwrap_or_default();
        self.port = port.unwrap_or_else(|| panic!("{command:?} does not listen: {}", log()));
    }

    /// Loses the disk of a killed server.
    ///
    /// # Panics
    /// The folder cannot be removed.
    pub fn lose_disk(&mut self) {
        self.kill();
        let removed = fs::remove_dir_all(self.folder.path().join("data"));
        removed.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Stops the server without ending it (SIGSTOP).
    ///
    /// # Panics
    /// It does not run.
    #[track_caller]
    pub fn freeze(&self) {
        freeze(self.pid());
    }

    /// Lets a stopped server continue (SIGCONT).
    ///
    /// # Panics
    /// It does not run.
    #[track_caller]
    pub fn thaw(&self) {
        signal(self.pid(), Signal::CONT);
    }

    fn pid(&self) -> u32 {
        let process = self.process.as_ref().unwrap_or_else(|| panic!("the broker does not run"));
        process.0.id()
    }
}

/// Returns the port in the file that the server writes once it listens.
fn port(file: &Path) -> Option<u16> {
    let ports: Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    ports["nats"][0].as_str()?.rsplit_once(':')?.1.parse().ok()
}
