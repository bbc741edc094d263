//! `nerve recording import`: converts an asciicast to a recording.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use nerve_record::import::{ImportError, ImportSummary, import as import_cast};
use nerve_record::store::EXTENSION;
use nerve_record::store::id_of;
use nerve_types::TsNs;
use serde_json::json;

use super::{format, read_failure};
use crate::exit::{FAILED, Failure, NOT_FOUND, USAGE};
use crate::out;
use nerve_cli::recording::ImportArgs;

/// Converts an asciicast to a recording.
pub(crate) fn import(args: &ImportArgs) -> Result<()> {
    let (cast, started) = open(&args.cast)?;
    let to = output(args)?;
    let summary = import_cast(cast, &to, started).map_err(|error| import_failure(error, &args.cast))?;
    print_result(args, &to, &summary)
}

/// Opens the cast. Also returns its modification time, the approximate start of a cast without a timestamp.
fn open(path: &Path) -> Result<(Box<dyn BufRead>, TsNs)> {
    let timestamp = |time: SystemTime| {
        let nanos = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        TsNs(u64::try_from(nanos).unwrap_or(u64::MAX))
    };
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin().lock()), timestamp(SystemTime::now())));
    }
    let file = File::open(path).map_err(|error| {
        let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { FAILED };
        Failure::new(code, format!("cannot open {}: {error}", path.display()))
    })?;
    let modified = file.metadata().and_then(|meta| meta.modified()).unwrap_or(UNIX_EPOCH);
    Ok((Box::new(BufReader::new(file)), timestamp(modified)))
}

fn output(args: &ImportArgs) -> Result<PathBuf> {
    match &args.output {
        Some(output) => Ok(output.clone()),
        None if args.cast == Path::new("-") => {
            Err(Failure::new(USAGE, "no output file for a cast from standard input")
                .hint("give the recording's file name with -o")
                .into())
        }
        None => Ok(args.cast.with_extension(EXTENSION)),
    }
}

fn import_failure(error: ImportError, cast: &Path) -> anyhow::Error {
    match error {
        ImportError::Write(error) => read_failure(error),
        error => Failure::new(FAILED, format!("{}: {error}", cast.display())).into(),
    }
}

fn print_result(args: &ImportArgs, to: &Path, summary: &ImportSummary) -> Result<()> {
    if args.json {
        return out::json(&json!({
            "recording_id": id_of(to), "path": to, "version": summary.version, "events": summary.events, "output_bytes": summary.output,
            "snapshots": summary.snapshots, "duration_ms": nerve_types::millis(summary.duration),
        }));
    }
    out::line(format_args!(
        "{}: {} of output in {}, {} snapshots",
        to.display(),
        format::size(summary.output),
        format::duration(summary.duration),
        summary.snapshots
    ))
}
