//! `nerve ls --watch`: the nodes of a session, and each change of one.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use nerve_api::reply::{NodeInfo, NodeList};
use nerve_api::request::{GetNode, ListNodes, Subscribe};
use nerve_api::{DEFAULT_SESSION, ErrorKind, EventKind, EventType};
use nerve_client::{ClientError, Reconnect};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::CommandContext;
use super::list::{COLUMNS, NUMBERS, STATE, format_row};
use crate::out;

/// Prints a node whenever its row in the list changes.
pub(super) struct NodeWatcher<'a> {
    context: &'a CommandContext,
    table: out::Table<'a>,
    /// The last row of each node.
    rows: BTreeMap<String, Vec<String>>,
}

/// The nodes that have changed since they were read; `None` stands for all, if events were lost.
#[derive(Default)]
struct Changes {
    nodes: Mutex<BTreeSet<Option<String>>>,
    added: Notify,
}

impl Changes {
    fn add(&self, node_id: Option<String>) {
        self.nodes.lock().insert(node_id);
        self.added.notify_one();
    }

    /// Waits for changes and removes them.
    async fn take(&self) -> BTreeSet<Option<String>> {
        self.added.notified().await;
        std::mem::take(&mut *self.nodes.lock())
    }
}

impl NodeWatcher<'_> {
    /// Prints the nodes, and then each one that changes. Returns when the server ends; a restart does not end it.
    pub(super) async fn run(context: &CommandContext) -> Result<()> {
        let types = EventType::STATE_CHANGES.iter().chain([&EventType::ServerShutdown]);
        let types = types.map(ToString::to_string).collect();
        let session_id = Some(context.session.clone().unwrap_or_else(|| DEFAULT_SESSION.to_string()));
        let filter = Subscribe { types: Some(types), session_id, ..Subscribe::default() };
        // Subscribed before the list is read, so that no change is missed.
        let client = context.client.clone().reconnect(Reconnect::default());
        let mut events = client.subscribe(&filter).await?;
        let nodes = list_nodes(context).await?;
        let rows: Vec<Vec<String>> = nodes.iter().map(format_row).collect();
        let table = out::Table::new(&COLUMNS, &rows).align_right(&NUMBERS);
        if !context.json {
            table.print_header()?;
        }
        let mut watcher = NodeWatcher { context, table, rows: BTreeMap::new() };
        nodes.iter().try_for_each(|node| watcher.show(node))?;
        let changes = Changes::default();
        let follow = async {
            while let Some(event) = events.next().await {
                if event.details() == Some(EventKind::ServerShutdown { keep_nodes: false }) {
                    return;
                }
                changes.add(event.node_id);
            }
        };
        // Ends with the events, even while a request waits for a server.
        tokio::select! {
            () = follow => {}
            result = watcher.show_changes(&changes) => result?,
        }
        out::note("the server has ended");
        Ok(())
    }

    /// Prints nodes that change, without end.
    async fn show_changes(&mut self, changes: &Changes) -> Result<()> {
        loop {
            for node_id in changes.take().await {
                match node_id {
                    Some(node_id) => self.update(&node_id).await?,
                    None => list_nodes(self.context).await?.iter().try_for_each(|node| self.show(node))?,
                }
            }
        }
    }

    /// Reads a node, and prints it if it has changed.
    async fn update(&mut self, node_id: &str) -> Result<()> {
        let request = GetNode::new(node_id, self.context.session.clone());
        match self.context.client.node_info(&request).await {
            Ok(node) => self.show(&node)?,
            Err(ClientError::Server(error)) if error.details.error_type == ErrorKind::NotFound => {
                self.show_removal(node_id)?;
            }
            Err(ClientError::Server(error)) => out::warning(error.message),
            // The events end with the connection.
            Err(_) => {}
        }
        Ok(())
    }

    /// Prints that a node was removed, if it was printed before.
    fn show_removal(&mut self, node_id: &str) -> Result<()> {
        let Some(mut row) = self.rows.remove(node_id) else { return Ok(()) };
        if self.context.json {
            return out::json_line(&serde_json::json!({ "node_id": node_id, "removed": true }));
        }
        row[STATE] = "removed".to_string();
        self.table.print_row(&row)
    }

    /// Prints a node unless its row is the same as before.
    fn show(&mut self, node: &NodeInfo) -> Result<()> {
        let row = format_row(node);
        if self.rows.get(&node.node_id) == Some(&row) {
            return Ok(());
        }
        if self.context.json {
            out::json_line(node)?
        } else {
            self.table.print_row(&row)?
        }
        self.rows.insert(node.node_id.clone(), row);
        Ok(())
    }
}

/// Lists the nodes of the session, stopped ones last.
async fn list_nodes(context: &CommandContext) -> Result<Vec<NodeInfo>> {
    let params = ListNodes { session_id: context.session.clone(), ..ListNodes::default() };
    let NodeList { nodes_info, stopped, .. } = context.client.request(&params).await?;
    Ok(nodes_info.into_iter().chain(stopped).collect())
}
