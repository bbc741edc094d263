//! `graph create`, `delete` and `list`: registered graphs of a session.

use anyhow::Result;
use nerve_api::reply::{GraphInfo, GraphList};
use nerve_commands::graph_file::definition;
use serde_json::json;

use super::CommonOptions;
use super::source::load;
use crate::out;

/// Registers a graph.
pub(super) async fn create(common: &CommonOptions, name: &str) -> Result<()> {
    let definition = definition(load(name)?)?;
    let target = common.connect().await?;
    let graph = target.client.create_graph(definition, target.session()).await?;
    if target.json {
        return out::json(&graph);
    }
    out::line(format_args!("graph '{}' created", graph.graph_id))
}

/// Deletes a registered graph.
pub(super) async fn delete(common: &CommonOptions, id: &str) -> Result<()> {
    let target = common.connect().await?;
    target.client.delete_graph(id, target.session()).await?;
    if target.json {
        return out::json(&json!({ "graph_id": id, "deleted": true }));
    }
    out::line(format_args!("graph '{id}' deleted"))
}

/// Lists the registered graphs of a session.
pub(super) async fn list(common: &CommonOptions) -> Result<()> {
    let target = common.connect().await?;
    let graphs = target.client.list_graphs(target.session()).await?;
    if target.json {
        let ids = graphs.iter().map(|graph| graph.graph_id.clone()).collect();
        return out::json(&GraphList { graphs: ids, graphs_info: graphs, next: None });
    }
    if graphs.is_empty() {
        out::note(format_args!(
            "no registered graphs; register one with '{}', or run a file with '{}'; list runs with '{}'",
            target.command("create FILE"),
            target.command("run FILE"),
            target.command("list --runs"),
        ));
    }
    let row = |graph: &GraphInfo| {
        vec![
            graph.graph_id.clone(),
            graph.session_id.clone(),
            graph.steps.len().to_string(),
            graph.steps.join(" "),
        ]
    };
    out::table(&["graph", "session", "count", "steps"], &graphs.iter().map(row).collect::<Vec<_>>())
}
