//! `nerve recording`: commands on recordings.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum, ValueHint};
use nerve_api::request::Seconds;
use nerve_commands::node_command::TIME_UNITS;
use nerve_record::export::{CastVersion, Format, ReportFormat};
use nerve_types::ByteCount;

use super::extract::ExtractArgs;

/// Selects a recording; the newest one by default.
#[derive(Debug, Clone, Args)]
#[group(multiple = false)]
pub struct RecordingSelector {
    /// Recording: file, NODE, NODE@2 (the second newest), SESSION/NODE, MACHINE/SESSION/NODE, or beginning of an id [default: the newest]
    #[arg(value_name = "RECORDING", value_hint = ValueHint::FilePath)]
    pub recording: Option<String>,
    /// Recording, as an option
    #[arg(long = "recording", alias = "session", value_name = "RECORDING", value_hint = ValueHint::FilePath)]
    pub session: Option<String>,
}

impl RecordingSelector {
    /// Returns the file or name of the recording, if one was given.
    pub fn name(&self) -> Option<&str> {
        self.recording.as_deref().or(self.session.as_deref())
    }
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
In a terminal, plays on the alternate screen in the recorded size and leaves the last screen behind. Elsewhere, writes the recorded output
with its original timing.

KEYS
  space        pause or resume
  .            one step
  left, right  5 seconds back or forward
  q, Ctrl+C    quit

EXAMPLES
  nerve replay
  nerve replay 0195e3a1-77aa --speed 4 --idle-limit 1
  nerve replay run.ahr --from 2:30
  nerve replay run.ahr --fast --no-colors | less
  nerve replay run.ahr --print-meta --json")]
pub struct ReplayArgs {
    #[command(flatten)]
    pub source: RecordingSelector,
    /// Playback speed
    #[arg(long, default_value = "1", value_name = "N", allow_negative_numbers = true)]
    pub speed: Speed,
    /// Limit pauses to this many seconds of the recording
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub idle_limit: Option<nerve_commands::node_command::DurationArg>,
    /// Start position: seconds, M:S or H:M:S from the start, or +BYTES of output
    #[arg(long, value_name = "TIME|+BYTES", allow_negative_numbers = true)]
    pub from: Option<StartPosition>,
    /// Print the final state of all lines
    #[arg(long, conflicts_with_all = ["from", "print_meta"])]
    pub fast: bool,
    /// Open the viewer; see 'nerve view --help'
    #[arg(long, conflicts_with_all = ["from", "fast", "print_meta", "speed", "idle_limit"])]
    pub viewer: bool,
    /// Disable colours, like NO_COLOR
    #[arg(long, alias = "no-colours")]
    pub no_colors: bool,
    /// Print the recording's metadata instead of playing it
    #[arg(long, conflicts_with = "from")]
    pub print_meta: bool,
    /// Print as JSON
    #[arg(short, long, requires = "print_meta")]
    pub json: bool,
    /// Print a report of the final lines and snapshots, or another format of 'nerve recording export', instead of playing
    #[arg(long, value_enum, conflicts_with_all = ["from", "fast", "viewer", "print_meta", "speed", "idle_limit"])]
    pub format: Option<FormatName>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Starts at the end of the session, in a frame of the recorded size. Keys are those of less: j k f b d u g G, / ? n N, q; 'h' lists all
keys, including those for seeking in time. ▶ marks a snapshot; 'i' opens the entry for a task that continues from it.

EXAMPLES
  nerve view
  nerve view reviewer
  nerve view night/reviewer@2
  nerve view 0195e3a1-77aa
  nerve view run.ahr --at 1:30
  nerve view run.ahr --gutter left")]
pub struct ViewArgs {
    #[command(flatten)]
    pub source: RecordingSelector,
    /// Side of the snapshot markers [default: from the settings]
    #[arg(long, value_enum, value_name = "SIDE")]
    pub gutter: Option<GutterArg>,
    /// Show this moment: seconds, M:S or H:M:S from the start [default: the end]
    #[arg(long, value_name = "TIME", value_parser = start_time, conflicts_with = "task")]
    pub at: Option<Duration>,
    /// Open the task entry at the end [default: from the settings]
    #[arg(long)]
    pub task: bool,
    /// Disable colours, like NO_COLOR
    #[arg(long, alias = "no-colours")]
    pub no_colors: bool,
}

/// Side of the snapshot markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum GutterArg {
    /// Left of the lines.
    Left,
    /// Right of the lines.
    Right,
    /// No markers.
    None,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve recording branch-points
  nerve recording branch-points run.ahr | less
  nerve recording branch-points 0195e3a1-77aa --json |
      jq '.items[] | select(.kind == \"snapshot\")'")]
pub struct BranchPointsArgs {
    #[command(flatten)]
    pub source: RecordingSelector,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Reports (md, json, csv, txt) contain the final lines of the session, each followed by its snapshots.
Casts contain all output with its timing, and snapshots as markers.

EXAMPLES
  nerve recording export run.ahr --format md -o run.md
  nerve recording export 0195e3a1-77aa --format json | jq '.items[].text'
  nerve recording export reviewer -f md -o conversation.md
  nerve recording export reviewer -f svg --idle-limit 1 -o demo.svg
  nerve recording export run.ahr --format asciicast2 -o run.cast &&
      asciinema play run.cast")]
pub struct ExportArgs {
    #[command(flatten)]
    pub source: RecordingSelector,
    /// Output format
    #[arg(long, short_alias = 'f', value_enum)]
    pub format: FormatName,
    /// Output file; '-' is standard output
    #[arg(short, long, value_name = "OUT", default_value = "-", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Include typed input in a cast
    #[arg(long = "with-input", alias = "input")]
    pub input: bool,
    /// Limit pauses to this many seconds of the recording
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub idle_limit: Option<nerve_commands::node_command::DurationArg>,
    /// Print as JSON which file was written; needs --output
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve recording import demo.cast
  nerve recording import demo.cast -o demo.ahr && nerve replay demo.ahr
  xz -dc demo.cast.xz | nerve recording import - -o demo.ahr")]
pub struct ImportArgs {
    /// Asciicast file, version 2 or 3; '-' reads standard input
    #[arg(value_name = "FILE.cast", value_hint = ValueHint::FilePath)]
    pub cast: PathBuf,
    /// Recording to create; must not exist [default: next to the cast]
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Exits with 1 if the recording is damaged.

EXAMPLES
  nerve recording inspect run.ahr
  nerve recording inspect run.ahr --blocks
  nerve recording inspect run.ahr --json | jq .summary")]
pub struct InspectArgs {
    #[command(flatten)]
    pub source: RecordingSelector,
    /// Show blocks without their records
    #[arg(long)]
    pub blocks: bool,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct RecordingArgs {
    #[command(subcommand)]
    pub command: RecordingCommand,
}

#[derive(Debug, Subcommand)]
pub enum RecordingCommand {
    /// List the recordings, last written first
    #[command(alias = "ls")]
    List(ListArgs),
    #[command(flatten)]
    File(RecordingFileCommand),
    /// List branch folders, the nodes that use them and their unsaved changes
    Branches(BranchesArgs),
    /// Remove old recordings by age or total size, and unneeded branch folders
    Prune(PruneArgs),
    /// Make a clean copy of a damaged recording
    Repair(RepairArgs),
}

/// Commands on one recording, which also exist at the top level.
#[derive(Debug, Subcommand)]
pub enum RecordingFileCommand {
    /// Browse a recording: scroll, search, seek
    View(ViewArgs),
    /// Play a recording, or print its final state
    Replay(ReplayArgs),
    /// Print the final lines of a recorded session, interleaved with its snapshots
    BranchPoints(BranchPointsArgs),
    /// Convert a recording to md, json, csv, txt or asciicast
    Export(ExportArgs),
    /// Convert an asciicast to a recording
    Import(ImportArgs),
    /// Show the blocks of a recording and report damage
    Inspect(InspectArgs),
    /// Parse an agent's answers out of a log, a recording, a pane or standard input
    Extract(Box<ExtractArgs>),
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve recording list
  nerve recording list --json | jq -r '.recordings[0].path'
  nerve recording list --server tls://build.example.com:7070")]
pub struct ListArgs {
    /// List the newest N
    #[arg(short = 'n', long = "lines", alias = "last", value_name = "N")]
    pub last: Option<usize>,
    /// Server whose machine has the recordings: NAME, tcp://HOST:PORT or tls://HOST:PORT [default: this machine]
    #[arg(long, value_name = "SERVER")]
    pub server: Option<String>,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve recording branches
  nerve recording branches --json |
      jq -r '.branches[] | select(.changed) | .path'")]
pub struct BranchesArgs {
    /// Server whose machine has the recordings: NAME, tcp://HOST:PORT or tls://HOST:PORT [default: this machine]
    #[arg(long, value_name = "SERVER")]
    pub server: Option<String>,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Recordings in progress and the stored files of snapshots are kept.

The folder of a branch is removed when no node uses it and neither its source recording nor a recording made in it is left. It is kept
while it has unsaved changes: modified files that are not committed, or commits on no branch. The output lists what is kept and why;
--force removes such folders too. Git branches with their own commits are kept.

EXAMPLES
  nerve recording prune --older-than 30d --dry-run
  nerve recording prune --max-size 10G
  nerve recording prune --older-than 2w --max-size 5G --json
  nerve recording prune --branches --dry-run
  nerve recording prune --older-than 30d --server tls://build.example.com:7070")]
#[command(group(ArgGroup::new("rule").required(true).multiple(true).args(["older_than", "max_size", "branches"])))]
pub struct PruneArgs {
    /// Remove recordings that ended longer ago: 12h, 30d, 2w …
    #[arg(long, value_name = "AGE", value_parser = removal_age)]
    pub older_than: Option<Age>,
    /// Keep the newest recordings that fit into a size: 500M, 10G …
    #[arg(long, value_name = "SIZE")]
    pub max_size: Option<ByteCount>,
    /// Remove branch folders without a node, even if their recordings exist
    #[arg(long)]
    pub branches: bool,
    /// Also remove branch folders with unsaved changes
    #[arg(long)]
    pub force: bool,
    /// Print what would be removed
    #[arg(long, short_alias = 'n')]
    pub dry_run: bool,
    /// Server whose machine has the recordings: NAME, tcp://HOST:PORT or tls://HOST:PORT [default: this machine]
    #[arg(long, value_name = "SERVER")]
    pub server: Option<String>,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve recording repair run.ahr
  nerve recording repair 0195e3a1-77aa -o clean.ahr --json")]
pub struct RepairArgs {
    #[command(flatten)]
    pub source: RecordingSelector,
    /// Copy to create; must not exist [default: NAME-repaired.ahr next to the recording]
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

/// Formats of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatName {
    /// Markdown: the transcript of an agent, otherwise a table of lines and snapshots
    Md,
    /// The transcript as a page
    Html,
    /// Animated image
    Svg,
    /// JSON array of lines and snapshots
    Json,
    /// CSV of lines and snapshots
    Csv,
    /// Lines as text; snapshots as lines that begin with ▶
    Txt,
    /// asciicast version 2, for asciinema 2 and 3
    Asciicast2,
    /// asciicast version 3, for asciinema 3
    Asciicast3,
}

impl FormatName {
    /// Returns the format of the recorded terminal; `None` for the transcript as a page.
    pub fn format(self) -> Option<Format> {
        match self {
            FormatName::Md => Some(Format::Report(ReportFormat::Md)),
            FormatName::Html => None,
            FormatName::Svg => Some(Format::Svg),
            FormatName::Json => Some(Format::Report(ReportFormat::Json)),
            FormatName::Csv => Some(Format::Report(ReportFormat::Csv)),
            FormatName::Txt => Some(Format::Report(ReportFormat::Txt)),
            FormatName::Asciicast2 => Some(Format::Cast(CastVersion::V2)),
            FormatName::Asciicast3 => Some(Format::Cast(CastVersion::V3)),
        }
    }
}

/// Playback speed factor, from 0.001 to 1000000.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed(pub f64);

impl FromStr for Speed {
    type Err = String;
    fn from_str(text: &str) -> Result<Speed, String> {
        let speed: f64 = text.parse().map_err(|_| "not a number".to_string())?;
        let sensible = (0.001..=1e6).contains(&speed);
        if sensible { Ok(Speed(speed)) } else { Err("must be from 0.001 to 1000000".to_string()) }
    }
}

/// A position in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartPosition {
    /// Time since the start.
    Time(Duration),
    /// Offset in the output, in bytes.
    Offset(u64),
}

impl FromStr for StartPosition {
    type Err = String;
    fn from_str(text: &str) -> Result<StartPosition, String> {
        let wrong = || "expected seconds, M:S, H:M:S or +BYTES".to_string();
        if let Some(bytes) = text.strip_prefix('+') {
            return bytes.parse().map(StartPosition::Offset).map_err(|_| wrong());
        }
        let fields: Vec<&str> = text.split(':').collect();
        let [before @ .., seconds] = fields.as_slice() else { return Err(wrong()) };
        if before.len() > 2 {
            return Err(wrong());
        }
        let whole = before.iter().try_fold(0u64, |sum, field| {
            let number: u64 = field.parse().ok()?;
            sum.checked_add(number)?.checked_mul(60)
        });
        let seconds: f64 = seconds.parse().map_err(|_| wrong())?;
        let seconds = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
        whole
            .and_then(|whole| Duration::from_secs(whole).checked_add(seconds))
            .map(StartPosition::Time)
            .ok_or_else(wrong)
    }
}

/// Parses a time since the start.
fn start_time(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(StartPosition::Time(time)) => Ok(time),
        _ => Err("expected seconds, M:S or H:M:S".to_string()),
    }
}

/// A time span: a whole number followed by s, m, h, d or w.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age(pub Duration);

impl FromStr for Age {
    type Err = String;
    fn from_str(text: &str) -> Result<Age, String> {
        let wrong = || "expected a time span such as 12h, 30d or 2w".to_string();
        let end = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit) = text.split_at(end);
        let (_, seconds) = TIME_UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        number.checked_mul(seconds.into()).map(|all| Age(Duration::from_secs(all))).ok_or_else(wrong)
    }
}

/// Parses the age of data to remove, at most a year. A request cannot hold a longer time, and a shortened one would remove more.
pub(crate) fn removal_age(text: &str) -> Result<Age, String> {
    let age: Age = text.parse()?;
    match age.0.as_secs_f64() <= Seconds::MAX {
        true => Ok(age),
        false => Err("must be at most a year: 365d".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removal_age_is_at_most_a_year() {
        assert_eq!(removal_age("365d"), "365d".parse());
        assert!(removal_age("53w").is_err() && removal_age("x").is_err());
    }

    #[test]
    fn position_is_time_or_byte_offset() {
        let time = |millis: u64| Ok(StartPosition::Time(Duration::from_millis(millis)));
        assert_eq!("12.5".parse(), time(12_500));
        assert_eq!("2:30".parse(), time(150_000));
        assert_eq!("1:02:03.5".parse(), time(3_723_500));
        assert_eq!("+198000".parse(), Ok(StartPosition::Offset(198_000)));
        for text in ["", "-1", "1:2:3:4", "a", "+", "+-1", "1:-2", ":1", "1e30", "99999999999999999999:1"] {
            assert!(text.parse::<StartPosition>().is_err(), "{text}");
        }
    }

    #[test]
    fn age_needs_a_unit() {
        let hours = |hours: u64| Ok(Age(Duration::from_secs(hours * 3600)));
        assert_eq!("12h".parse(), hours(12));
        assert_eq!("30d".parse(), hours(720));
        assert_eq!("2w".parse(), hours(336));
        for text in ["", "12", "h", "1.5h", "-1d", "1y", "99999999999999999999w", "9999999999999999999w"] {
            assert!(text.parse::<Age>().is_err(), "{text}");
        }
    }

    #[test]
    fn speed_rejects_values_out_of_range() {
        assert_eq!("0.5".parse(), Ok(Speed(0.5)));
        for text in ["0", "-1", "nan", "inf", "x"] {
            assert!(text.parse::<Speed>().is_err(), "{text}");
        }
    }
}
