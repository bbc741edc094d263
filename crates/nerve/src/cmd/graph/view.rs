//! `graph validate` and `graph show`.

use anyhow::Result;
use nerve_graph::diagram;
use nerve_graph::file::{GraphFile, GraphFileError, Problem};
use nerve_repl::event_line::step_count;
use serde_json::{Value, json};

use super::run::{fetch_registered, graph_from_journal};
use super::source::{Source, read};
use super::{CommonOptions, Target};
use crate::exit::{self, Failure, NOT_FOUND, USAGE};
use crate::out;
use nerve_cli::graph::{GraphFormat, ShowArgs};

/// Validates files and prints all problems.
///
/// # Errors
/// Exit code 2 if a file is invalid.
pub(super) fn validate(files: &[String], as_json: bool) -> Result<()> {
    let mut checked = Vec::new();
    for file in files {
        checked.push((file, read(file)?));
    }
    let invalid = checked.iter().filter(|(_, checked)| checked.is_err()).count();
    if as_json {
        let files: Vec<Value> = checked.iter().map(|(file, checked)| to_json(file, checked)).collect();
        out::json(&json!({ "valid": invalid == 0, "files": files }))?;
    } else {
        for (file, checked) in &checked {
            undefined_nodes(checked).iter().for_each(out::warning);
            match checked {
                Ok(graph) => out::line(format_args!(
                    "{file}: graph {}, {}",
                    graph.graph,
                    step_count(graph.steps.len())
                ))?,
                Err(error) => out::text(&error.to_string())?,
            }
        }
    }
    match invalid {
        0 => Ok(()),
        1 if files.len() == 1 => Err(Failure::new(USAGE, format!("{} is invalid", files[0])).into()),
        invalid => Err(Failure::new(USAGE, format!("{invalid} of {} files are invalid", files.len())).into()),
    }
}

/// Returns the nodes that the session must have for the graph to run.
fn undefined_nodes(checked: &Result<GraphFile, GraphFileError>) -> Vec<Problem> {
    match checked {
        Ok(graph) => graph.undefined_nodes(),
        Err(error) => error.undefined_nodes().to_vec(),
    }
}

fn to_json(file: &str, checked: &Result<GraphFile, GraphFileError>) -> Value {
    let problem = |problem: &Problem| {
        json!({
            "file": problem.file, "line": problem.position.map(|at| at.line), "column": problem.position.map(|at| at.column),
            "path": problem.path, "message": problem.message, "hint": problem.hint,
        })
    };
    let warnings: Vec<Value> = undefined_nodes(checked).iter().map(problem).collect();
    let error = match checked {
        Ok(graph) => {
            return json!({
                "file": file, "valid": true, "graph_id": graph.graph, "steps": graph.steps.len(), "warnings": warnings,
            });
        }
        Err(error) => error,
    };
    let problems: Vec<Value> = error.problems().iter().map(problem).collect();
    json!({
        "file": file, "valid": false, "problems": problems, "more": error.more(), "warnings": warnings,
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
