//! `graph validate` and `graph show`.

use anyhow::Result;
use nerve_commands::event_line::step_count;
use nerve_graph::diagram;
use nerve_graph::file::{GraphFile, GraphFileError, Problem};
use serde_json::{Value, json};

use super::run::{fetch_registered, graph_from_journal};
use super::source::{Source, read};
use super::{CommonOptions, Target};
use crate::exit::{self, Failure, NOT_FOUND, USAGE};
use crate::out;
use nerve_cli::graph::{GraphFormat, ShowArgs};

/// A graph file and the result of its validation.
struct CheckedFile<'a> {
    name: &'a str,
    graph: Result<GraphFile, GraphFileError>,
}

/// Validates files and prints all problems.
///
/// # Errors
/// Exit code 2 if a file is invalid.
pub(super) fn validate(files: &[String], as_json: bool) -> Result<()> {
    let mut checked = Vec::new();
    for name in files {
        checked.push(CheckedFile { name, graph: read(name)? });
    }
    let invalid = checked.iter().filter(|file| file.graph.is_err()).count();
    if as_json {
        let files: Vec<Value> = checked.iter().map(CheckedFile::to_json).collect();
        out::json(&json!({ "valid": invalid == 0, "files": files }))?;
    } else {
        checked.iter().try_for_each(CheckedFile::print)?;
    }
    match invalid {
        0 => Ok(()),
        1 if files.len() == 1 => Err(Failure::new(USAGE, format!("{} is invalid", files[0])).into()),
        invalid => Err(Failure::new(USAGE, format!("{invalid} of {} files are invalid", files.len())).into()),
    }
}

impl CheckedFile<'_> {
    /// Returns the nodes that the session must have for the graph to run.
    fn undefined_nodes(&self) -> Vec<Problem> {
        match &self.graph {
            Ok(graph) => graph.undefined_nodes(),
            Err(error) => error.undefined_nodes().to_vec(),
        }
    }

    fn print(&self) -> Result<()> {
        self.undefined_nodes().iter().for_each(out::warning);
        match &self.graph {
            Ok(graph) => {
                let steps = step_count(graph.steps.len());
                out::line(format_args!("{}: graph {}, {steps}", self.name, graph.graph))
            }
            Err(error) => out::text(&error.to_string()),
        }
    }

    fn to_json(&self) -> Value {
        let warnings: Vec<Value> = self.undefined_nodes().iter().map(problem_json).collect();
        match &self.graph {
            Ok(graph) => json!({
                "file": self.name, "valid": true, "graph_id": graph.graph, "steps": graph.steps.len(),
                "warnings": warnings,
            }),
            Err(error) => json!({
                "file": self.name, "valid": false,
                "problems": error.problems().iter().map(problem_json).collect::<Vec<Value>>(),
                "more": error.more(), "warnings": warnings,
            }),
        }
    }
}

fn problem_json(problem: &Problem) -> Value {
    json!({
        "file": problem.file, "line": problem.position.map(|at| at.line), "column": problem.position.map(|at| at.column),
        "path": problem.path, "message": problem.message, "hint": problem.hint,
    })
}

/// Prints a graph in the selected format.
pub(super) async fn show(common: &CommonOptions, args: &ShowArgs) -> Result<()> {
    let file = match Source::find(&args.graph)? {
        Source::File(file) => *file,
        Source::Id(id) => fetch_graph(&common.connect().await?, &id).await?,
    };
    match args.format {
        GraphFormat::Json => out::json(&file.to_value()),
        _ if common.json => out::json(&file.to_value()),
        GraphFormat::Text => out::text(&diagram::text(&file)),
        GraphFormat::Mermaid => out::text(&diagram::mermaid(&file)),
        GraphFormat::Dot => out::text(&diagram::dot(&file)),
    }
}

/// Fetches the registered graph with this id, otherwise the graph of the run with this id.
async fn fetch_graph(target: &Target, id: &str) -> Result<GraphFile> {
    let error = match fetch_registered(target, id).await {
        Ok(file) => return Ok(file),
        Err(error) => error,
    };
    if exit::failure(&error).code != NOT_FOUND {
        return Err(error);
    }
    let Ok(run) = target.client.run_status(id, Some(0)).await else {
        return Err(Failure::new(NOT_FOUND, format!("no file, graph or run '{id}'"))
            .hint(format!("list graphs with '{}'; --runs lists runs", target.command("list")))
            .into());
    };
    let graph = run.journal.as_deref().map(std::path::Path::new).and_then(graph_from_journal);
    graph.ok_or_else(|| Failure::new(NOT_FOUND, format!("run '{id}' has no readable journal")).into())
}
