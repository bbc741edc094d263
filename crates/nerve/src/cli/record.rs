//! `nerve record`: a program in this terminal, recorded.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use nerve_term::event::Size;

use super::recording::GutterArg;

#[derive(Debug, Args)]
#[command(after_long_help = "\
In a terminal the viewer is in front of the program: all of the window but the last row, and a column where snapshots are marked. What you
type goes to the program; ctrl+] and then ? says what else there is, and ctrl+] d leaves it running: 'nerve attach' comes back. With
--plain, and where this is no terminal, output, keys, the window's size and the exit code pass through as if the shell had started it.

Nothing of the output is written to disk unless asked with --out-file or --out-branch-points. The sockets are there always, and so are
snapshots that can be gone on from: what a branch needs of them is kept as long as the program runs. In the program's environment
NERVE_RECORDER_SOCKET says where 'nerve snapshot' announces snapshots.

EXAMPLES
  nerve record --out-file session.ahr -- claude
  nerve record --out-file -- codex       among the recordings, named by its id
  nerve record --cols 100 --rows 30 --out-file demo.ahr -- bash
  nerve record --headless --out-file ci.ahr \\
      --out-branch-points points.json -- make test")]
pub(crate) struct RecordArgs {
    /// Record into this file; without a name, where 'nerve recordings list' finds it. It must not exist yet, or be empty
    #[arg(long, value_name = "FILE", num_args = 0..=1, value_hint = ValueHint::FilePath)]
    pub(crate) out_file: Option<Option<PathBuf>>,
    /// Write the final lines and the snapshots between them into this JSON file at the end
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) out_branch_points: Option<PathBuf>,
    /// Compression: 0 is fastest, 11 is smallest
    #[arg(long, default_value_t = 4, value_name = "0-11", value_parser = clap::value_parser!(u8).range(0..=11))]
    pub(crate) brotli_q: u8,
    /// Columns of the program's terminal; this window is asked to take them on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=4096))]
    pub(crate) cols: Option<u16>,
    /// Rows of the program's terminal; this window is asked to take them on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) rows: Option<u16>,
    /// Where snapshots are announced: 'auto' and 'uds' take a Unix socket, 'tcp:HOST:PORT' one on loopback
    #[arg(long, default_value = "auto", value_name = "auto|uds|tcp:HOST:PORT")]
    pub(crate) ipc: Ipc,
    /// Where the viewer marks snapshots, whatever the settings say
    #[arg(long, value_enum, value_name = "SIDE", conflicts_with_all = ["headless", "plain"])]
    pub(crate) gutter: Option<GutterArg>,
    /// Write what the agent does to this inherited descriptor, as length-prefixed SSZ events
    #[arg(long, value_name = "FD", value_parser = clap::value_parser!(u32).range(3..))]
    pub(crate) events_pipe_fd: Option<u32>,
    /// Show nothing and read no keys: for programs that are driven from elsewhere
    #[arg(long)]
    pub(crate) headless: bool,
    /// No viewer: the program's output as it is, in this window without a status row; the program ends with the window
    #[arg(long, conflicts_with = "headless")]
    pub(crate) plain: bool,
    /// When the program has ended, stay to scroll in what it wrote: q leaves
    #[arg(long, conflicts_with_all = ["headless", "plain"])]
    pub(crate) stay: bool,
    /// Run the commands of Claude Code's shell tool in recorded terminals of their own, to be shown and answered while they run
    #[arg(long)]
    pub(crate) trace_tools: bool,
    /// Names the session: 1 to 64 of A-Z a-z 0-9 _ -; a new UUID if not given
    #[arg(long, value_name = "ID")]
    pub(crate) session_id: Option<String>,
    /// This is the recorder behind a viewer: the descriptor on which it tells where it is, and the size of the program's terminal
    #[arg(long, hide = true, value_name = "FD:COLSxROWS", conflicts_with_all = ["headless", "plain"])]
    pub(crate) behind: Option<Behind>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<String>,
}

/// What a recorder behind a viewer is told by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Behind {
    /// The write end of a pipe that it inherits.
    pub(crate) fd: u32,
    /// Of the program's terminal.
    pub(crate) size: Size,
}

impl std::str::FromStr for Behind {
    type Err = String;
    fn from_str(text: &str) -> Result<Behind, String> {
        let parsed = || {
            let (fd, size) = text.split_once(':')?;
            let (cols, rows) = size.split_once('x')?;
            Some(Behind { fd: fd.parse().ok()?, size: Size::new(cols.parse().ok()?, rows.parse().ok()?) })
        };
        parsed().ok_or_else(|| "FD:COLSxROWS".to_string())
    }
}

impl std::fmt::Display for Behind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}x{}", self.fd, self.size.cols, self.size.rows)
    }
}

/// A transport of the snapshot socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ipc {
    Unix,
    Tcp(SocketAddr),
}

impl std::str::FromStr for Ipc {
    type Err = String;
    fn from_str(text: &str) -> Result<Ipc, String> {
        match text.strip_prefix("tcp:") {
            Some(addr) => {
                let addr: SocketAddr =
                    addr.parse().map_err(|_| "give an address and a port: tcp:127.0.0.1:0".to_string())?;
                match addr.ip().is_loopback() {
                    true => Ok(Ipc::Tcp(addr)),
                    false => Err("only loopback: anybody else could take part in the session".to_string()),
                }
            }
            None if text == "auto" || text == "uds" => Ok(Ipc::Unix),
            None => Err("one of auto, uds, tcp:HOST:PORT".to_string()),
        }
    }
}
