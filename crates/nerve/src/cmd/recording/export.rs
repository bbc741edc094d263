//! `nerve recording export` and `nerve recording branch-points`.

use std::fs::File;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use jiff::tz::TimeZone;
use nerve_api::reply::Transcript;
use nerve_engine::recordings;
use nerve_engine::transcripts::{read_recording, render};
use nerve_record::ahr::Reader;
use nerve_record::export::{CastOptions, ExportError, Format, ReportFormat, SvgOptions, cast, report, svg};
use nerve_record::replay::TerminalReplay;
use nerve_server::paths::ServerPaths;
use serde_json::json;
use tempfile::{NamedTempFile, TempPath};

use super::{Losses, export_failure, find, format, load_meta, size, write_failure};
use crate::exit::{DONE, Failure, USAGE};
use crate::out;
use nerve_cli::recording::{BranchPointsArgs, ExportArgs, FormatName};

/// Contents of an export that not every format has.
#[derive(Debug, Clone, Copy, Default)]
struct Options {
    /// Include input in a cast.
    input: bool,
    /// Longest pause in an image.
    idle_limit: Option<Duration>,
}

/// Prints the final lines, interleaved with the snapshots.
pub(crate) fn branch_points(args: &BranchPointsArgs) -> Result<u8> {
    let recording = find(&args.source)?;
    recordings::check(&recording)?;
    let format = if args.json { ReportFormat::Json } else { ReportFormat::Txt };
    print(&recording, |out| write(&recording, Format::Report(format), Options::default(), out))
}

/// Prints a recording in another format. Returns the exit code.
pub(super) fn print_format(recording: &Path, format: FormatName) -> Result<u8> {
    print(recording, |out| convert(recording, format, Options::default(), out))
}

fn print(recording: &Path, write: impl FnOnce(&mut BufWriter<StdoutLock<'_>>) -> Result<u8>) -> Result<u8> {
    recordings::check(recording)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let code = write(&mut out)?;
    out.flush().map_err(write_failure)?;
    Ok(code)
}

/// Converts a recording to another format.
pub(crate) fn export(args: &ExportArgs) -> Result<u8> {
    if args.json && args.output == Path::new("-") {
        let failure = Failure::new(USAGE, "--json needs --output: the export itself is standard output");
        return Err(failure.hint("name a file: --output FILE").into());
    }
    let recording = find(&args.source)?;
    recordings::check(&recording)?;
    let options = Options { input: args.input, idle_limit: args.idle_limit.map(|limit| limit.0) };
    let mut out = OutputFile::open(&args.output)?;
    let code = convert(&recording, args.format, options, &mut out.writer)?;
    out.finish()?;
    if args.json {
        let value = args.format.to_possible_value();
        let format = value.as_ref().map(PossibleValue::get_name);
        let bytes = args.output.metadata().map_or(0, |file| file.len());
        out::json(
            &json!({ "recording_path": recording, "format": format, "path": args.output, "bytes": bytes }),
        )?;
    }
    Ok(code)
}

/// Writes the transcript if the format is one of transcripts, and otherwise the content of the terminal.
fn convert(recording: &Path, format: FormatName, options: Options, out: &mut impl Write) -> Result<u8> {
    let transcript = match format {
        FormatName::Md | FormatName::Html => Some(read_recording(recording, &ServerPaths::from_env().data)?),
        _ => None,
    };
    let text = match (&transcript, format.format()) {
        (Some(transcript), Some(_)) if has_prompts(transcript) => {
            render::markdown(transcript, &TimeZone::system())
        }
        (Some(transcript), None) => render::html(transcript, &TimeZone::system()),
        (_, Some(format)) => return write(recording, format, options, out),
        (None, None) => unreachable!("only transcripts have no format of the terminal"),
    };
    out.write_all(out::sanitize(&text).as_bytes()).map_err(write_failure)?;
    Ok(DONE)
}

/// Returns true for the transcript of an agent. A shell without marks has one turn without a prompt.
fn has_prompts(transcript: &Transcript) -> bool {
    transcript.turns.iter().any(|turn| !turn.prompt.is_empty())
}

fn write(recording: &Path, format: Format, options: Options, out: &mut impl Write) -> Result<u8> {
    let mut reader = Reader::open(recording).map_err(|error| export_failure(error.into()))?;
    let meta = load_meta(recording);
    let mut losses = Losses::new(recording);
    let command = (!meta.cmd.is_empty()).then(|| format::command_line(&meta.cmd));
    let size = size(&meta);
    let result = match format {
        Format::Report(format) => {
            let mut replay = TerminalReplay::new(size);
            replay
                .read_rest(&mut reader, |lost| losses.add(lost))
                .map_err(ExportError::from)
                .and_then(|()| Ok(report(format, &replay.terminal, out)?))
        }
        Format::Cast(version) => {
            let Options { input, .. } = options;
            let options =
                CastOptions { size, command, title: meta.title, input, ..CastOptions::new(version) };
            cast(&mut reader, options, out, |lost| losses.add(lost))
        }
        Format::Svg => {
            let options = SvgOptions { size, title: meta.title.or(command), idle_limit: options.idle_limit };
            svg(&mut reader, &options, out, |lost| losses.add(lost))
        }
    };
    losses.add_contradictions(reader.contradictions());
    let code = losses.report();
    result.map_err(export_failure)?;
    Ok(code)
}

/// Standard output, a device or pipe, or a file that gets its final name once it is complete.
pub(crate) struct OutputFile {
    pub(crate) writer: BufWriter<Box<dyn Write>>,
    /// The temporary name and the final one.
    draft: Option<(TempPath, PathBuf)>,
}

impl OutputFile {
    fn new(writer: impl Write + 'static, draft: Option<(TempPath, PathBuf)>) -> OutputFile {
        OutputFile { writer: BufWriter::new(Box::new(writer)), draft }
    }

    pub(crate) fn open(path: &Path) -> Result<OutputFile> {
        if path == Path::new("-") {
            return Ok(OutputFile::new(io::stdout(), None));
        }
        let context = || format!("cannot write {}", path.display());
        if path.metadata().is_ok_and(|meta| !meta.is_file()) {
            let file = File::options().write(true).open(path).with_context(context)?;
            return Ok(OutputFile::new(file, None));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let draft = NamedTempFile::with_prefix_in(".export-", folder).with_context(context)?;
        let (file, draft) = draft.into_parts();
        Ok(OutputFile::new(file, Some((draft, path.into()))))
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        self.writer.flush().map_err(write_failure)?;
        if let Some((draft, path)) = self.draft {
            draft.persist(&path).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}
