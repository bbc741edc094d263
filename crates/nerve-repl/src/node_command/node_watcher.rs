//! `nerve ls --watch`: the nodes of a session, and each change of one.

use std::collections::BTreeMap;

use anyhow::Result;
use nerve_api::reply::{NodeInfo, NodeList};
use nerve_api::request::{GetNode, ListNodes, Subscribe};
use nerve_api::{DEFAULT_SESSION, ErrorKind, EventType};
use nerve_client::ClientError;

use super::Target;
use super::list::{COLUMNS, NUMBERS, format_row};
use crate::out;

/// Prints a node whenever its row in the list changes.
pub(super) struct NodeWatcher<'a> {
    target: &'a Target,
    table: out::Table<'a>,
    /// The last row of each node.
    rows: BTreeMap<String, Vec<String>>,
}

impl NodeWatcher<'_> {
    /// Prints the nodes, and then each one that changes. Returns when the server ends.
    pub(super) async fn run(target: &Target) -> Result<()> {
        let types = EventType::STATE_CHANGES.iter().map(ToString::to_string).collect();
        let session_id = Some(target.session.clone().unwrap_or_else(|| DEFAULT_SESSION.to_string()));
        let filter = Subscribe { types: Some(types), session_id, ..Subscribe::default() };
        // Subscribed before the list is read, so that no change is missed.
        let mut events = target.client.subscribe(&filter).await?;
        let nodes = list_nodes(target).await?;
        let rows: Vec<Vec<String>> = nodes.iter().map(format_row).collect();
        let table = out::Table::new(&COLUMNS, &rows).align_right(&NUMBERS);
        if !target.json {
            table.print_header()?;
        }
        let mut watcher = NodeWatcher { target, table, rows: BTreeMap::new() };
        nodes.iter().try_for_each(|node| watcher.show(node))?;
        while let Some(event) = events.next().await {
            match &event.node_id {
                _ if event.kind() == Some(EventType::ServerShutdown) => break,
                Some(node_id) => watcher.update(node_id).await?,
                // Events were dropped.
                None => list_nodes(target).await?.iter().try_for_each(|node| watcher.show(node))?,
            }
        }
        out::note("the server has ended");
        Ok(())
    }

    /// Reads a node, and prints it if it has changed.
    async fn update(&mut self, node_id: &str) -> Result<()> {
        let request = GetNode::new(node_id, self.target.session.clone());
        match self.target.client.node_info(&request).await {
            Ok(node) => self.show(&node)?,
            // It was removed after the event.
            Err(ClientError::Server(error)) if error.details.error_type == ErrorKind::NotFound => {
                self.rows.remove(node_id);
            }
            Err(ClientError::Server(error)) => out::warning(error.message),
            // The events end with the connection.
            Err(_) => {}
        }
        Ok(())
    }

    /// Prints a node unless its row is the same as before.
    fn show(&mut self, node: &NodeInfo) -> Result<()> {
        let row = format_row(node);
        if self.rows.get(&node.node_id) == Some(&row) {
            return Ok(());
        }
        if self.target.json {
            out::json_line(node)?
        } else {
            self.table.print_row(&row)?
        }
        self.rows.insert(node.node_id.clone(), row);
        Ok(())
    }
}

/// Lists the nodes of the session, stopped ones last.
async fn list_nodes(target: &Target) -> Result<Vec<NodeInfo>> {
    let params = ListNodes { session_id: target.session.clone(), ..ListNodes::default() };
    let NodeList { nodes_info, stopped, .. } = target.client.request(&params).await?;
    Ok(nodes_info.into_iter().chain(stopped).collect())
}
