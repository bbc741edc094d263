//! `nerve replay`, `branch-points`, `export`, `import`, `inspect` and `recordings`: what can be done with a recording.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use nerve_record::export::{CastVersion, Format, ReportFormat};

use super::snapshot::ByteCount;

/// Which recording; the newest one if none is named.
#[derive(Debug, Clone, Args)]
#[group(multiple = false)]
pub(crate) struct OfRecording {
    /// A file, an id or the beginning of an id; the newest recording if none is given
    #[arg(value_name = "FILE|ID", value_hint = ValueHint::FilePath)]
    pub(crate) recording: Option<String>,
    /// The same, as 'ah agent' spells it
    #[arg(long, value_name = "ID|FILE", value_hint = ValueHint::FilePath)]
    pub(crate) session: Option<String>,
}

impl OfRecording {
    /// What the user named.
    pub(crate) fn named(&self) -> Option<&str> {
        self.recording.as_deref().or(self.session.as_deref())
    }
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
In a terminal it is shown on the alternate screen, in the size it was recorded in, and leaves its last screen
behind. Where standard output is something else, the recorded output is written there in its time.

KEYS
  space        pause, and go on
  .            one step
  left, right  5 seconds back or on
  q, Ctrl+C    leave

EXAMPLES
  nerve replay
  nerve replay 0195e3a1-77aa --speed 4 --idle-limit 1
  nerve replay run.ahr --from 2:30
  nerve replay run.ahr --fast --no-colors | less
  nerve replay run.ahr --print-meta --json")]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) of: OfRecording,
    /// Times as fast
    #[arg(long, default_value = "1", value_name = "N", allow_negative_numbers = true)]
    pub(crate) speed: Speed,
    /// The longest time in which nothing happens, in seconds of the recording
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) idle_limit: Option<super::node::Seconds>,
    /// Begin there: seconds, M:S or H:M:S from the start, or +BYTES of output
    #[arg(long, value_name = "TIME|+BYTES", allow_negative_numbers = true)]
    pub(crate) from: Option<From>,
    /// Print the final state of all lines at once
    #[arg(long, conflicts_with_all = ["from", "print_meta"])]
    pub(crate) fast: bool,
    /// Look at it in the viewer: see 'nerve view --help'
    #[arg(long, conflicts_with_all = ["from", "fast", "print_meta", "speed", "idle_limit"])]
    pub(crate) viewer: bool,
    /// No colours; also by NO_COLOR
    #[arg(long, alias = "no-colours")]
    pub(crate) no_colors: bool,
    /// Print what is known of the recording, and do not show it
    #[arg(long, conflicts_with = "from")]
    pub(crate) print_meta: bool,
    /// Print it as JSON
    #[arg(short, long, requires = "print_meta")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Shows the end of the session in a frame of the recorded size. Keys are those of less: j k f b d u g G, / ? n N, q; 'h' shows all of
them, those for the time too. Snapshots are marked by ▶.

EXAMPLES
  nerve view
  nerve view 0195e3a1-77aa
  nerve view run.ahr --gutter left")]
pub(crate) struct ViewArgs {
    #[command(flatten)]
    pub(crate) of: OfRecording,
    /// Where snapshots are marked, whatever the settings say
    #[arg(long, value_enum, value_name = "SIDE")]
    pub(crate) gutter: Option<GutterArg>,
    /// No colours; also by NO_COLOR
    #[arg(long, alias = "no-colours")]
    pub(crate) no_colors: bool,
}

/// Where snapshots are marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum GutterArg {
    /// Left of the lines.
    Left,
    /// Right of them.
    Right,
    /// Nowhere.
    None,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve branch-points
  nerve branch-points run.ahr | less
  nerve branch-points 0195e3a1-77aa --json |
      jq '.[] | select(.kind == \"snapshot\")'")]
