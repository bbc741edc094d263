//! Sources of a graph: a file, standard input or the server.

use std::path::Path;

use anyhow::{Context, Result};
use nerve_graph::file::{Format, GraphFile, GraphFileError, NodeDefinition};
use nerve_types::name;
use serde_json::{Map, Value};

use crate::cmd::prompt::standard_input_as_is;
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
/// As [`Source::find`].
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
    let bytes = standard_input_as_is()?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(USAGE, format!("standard input is not UTF-8: invalid byte at {at}"))
    })?;
    let cwd = std::env::current_dir().context("cannot find the current directory")?;
    Ok(GraphFile::from_text(&text, "standard input", Format::Yaml, Some(&cwd)))
}

/// Returns the definition to send. Nodes without a working directory get the current one, because the server has another.
///
/// # Errors
/// The current directory cannot be found, or is not UTF-8.
pub(crate) fn definition(mut file: GraphFile) -> Result<Map<String, Value>> {
    let cwd = std::env::current_dir().context("cannot find the current directory")?;
    let cwd = cwd.to_str().with_context(|| format!("{} is not UTF-8", cwd.display()))?;
    set_default_cwd(&mut file, cwd);
    match file.to_value() {
        Value::Object(definition) => Ok(definition),
        _ => anyhow::bail!("a graph is an object"),
    }
}

fn set_default_cwd(file: &mut GraphFile, cwd: &str) {
    for node in file.nodes.values_mut() {
        if let Some(node_cwd) = node.cwd_mut() {
            node_cwd.get_or_insert_with(|| cwd.to_string());
        }
        if let NodeDefinition::Graph(node) = node
            && let Some(graph) = &mut node.graph
        {
            set_default_cwd(graph, cwd);
        }
    }
}

fn file_not_found(name: &str) -> Failure {
    Failure::new(NOT_FOUND, format!("file not found: {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_default_cwd_in_nested_graphs() {
        let text = "graph: g\nnodes:\n  a: {type: bash}\n  b: {type: bash, cwd: /b}\n  t: {type: template, template: x}\n  \
            n:\n    type: graph\n    graph: {graph: i, nodes: {c: {type: pty}}, steps: [{id: s, node: c}]}\n\
            steps: [{id: s, node: a, input: x}]\n";
        let file = GraphFile::from_yaml(text, "g.yaml").unwrap_or_else(|error| panic!("{error}"));
        let definition = Value::Object(definition(file).unwrap_or_else(|error| panic!("{error}")));
        let cwd = std::env::current_dir().map(|cwd| cwd.display().to_string()).unwrap_or_default();
        assert_eq!(definition["nodes"]["a"]["cwd"], cwd.as_str());
        assert_eq!(definition["nodes"]["b"]["cwd"], "/b");
        assert_eq!(definition["nodes"]["n"]["graph"]["nodes"]["c"]["cwd"], cwd.as_str());
    }
}
