//! `nerve snapshot`: a mark in the recording, with the files as they are at it.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use nerve_record::files::DEFAULT_LIMIT;

use super::node::Seconds;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_long_help = "\
Run inside a recorded terminal, it waits until the recording has the snapshot on disk, and only then keeps the files: of a git work
tree as a commit under refs/nerve/snapshots that no branch shows, of another directory as a copy. From another terminal, --session says
of what: its files are then those of the directory in which its program was started.

EXAMPLES
  nerve snapshot --label 'tests pass'
  nerve snapshot --session reviewer --label 'before the change'
  nerve snapshot list
  nerve snapshot restore 3 --to /tmp/before")]
pub(crate) struct SnapshotArgs {
    #[command(flatten)]
    pub(crate) take: TakeArgs,
    #[command(subcommand)]
    pub(crate) command: Option<SnapshotCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Give the files of a snapshot back, into an empty directory
    Restore(RestoreArgs),
    /// List the snapshots of a recording, and the files that are kept
    List(ListArgs),
}

/// What taking a snapshot needs. Also of `ah agent fs snapshot`.
#[derive(Debug, Args)]
pub(crate) struct TakeArgs {
    /// A name for people
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// Its number in the session; the next free one if not given
    #[arg(long, value_name = "N")]
    pub(crate) id: Option<u64>,
    /// Of what runs elsewhere: a node, or the beginning of the id of a recorded session or of a host ('nerve host list')
    #[arg(short, long, value_name = "ID|NODE", conflicts_with = "socket")]
    pub(crate) session: Option<String>,
    /// Whose files to keep, instead of the current directory's, or of that of --session
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
    /// The most bytes to copy, or to add to a git repository: 500M, 2G …
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    pub(crate) limit: ByteCount,
    /// Only make the mark in the recording
    #[arg(long, conflicts_with_all = ["dir", "limit"])]
    pub(crate) no_files: bool,
    /// The recorder, instead of $NERVE_RECORDER_SOCKET or $AH_RECORDER_IPC_SOCKET: a path or tcp:HOST:PORT
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<String>,
    /// Seconds until the recorder must have confirmed
    #[arg(short, long, default_value = "10", value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) timeout: Seconds,
    /// Print it as JSON
    #[arg(short, long)]
    pub(crate) json: bool,
}

impl TakeArgs {
    /// As if only `--session` was given.
    pub(crate) fn of_session(session: String) -> TakeArgs {
        TakeArgs {
            label: None,
            id: None,
            session: Some(session),
            dir: None,
            limit: ByteCount(DEFAULT_LIMIT),
            no_files: false,
            socket: None,
            timeout: Seconds(Duration::from_secs(10)),
            json: false,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve snapshot restore 3 --to /tmp/before
  nerve snapshot restore 3 --session 0195e3a1-77aa --to ~/before
  nerve snapshot restore 3 --session run.ahr --dir ~/project --to ~/before")]
pub(crate) struct RestoreArgs {
    /// Its number
    #[arg(value_name = "ID")]
    pub(crate) id: u64,
    /// Where the files go: an empty directory, or none yet
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) to: PathBuf,
    #[command(flatten)]
    pub(crate) of: OfSession,
    /// Print it as JSON
    #[arg(short, long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve snapshot list
  nerve snapshot list 0195e3a1-77aa
  nerve snapshot list run.ahr --json | jq -r '.[].label'")]
pub(crate) struct ListArgs {
    /// The session or its recording, instead of the one this runs in
    #[arg(value_name = "SESSION|FILE", value_hint = ValueHint::FilePath, conflicts_with = "session")]
    pub(crate) recording: Option<String>,
    #[command(flatten)]
    pub(crate) of: OfSession,
    /// Print them as JSON
    #[arg(short, long)]
    pub(crate) json: bool,
}

/// Whose snapshots are meant.
#[derive(Debug, Args)]
pub(crate) struct OfSession {
    /// The session or its recording, instead of the one this runs in
    #[arg(short, long, value_name = "SESSION|FILE", value_hint = ValueHint::FilePath)]
    pub(crate) session: Option<String>,
    /// The git work tree to look in, instead of where the files came from
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}

/// Bytes: a whole number, and K, M, G or T for powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteCount(pub(crate) u64);

impl FromStr for ByteCount {
    type Err = String;
    fn from_str(text: &str) -> Result<ByteCount, String> {
        let wrong = || "write it as bytes or like 500M, 2G".to_string();
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit = unit.trim_end_matches("iB").trim_end_matches('B');
        let shift = ["", "K", "M", "G", "T"].iter().position(|&known| unit.eq_ignore_ascii_case(known));
        let factor = 1_u64 << (10 * shift.ok_or_else(wrong)?);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        number.checked_mul(factor).map(ByteCount).ok_or_else(|| "that is too much".to_string())
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;

    #[test]
    fn what_is_not_said_is_as_on_the_command_line() {
        let matches = TakeArgs::augment_args(clap::Command::new("snapshot")).get_matches_from([
            "snapshot",
            "--session",
            "me",
        ]);
        let args = TakeArgs::from_arg_matches(&matches).unwrap();
        assert_eq!(format!("{args:?}"), format!("{:?}", TakeArgs::of_session("me".into())));
    }

    #[test]
    fn sizes_are_bytes_with_or_without_a_unit() {
        let bytes = |text: &str| text.parse::<ByteCount>().map(|size| size.0);
        assert_eq!(bytes("0"), Ok(0));
        assert_eq!(bytes("1000"), Ok(1000));
        assert_eq!(bytes("1000B"), Ok(1000));
        for text in ["2k", "2K", "2KB", "2KiB"] {
            assert_eq!(bytes(text), Ok(2048), "{text}");
        }
        assert_eq!(bytes("1G"), Ok(1 << 30));
        assert_eq!(bytes("16777215T"), Ok(16_777_215 << 40));
        for text in ["", "G", "-1", "1.5G", "1 G", "1X", "1GG", "16777216T", "99999999999999999999"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
