//! `nerve record`: a program in this terminal, recorded.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

#[derive(Debug, Args)]
#[command(after_long_help = "\
The program runs as if it had been started by the shell: its output, your keys, the window's size and its exit code pass through.
Nothing is written to disk unless asked with --out-file or --out-branch-points; the sockets are there always. In the program's
environment NERVE_RECORDER_SOCKET says where 'nerve snapshot' announces snapshots.

EXAMPLES
  nerve record --out-file session.ahr -- claude
  nerve record --out-file -- codex              in the folder of recordings, named by its session id
  nerve record --cols 100 --rows 30 --out-file demo.ahr -- bash
  nerve record --headless --out-file ci.ahr --out-branch-points points.json -- make test")]
pub(crate) struct RecordArgs {
    /// Record into this file; without a name, where 'nerve recordings list' finds it. It must not exist yet
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
    /// Where the viewer marks snapshots; the program's own output, as shown now, has no such column
    #[arg(long, value_enum, default_value_t = Gutter::Right)]
    pub(crate) gutter: Gutter,
    /// Write what the agent does to this inherited descriptor, as length-prefixed SSZ events
    #[arg(long, value_name = "FD", value_parser = clap::value_parser!(u32).range(3..))]
    pub(crate) events_pipe_fd: Option<u32>,
    /// Show nothing and read no keys: for programs that are driven from elsewhere
    #[arg(long)]
    pub(crate) headless: bool,
    /// Names the session: 1 to 64 of A-Z a-z 0-9 _ -; a new UUID if not given
    #[arg(long, value_name = "ID")]
    pub(crate) session_id: Option<String>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Gutter {
    Left,
    Right,
    None,
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
