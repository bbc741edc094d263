//! Reads the input of `nerve recording extract`.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use anyhow::{Context, Result};
use nerve_agent::parse::ParserKind;
use nerve_agent::terminal_text::{binary_reason, rows_of};
use nerve_engine::recordings;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_record::ahr::Reader;
use nerve_record::meta::Meta;
use nerve_server::paths::ServerPaths;

use crate::cmd::pane::Multiplexer;
use crate::cmd::recording::{self, Losses};
use crate::exit::{DONE, FAILED, Failure, USAGE};
use nerve_cli::extract::ExtractArgs;

/// Maximum size of a text, in bytes.
const MAX_BYTES: u64 = 64 << 20;
/// First bytes of a recording.
const MAGIC: &[u8] = b"AHRC";

/// Text as a terminal displayed it.
#[derive(Debug)]
pub(super) struct Input {
    /// Name of the source for messages.
    pub(super) source: String,
    /// Rows of the text.
    pub(super) rows: Vec<String>,
    /// Parser known from the recording's metadata.
    pub(super) parser: Option<ParserKind>,
    /// Exit code if the answers are printed: 1 for a damaged recording.
    pub(super) code: u8,
}

/// Reads the selected source.
pub(super) async fn read(args: &ExtractArgs) -> Result<Input> {
    let input = match (&args.pane, args.file.as_deref()) {
        (Some(pane), _) => read_pane(pane, args).await?,
        (None, Some(file)) if file != Path::new("-") => read_file(file, args)?,
        (None, file) => read_standard_input(file.is_some(), args)?,
    };
    if input.rows.is_empty() {
        return Err(Failure::new(FAILED, format!("{} is empty", input.source)).into());
    }
    Ok(input)
}

async fn read_pane(pane: &str, args: &ExtractArgs) -> Result<Input> {
    let multiplexer = Multiplexer::for_pane(pane, args.socket.as_deref());
    let text = multiplexer.text(pane, args.full, None).await?;
    let source = format!("pane {pane} of {}", multiplexer.name());
    // The multiplexer has already joined wrapped rows if it can.
    Ok(Input { source, rows: rows_of(text.as_bytes(), None, args.rows), parser: None, code: DONE })
}

fn read_standard_input(is_requested: bool, args: &ExtractArgs) -> Result<Input> {
    if !is_requested && io::stdin().is_terminal() {
        let message = "no input: give a file, a recording or a pane, or pipe in a text";
        return Err(Failure::new(USAGE, message).hint("for examples: nerve recording extract --help").into());
    }
    let bytes = read_limited(io::stdin().lock(), "standard input")?;
    if bytes.starts_with(MAGIC) {
        let message = "cannot read a recording from standard input";
        return Err(Failure::new(USAGE, message).hint("give the recording's file name").into());
    }
    decode_text(&bytes, "standard input".to_string(), args)
}

fn read_file(path: &Path, args: &ExtractArgs) -> Result<Input> {
    let shown = path.display();
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return read_named_recording(path),
        Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
    };
    if file.metadata().is_ok_and(|meta| meta.is_dir()) {
        return Err(Failure::new(USAGE, format!("{shown} is a directory")).into());
    }
    let mut head = Vec::new();
    (&mut file)
        .take(MAGIC.len() as u64)
        .read_to_end(&mut head)
        .with_context(|| format!("cannot read {shown}"))?;
    if head == MAGIC {
        return read_recording(path);
    }
    let bytes = read_limited(head.chain(file), &shown.to_string())?;
    decode_text(&bytes, shown.to_string(), args)
}

/// Reads a recording by name, for a path that does not exist.
fn read_named_recording(path: &Path) -> Result<Input> {
    let missing = |error: EngineError| {
        let message = format!("no file and no recording '{}'", path.display());
        Failure { message, ..Failure::from(error) }
    };
    match recording::find_named(Some(&path.to_string_lossy())) {
        Ok(path) => read_recording(&path),
        Err(error) => match error.downcast::<EngineError>() {
            Ok(error) if error.kind == ErrorKind::NotFound => Err(missing(error).into()),
            Ok(error) => Err(error.into()),
            Err(error) => Err(error),
        },
    }
}

fn read_recording(path: &Path) -> Result<Input> {
    let meta = recording::load_meta(path);
    let mut reader = Reader::open(path).map_err(recording::read_failure)?;
    let mut losses = Losses::new(path);
    let rows = recordings::final_rows(&mut reader, recording::size(&meta), |lost| losses.add(lost))
        .map_err(recording::read_failure)?;
    losses.add_contradictions(reader.contradictions());
    let code = losses.report();
    let source = format!("recording {}", path.display());
    Ok(Input { source, rows, parser: parser_of(&meta), code })
}

/// Returns the parser of the recorded program's profile, if any.
fn parser_of(meta: &Meta) -> Option<ParserKind> {
    let (profiles, _) = nerve_node::profiles::load(Some(&ServerPaths::from_env().data.profiles));
    let named = meta.profile.as_deref().and_then(|name| profiles.get(name));
    let of_command = || profiles.for_command(&meta.cmd).filter(|_| !meta.cmd.is_empty());
    let parser = named.or_else(of_command)?.parser;
    (parser != ParserKind::None).then_some(parser)
}

fn decode_text(bytes: &[u8], source: String, args: &ExtractArgs) -> Result<Input> {
    if let Some(reason) = binary_reason(bytes) {
        let failure = Failure::new(FAILED, format!("{source} is not a text: {reason}"));
        return Err(failure.hint("give a log, a saved screen or a recording").into());
    }
    Ok(Input { rows: rows_of(bytes, args.cols, args.rows), source, parser: None, code: DONE })
}

fn read_limited(reader: impl Read, source: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(MAX_BYTES + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {source}"))?;
    if bytes.len() as u64 > MAX_BYTES {
        let message = format!("{source} exceeds {} MiB", MAX_BYTES >> 20);
        return Err(Failure::new(FAILED, message)
            .hint("extract from its end: tail -c 60M FILE | nerve recording extract")
            .into());
    }
    Ok(bytes)
}
