//! `nerve snapshot`: marks a moment in the recording and stores its files.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use nerve_commands::node_command::DurationArg;
use nerve_types::ByteCount;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_long_help = "\
Inside a recorded terminal, the command waits until the snapshot is on disk in the recording and then stores the files: a git work tree as
a commit under refs/nerve/snapshots, outside all branches; any other directory as a copy. From another terminal, select the session with
--recording; the files are then those of its program's start directory.

EXAMPLES
  nerve snapshot --label 'tests pass'
  nerve snapshot --recording reviewer --label 'before the change'
  nerve snapshot list
  nerve snapshot restore 3 --to /tmp/before")]
pub struct SnapshotArgs {
    #[command(flatten)]
    pub take: TakeArgs,
    #[command(subcommand)]
    pub command: Option<SnapshotCommand>,
}

#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Restore the files of a snapshot to an empty directory
    Restore(RestoreArgs),
    /// List the snapshots of a recording and their stored files
    List(ListArgs),
}

/// Options of `nerve snapshot` and `ah agent fs snapshot`.
#[derive(Debug, Args)]
pub struct TakeArgs {
    /// Label
    #[arg(short, long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Snapshot number [default: the next free one in the session]
    #[arg(long, value_name = "N")]
    pub id: Option<u64>,
    /// Running session: node, SESSION/NODE, or beginning of an id ('nerve host list') [default: the enclosing session]
    #[arg(
        long = "recording",
        alias = "session",
        short_alias = 's',
        value_name = "SESSION",
        conflicts_with = "socket"
    )]
    pub session: Option<String>,
    /// Directory to store [default: the current one, or that of --recording]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
    /// Limit for the bytes to copy or to add to a git repository: 500M, 2G …
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    pub limit: ByteCount,
    /// Mark the recording without storing files
    #[arg(long, conflicts_with_all = ["dir", "limit"])]
    pub no_files: bool,
    /// Recorder socket: path or tcp:HOST:PORT [default: $NERVE_RECORDER_SOCKET, $AH_RECORDER_IPC_SOCKET]
    #[arg(long = "recorder-socket", alias = "socket", value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    pub socket: Option<String>,
    /// Time limit for the recorder's confirmation in seconds
    #[arg(short, long, default_value = "10", value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: DurationArg,
    /// Server that has the session, for example on another machine: NAME, tcp://HOST:PORT or tls://HOST:PORT
    #[arg(long, value_name = "SERVER", requires = "session", conflicts_with = "socket")]
    pub server: Option<String>,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve snapshot restore 3 --to /tmp/before
  nerve snapshot restore 3 --recording 0195e3a1-77aa --to ~/before
  nerve snapshot restore 3 --recording run.ahr --dir ~/project --to ~/before")]
pub struct RestoreArgs {
    /// Snapshot number
    #[arg(value_name = "ID")]
    pub id: u64,
    /// Target directory for the files; must be empty or not exist
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub to: PathBuf,
    #[command(flatten)]
    pub source: SnapshotSource,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve snapshot list
  nerve snapshot list 0195e3a1-77aa
  nerve snapshot list run.ahr --json | jq -r '.snapshots[].label'
  nerve snapshot list 0195e3a1-77aa --server tls://build.example.com:7070")]
pub struct ListArgs {
    /// Session: node, id or file of its recording [default: the enclosing session]
    #[arg(value_name = "RECORDING", value_hint = ValueHint::FilePath, conflicts_with = "session")]
    pub recording: Option<String>,
    #[command(flatten)]
    pub source: SnapshotSource,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

/// Selects the session of a snapshot.
#[derive(Debug, Args)]
pub struct SnapshotSource {
    /// Session: node, id or file of its recording [default: the enclosing session]
    #[arg(long = "recording", alias = "session", short_alias = 's', value_name = "RECORDING", value_hint = ValueHint::FilePath)]
    pub session: Option<String>,
    /// Git work tree to search [default: where the snapshot was taken]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
    /// Server that has the snapshots, for example on another machine: NAME, tcp://HOST:PORT or tls://HOST:PORT
    #[arg(long, value_name = "SERVER")]
    pub server: Option<String>,
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;
    use nerve_engine::snapshots::SnapshotOptions;

    use super::*;

    #[test]
    fn defaults_equal_those_of_requests() {
        let matches = TakeArgs::augment_args(clap::Command::new("snapshot")).get_matches_from([
            "snapshot",
            "--session",
            "me",
        ]);
        let args = TakeArgs::from_arg_matches(&matches).unwrap();
        let default = SnapshotOptions::default();
        assert_eq!((args.limit.0, args.timeout.0), (default.limit, default.timeout));
    }
}
