//! `nerve record`: runs a program in this terminal and records it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use nerve_commands::node_command::{COLS, ROWS};
use nerve_types::Size;

use super::recording::GutterArg;

#[derive(Debug, Args)]
#[command(after_long_help = "\
In a terminal, nerve's viewer shows the program above a status row, with a column for snapshot markers. Your input goes to the program.
Press ctrl+] ? for the viewer's keys, ctrl+] d to detach and leave the program running; 'nerve attach' returns to it. With --plain, and
without a terminal, output, keys, window size and exit code pass through as if the shell had started the program.

The recording is kept where 'nerve recording list' finds it, unless --out-file names a file. At the end, a terminal shows the command that
opens it. With --no-record nothing is kept; snapshots
and branches work while the program runs. NERVE_RECORDER_SOCKET in the program's environment is the socket that 'nerve snapshot' uses.

EXAMPLES
  nerve record claude
  nerve record --out-file session.ahr -- codex
  nerve record --cols 100 --rows 30 --out-file demo.ahr -- bash
  nerve record --headless --out-file ci.ahr \\
      --out-branch-points points.json -- make test")]
pub struct RecordArgs {
    /// Recording file, missing or empty [default: where 'nerve recording list' finds it]
    #[arg(long, value_name = "FILE", num_args = 0..=1, value_hint = ValueHint::FilePath)]
    pub out_file: Option<Option<PathBuf>>,
    /// Only show the program, and keep no recording
    #[arg(long, conflicts_with = "out_file")]
    pub no_record: bool,
    /// Write the final lines, interleaved with the snapshots, to this JSON file at the end
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out_branch_points: Option<PathBuf>,
    /// Compression level: 0 is fastest, 11 is smallest
    #[arg(long, default_value_t = 4, value_name = "0-11", value_parser = clap::value_parser!(u8).range(0..=11))]
    pub brotli_q: u8,
    /// Columns of the program's terminal; also requested from this terminal
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(COLS))]
    pub cols: Option<u16>,
    /// Rows of the program's terminal; also requested from this terminal
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(ROWS))]
    pub rows: Option<u16>,
    /// Snapshot socket: 'auto' and 'uds' use a Unix socket, 'tcp:HOST:PORT' a loopback port
    #[arg(long, default_value = "auto", value_name = "auto|uds|tcp:HOST:PORT")]
    pub ipc: Ipc,
    /// Side of the snapshot markers [default: from the settings]
    #[arg(long, value_enum, value_name = "SIDE", conflicts_with_all = ["headless", "plain"])]
    pub gutter: Option<GutterArg>,
    /// Write agent events to this inherited descriptor as length-prefixed SSZ
    #[arg(long, value_name = "FD", value_parser = clap::value_parser!(u32).range(3..))]
    pub events_pipe_fd: Option<u32>,
    /// Show no output and read no keys, for programs that are driven from elsewhere
    #[arg(long)]
    pub headless: bool,
    /// No viewer: pass the program's output through without a status row; the program ends with this terminal
    #[arg(long, conflicts_with = "headless")]
    pub plain: bool,
    /// Keep the viewer open after the program has ended; q quits
    #[arg(long, conflicts_with_all = ["headless", "plain"])]
    pub stay: bool,
    /// Run the commands of Claude Code's shell tool in their own recorded terminals; see 'nerve tools'
    #[arg(long)]
    pub trace_tools: bool,
    /// Session id: 1-64 of A-Z a-z 0-9 _ - [default: a new UUID]
    #[arg(long, value_name = "ID")]
    pub session_id: Option<String>,
    /// Run as the recorder of a viewer: descriptor to report the recorder's address on, and terminal size
    #[arg(long, hide = true, value_name = "FD:COLSxROWS", conflicts_with_all = ["headless", "plain"])]
    pub daemon: Option<DaemonArgs>,
    /// Program and arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}

/// Location of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordingTarget<'a> {
    /// No recording is kept.
    None,
    /// The folder of recordings.
    Library,
    /// The file of this path.
    File(&'a Path),
}

impl RecordArgs {
    /// Returns the location of the recording.
    pub fn target(&self) -> RecordingTarget<'_> {
        match &self.out_file {
            Some(Some(path)) => RecordingTarget::File(path),
            _ if self.no_record => RecordingTarget::None,
            _ => RecordingTarget::Library,
        }
    }
}

/// Options that a viewer passes to its recorder process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DaemonArgs {
    /// The inherited write end of a pipe.
    pub fd: u32,
    /// Size of the program's terminal.
    pub size: Size,
}

impl std::str::FromStr for DaemonArgs {
    type Err = String;
    fn from_str(text: &str) -> Result<DaemonArgs, String> {
        let parsed = || {
            let (fd, size) = text.split_once(':')?;
            let (cols, rows) = size.split_once('x')?;
            Some(DaemonArgs { fd: fd.parse().ok()?, size: Size::new(cols.parse().ok()?, rows.parse().ok()?) })
        };
        parsed().ok_or_else(|| "expected FD:COLSxROWS".to_string())
    }
}

impl std::fmt::Display for DaemonArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}x{}", self.fd, self.size.cols, self.size.rows)
    }
}

/// Transport of the snapshot socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ipc {
    Unix,
    Tcp(SocketAddr),
}

impl std::str::FromStr for Ipc {
    type Err = String;
    fn from_str(text: &str) -> Result<Ipc, String> {
        match text.strip_prefix("tcp:") {
            Some(addr) => {
                let addr: SocketAddr = addr
                    .parse()
                    .map_err(|_| "expected an address and a port, such as tcp:127.0.0.1:0".to_string())?;
                match addr.ip().is_loopback() {
                    true => Ok(Ipc::Tcp(addr)),
                    false => Err("only loopback addresses are allowed: others on the network could write to the recording".to_string()),
                }
            }
            None if text == "auto" || text == "uds" => Ok(Ipc::Unix),
            None => Err("expected auto, uds or tcp:HOST:PORT".to_string()),
        }
    }
}