pub(crate) struct BranchPointsArgs {
    #[command(flatten)]
    pub(crate) of: OfRecording,
    /// Print lines and snapshots as one JSON array
    #[arg(short, long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Reports (md, json, csv, txt) have the final lines of the session, each followed by its snapshots.
Casts have all output with its times, and snapshots as markers.

EXAMPLES
  nerve export run.ahr --format md -o run.md
  nerve export 0195e3a1-77aa --format json | jq '.[].text'
  nerve export run.ahr --format asciicast2 -o run.cast &&
      asciinema play run.cast")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) of: OfRecording,
    /// The form
    #[arg(short, long, value_enum)]
    pub(crate) format: FormatName,
    /// Write it here; '-' is standard output
    #[arg(short, long, value_name = "OUT", default_value = "-", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Put what was typed into a cast too
    #[arg(long)]
    pub(crate) input: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve import demo.cast
  nerve import demo.cast -o demo.ahr && nerve replay demo.ahr
  xz -dc demo.cast.xz | nerve import - -o demo.ahr")]
pub(crate) struct ImportArgs {
    /// An asciicast of version 2 or 3; '-' reads standard input
    #[arg(value_name = "FILE.cast", value_hint = ValueHint::FilePath)]
    pub(crate) cast: PathBuf,
    /// The recording to make, which must not exist; beside the cast if not given
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Print what was made as JSON
    #[arg(short, long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Exits with 1 when something is damaged.

EXAMPLES
  nerve inspect run.ahr
  nerve inspect run.ahr --blocks
  nerve inspect run.ahr --json | jq .summary")]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) of: OfRecording,
    /// Only the blocks, without their records
    #[arg(long)]
    pub(crate) blocks: bool,
    /// Print it as JSON
    #[arg(short, long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RecordingsArgs {
    #[command(subcommand)]
    pub(crate) command: RecordingsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RecordingsCommand {
    /// List the recordings there are, the newest first
    List(ListArgs),
    /// Remove old recordings, or the oldest when they take too much room, and the folders of branches that nothing needs any more
    Prune(PruneArgs),
    /// List the folders with the files of branches: who works there, and what is only there
    Branches(BranchesArgs),
    /// Make a clean copy of a damaged recording
    Repair(RepairArgs),
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve recordings list
  nerve recordings list --json | jq -r '.[0].path'")]
pub(crate) struct ListArgs {
    /// Only so many
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) last: Option<usize>,
    /// Print them as JSON
    #[arg(short, long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve recordings branches
  nerve recordings branches --json | jq -r '.[] | select(.changed) | .path'")]
pub(crate) struct BranchesArgs {
    /// Print them as JSON
    #[arg(short, long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
A recording that is being written stays. Files that snapshots kept are not touched.

The folder of a branch goes when no node works there and no recording is left that it goes on from or that was made in it. It stays if
something in it is nowhere else: files that are neither as they were restored nor committed, commits on no branch. What stays, is said with
the reason; --force removes it all the same. A branch of git with commits of its own stays.

EXAMPLES
  nerve recordings prune --older-than 30d --dry-run
  nerve recordings prune --max-size 10G
  nerve recordings prune --older-than 2w --max-size 5G --json
  nerve recordings prune --branches --dry-run")]
#[group(id = "rule", required = true, multiple = true, args = ["older_than", "max_size", "branches"])]
pub(crate) struct PruneArgs {
    /// Those that ended longer ago: 12h, 30d, 2w …
    #[arg(long, value_name = "AGE")]
    pub(crate) older_than: Option<Age>,
    /// The oldest, until what is left takes no more than this: 500M, 10G …
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_size: Option<ByteCount>,
    /// The folders of branches that no node works in, whether or not their recordings are there
    #[arg(long)]
    pub(crate) branches: bool,
    /// Folders of branches also with what is nowhere else
    #[arg(long)]
    pub(crate) force: bool,
    /// Only say what would be removed
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Print it as JSON
    #[arg(short, long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve recordings repair run.ahr
  nerve recordings repair 0195e3a1-77aa -o clean.ahr --json")]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    pub(crate) of: OfRecording,
    /// The copy to make, which must not exist; 'NAME-repaired.ahr' beside the recording if not given
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Print what was kept and lost as JSON
    #[arg(short, long)]
    pub(crate) json: bool,
}

/// The names of [`Format`].
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum FormatName {
    /// A Markdown table of lines and snapshots
    Md,
    /// A JSON array of lines and snapshots
    Json,
    /// The same as CSV
    Csv,
    /// The lines, and snapshots as lines that begin with ▶
    Txt,
    /// asciicast version 2, for asciinema 2 and 3
    Asciicast2,
    /// asciicast version 3, for asciinema 3
    Asciicast3,
}

impl FormatName {
    pub(crate) fn format(self) -> Format {
        match self {
            FormatName::Md => Format::Report(ReportFormat::Md),
            FormatName::Json => Format::Report(ReportFormat::Json),
            FormatName::Csv => Format::Report(ReportFormat::Csv),
            FormatName::Txt => Format::Report(ReportFormat::Txt),
            FormatName::Asciicast2 => Format::Cast(CastVersion::V2),
            FormatName::Asciicast3 => Format::Cast(CastVersion::V3),
        }
    }
}

/// How many times as fast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Speed(pub(crate) f64);

impl FromStr for Speed {
    type Err = String;
    fn from_str(text: &str) -> Result<Speed, String> {
        let speed: f64 = text.parse().map_err(|_| "not a number".to_string())?;
        let sensible = (0.001..=1e6).contains(&speed);
        if sensible { Ok(Speed(speed)) } else { Err("must be from 0.001 to 1000000".to_string()) }
    }
}

/// A place in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// This long after its start.
    Time(Duration),
    /// Before output byte number this.
    Offset(u64),
}

impl FromStr for From {
    type Err = String;
    fn from_str(text: &str) -> Result<From, String> {
        let wrong = || "write it as seconds, M:S, H:M:S or +BYTES".to_string();
        if let Some(bytes) = text.strip_prefix('+') {
            return bytes.parse().map(From::Offset).map_err(|_| wrong());
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
            .map(From::Time)
            .ok_or_else(wrong)
    }
}

/// A time span for people: a whole number and s, m, h, d or w.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Age(pub(crate) Duration);

impl FromStr for Age {
    type Err = String;
    fn from_str(text: &str) -> Result<Age, String> {
        let wrong = || "write it like 12h, 30d, 2w".to_string();
        let end = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit) = text.split_at(end);
        let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("w", 604_800)];
        let (_, seconds) = units.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        number.checked_mul(seconds).map(|all| Age(Duration::from_secs(all))).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_times_or_bytes() {
        let time = |millis: u64| Ok(From::Time(Duration::from_millis(millis)));
        assert_eq!("12.5".parse(), time(12_500));
        assert_eq!("2:30".parse(), time(150_000));
        assert_eq!("1:02:03.5".parse(), time(3_723_500));
        assert_eq!("+198000".parse(), Ok(From::Offset(198_000)));
        for text in ["", "-1", "1:2:3:4", "a", "+", "+-1", "1:-2", ":1", "1e30", "99999999999999999999:1"] {
            assert!(text.parse::<From>().is_err(), "{text}");
        }
    }

    #[test]
    fn ages_have_a_unit() {
        let hours = |hours: u64| Ok(Age(Duration::from_secs(hours * 3600)));
        assert_eq!("12h".parse(), hours(12));
        assert_eq!("30d".parse(), hours(720));
        assert_eq!("2w".parse(), hours(336));
        for text in ["", "12", "h", "1.5h", "-1d", "1y", "99999999999999999999w", "9999999999999999999w"] {
            assert!(text.parse::<Age>().is_err(), "{text}");
        }
    }

    #[test]
    fn speeds_are_sensible() {
        assert_eq!("0.5".parse(), Ok(Speed(0.5)));
        for text in ["0", "-1", "nan", "inf", "x"] {
            assert!(text.parse::<Speed>().is_err(), "{text}");
        }
    }
}
