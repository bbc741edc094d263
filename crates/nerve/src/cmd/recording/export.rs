//! `nerve recording export` and `nerve recording branch-points`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nerve_engine::recordings;
use nerve_record::ahr::Reader;
use nerve_record::export::{CastOptions, ExportError, Format, ReportFormat, cast, report};
use nerve_record::replay::TerminalReplay;
use tempfile::{NamedTempFile, TempPath};

use super::{Losses, export_failure, find, format, load_meta, size, write_failure};
use nerve_cli::recording::{BranchPointsArgs, ExportArgs};

/// Prints the final lines, interleaved with the snapshots.
pub(crate) fn branch_points(args: &BranchPointsArgs) -> Result<u8> {
    let recording = find(&args.source)?;
    recordings::check(&recording)?;
    let format = if args.json { ReportFormat::Json } else { ReportFormat::Txt };
    print(&recording, Format::Report(format))
}

/// Prints a recording in another format. Returns the exit code.
pub(super) fn print(recording: &Path, format: Format) -> Result<u8> {
    let mut out = BufWriter::new(io::stdout().lock());
    let code = write(recording, format, false, &mut out)?;
    out.flush().map_err(write_failure)?;
    Ok(code)
}

/// Converts a recording to another format.
pub(crate) fn export(args: &ExportArgs) -> Result<u8> {
    let recording = find(&args.source)?;
    recordings::check(&recording)?;
    let mut out = OutputFile::open(&args.output)?;
    let code = write(&recording, args.format.format(), args.input, &mut out.writer)?;
    out.finish()?;
    Ok(code)
}

fn write(recording: &Path, format: Format, input: bool, out: &mut impl Write) -> Result<u8> {
    let mut reader = Reader::open(recording).map_err(|error| export_failure(error.into()))?;
    let meta = load_meta(recording);
    let mut losses = Losses::new(recording);
    let written = match format {
        Format::Report(format) => {
            let mut replay = TerminalReplay::new(size(&meta));
            replay
                .read_rest(&mut reader, |lost| losses.add(lost))
                .map_err(ExportError::from)
                .and_then(|()| Ok(report(format, &replay.terminal, out)?))
        }
        Format::Cast(version) => {
            let command = (!meta.cmd.is_empty()).then(|| format::command_line(&meta.cmd));
            let size = size(&meta);
            let options =
                CastOptions { size, command, title: meta.title, input, ..CastOptions::new(version) };
            cast(&mut reader, options, out, |lost| losses.add(lost))
        }
    };
    losses.contradict(reader.contradictions());
    let code = losses.report();
    written.map_err(export_failure)?;
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
        let cannot = || format!("cannot write {}", path.display());
        if path.metadata().is_ok_and(|meta| !meta.is_file()) {
            let file = File::options().write(true).open(path).with_context(cannot)?;
            return Ok(OutputFile::new(file, None));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let draft = NamedTempFile::with_prefix_in(".export-", folder).with_context(cannot)?;
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
