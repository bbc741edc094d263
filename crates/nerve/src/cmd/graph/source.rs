//! Sources of a graph: a file, standard input or the server.

use std::path::Path;

use anyhow::{Context, Result};
use nerve_commands::prompt::read_standard_input;
use nerve_graph::file::{Format, GraphFile, GraphFileError};
use nerve_types::name;

use crate::exit::{Failure, NOT_FOUND, USAGE};

/// Source of a graph argument.
#[derive(Debug)]
pub(super) enum Source {
    File(Box<GraphFile>),
    /// The id of a registered graph or a run.
    Id(String),
}

impl Source {
    /// Resolves `name`: a file if it exists, otherwise an id if it is valid.
    ///
    /// # Errors
    /// Exit code 2 with all problems of the file; 3 if there is no file and `name` is no valid id.
    pub(super) fn find(name: &str) -> Result<Source> {
        let is_id = name::check("graph", name).is_ok();
        // A directory does not hide a graph of the same name.
        let is_file = Path::new(name).exists() && !(is_id && Path::new(name).is_dir());
        if name == "-" || is_file {
            return Ok(Source::File(Box::new(load(name)?)));
        }
        if is_id {
            return Ok(Source::Id(name.to_string()));
        }
        Err(file_not_found(name).into())
    }
}

/// Reads and validates a graph file; `-` is standard input.
///
/// # Errors
/// See [`Source::find`].
pub(super) fn load(name: &str) -> Result<GraphFile> {
    if name != "-" && !Path::new(name).exists() {
        return Err(file_not_found(name).into());
    }
    read(name)?.map_err(|error| Failure::new(USAGE, error.to_string()).into())
}

/// Like [`load`], but returns the problems of the graph as data.
///
/// # Errors
/// Standard input or the current directory cannot be read.
pub(super) fn read(name: &str) -> Result<Result<GraphFile, GraphFileError>> {
    if name != "-" {
        return Ok(GraphFile::load(Path::new(name)));
    }
    let bytes = read_standard_input()?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(USAGE, format!("standard input is not UTF-8: invalid byte at {at}"))
    })?;
    let cwd = std::env::current_dir().context("cannot find the current directory")?;
    Ok(GraphFile::from_text(&text, "standard input", Format::Yaml, Some(&cwd)))
}

fn file_not_found(name: &str) -> Failure {
    Failure::new(NOT_FOUND, format!("file not found: {name}"))
}
