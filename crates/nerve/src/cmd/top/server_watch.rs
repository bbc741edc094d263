//! Follows the nodes of one server.

use std::path::PathBuf;
use std::time::Duration;

use nerve_api::event::EventKind;
use nerve_api::reply::NodeInfo;
use nerve_api::request::{GetNode, Subscribe};
use nerve_api::{ErrorKind, EventMessage, EventType};
use nerve_client::{ClientError, NerveClient, Reconnect};
use nerve_machine::Machine;
use nerve_machine::address::is_on_machine;
use nerve_machine::connect::CONNECT_TIMEOUT;
use nerve_tui::dashboard::{DashboardSession, NodeKey, NodeRow};
use tokio::sync::mpsc::Sender;

use super::git_branch::read_branch;
use crate::cmd::server::machines;
use crate::out;
use nerve_commands::activity_text;
use nerve_commands::machine_command::format_contact;

/// Pause before a connection is tried again, or a stopped node is read again.
const RETRY: Duration = Duration::from_secs(1);
/// Pause before a machine is connected again.
const MACHINE_RETRY: Duration = Duration::from_secs(5);

/// A change of the dashboard.
#[derive(Debug)]
pub(super) enum Update {
    /// All nodes of a server.
    Nodes(String, Vec<NodeRow>),
    /// A node that changed.
    Node(Box<NodeRow>),
    /// A node that no longer exists.
    NodeRemoved(NodeKey),
    /// An activity of a node's agent.
    Activity(NodeKey, String),
    /// A server does not respond.
    ServerError(String, String),
    /// A server has ended.
    ServerEnded(String),
    /// A message for the user.
    Message(String),
    /// A text for the user, with its title.
    Text(String, String),
    /// The choices of a node's dialog.
    Choices(NodeKey, Vec<String>),
}

impl Update {
    pub(super) fn apply(self, session: &mut DashboardSession) {
        match self {
            Update::Nodes(server, rows) => session.update().set_nodes(&server, rows),
            Update::Node(row) => session.update().set_node(*row),
            Update::NodeRemoved(key) => session.update().remove_node(&key),
            Update::Activity(key, text) => session.update().set_activity(&key, text),
            Update::ServerError(server, error) => session.update().set_server_error(&server, error),
            Update::ServerEnded(server) => session.update().remove_server(&server),
            Update::Message(text) => session.respond().show_message(text),
            Update::Text(title, text) => session.respond().show_text(title, text),
            Update::Choices(key, choices) => session.respond().show_choices(key, choices),
        }
    }
}

/// Follows a server until its socket is gone or the dashboard is left.
pub(super) async fn run(server: String, socket: PathBuf, updates: Sender<Update>) {
    let watch = ServerWatch { server: server.clone(), updates };
    while socket.exists() {
        let followed = async { watch.follow(NerveClient::connect(&socket).await?).await };
        match followed.await {
            // A killed server leaves its socket behind.
            Ok(()) | Err(ClientError::NotRunning { .. }) => {
                watch.send(Update::ServerEnded(server.clone())).await;
            }
            Err(error) => watch.send(Update::ServerError(server.clone(), error.to_string())).await,
        }
        tokio::time::sleep(RETRY).await;
    }
    watch.send(Update::ServerEnded(server)).await;
}

/// Follows a machine until the dashboard is left. While it does not respond, reports the time of the last contact.
pub(super) async fn run_machine(machine: Machine, updates: Sender<Update>) {
    let machines = machines();
    let server = match machine.name.as_str() {
        "" => machine.address.clone(),
        name => format!("machine://{name}"),
    };
    let watch = ServerWatch { server: server.clone(), updates };
    loop {
        let why = match machines.connect(&machine, CONNECT_TIMEOUT).await {
            Ok(client) => match watch.follow(client).await {
                Ok(()) => "the connection has ended".to_string(),
                Err(error) => error.to_string(),
            },
            Err(error) => error.message,
        };
        let since = format_contact(machines.last_contact(&machine));
        let text = out::sanitize(&format!("unreachable, {since}: {why}"));
        watch.send(Update::ServerError(server.clone(), text)).await;
        tokio::time::sleep(MACHINE_RETRY).await;
    }
}

#[derive(Clone)]
struct ServerWatch {
    server: String,
    updates: Sender<Update>,
}

impl ServerWatch {
    /// Follows one connection. Returns when it ends.
    async fn follow(&self, client: NerveClient) -> Result<(), ClientError> {
        let client = client.reconnect(Reconnect::Never);
        let of_display = [EventType::NodeActivity, EventType::OutputParsed];
        let types = EventType::STATE_CHANGES.iter().chain(&of_display).map(ToString::to_string).collect();
        // Subscribed before the list is read, so that no change is missed.
        let mut events = client.subscribe(&Subscribe { types: Some(types), ..Subscribe::default() }).await?;
        self.read_nodes(&client).await?;
        while let Some(event) = events.next().await {
            self.on_event(&client, &event).await?;
        }
        Ok(())
    }

    async fn on_event(&self, client: &NerveClient, event: &EventMessage) -> Result<(), ClientError> {
        let Some(node) = &event.node_id else {
            // Events were dropped, or the server reports something new about itself.
            return self.read_nodes(client).await;
        };
        let session = event.session_id.clone().unwrap_or_else(|| nerve_api::DEFAULT_SESSION.to_string());
        let key = NodeKey { server: self.server.clone(), session, node: node.clone() };
        if let Some(EventKind::NodeActivity(activity)) = event.details() {
            if let Some(text) = activity_text::format(&activity) {
                self.send(Update::Activity(key, text)).await;
            }
            return Ok(());
        }
        if event.kind() == Some(EventType::NodeStopped) {
            // The event of a stop request comes before the end of the node is described.
            let (watch, client, key) = (self.clone(), client.clone(), key.clone());
            tokio::spawn(async move {
                tokio::time::sleep(RETRY).await;
                watch.read_node(&client, key).await
            });
        }
        self.read_node(client, key).await
    }

    async fn read_node(&self, client: &NerveClient, key: NodeKey) -> Result<(), ClientError> {
        let request = GetNode { node_id: key.node.clone(), session_id: Some(key.session.clone()) };
        match client.node_info(&request).await {
            Ok(info) => self.send(Update::Node(Box::new(self.row(info).await))).await,
            // The node was removed after the event.
            Err(ClientError::Server(error)) if error.details.error_type == ErrorKind::NotFound => {
                self.send(Update::NodeRemoved(key)).await;
            }
            Err(ClientError::Server(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Reads the nodes of all sessions.
    async fn read_nodes(&self, client: &NerveClient) -> Result<(), ClientError> {
        let mut rows = Vec::new();
        for info in client.list_all_nodes().await? {
            rows.push(self.row(info).await);
        }
        for session in client.sessions().await? {
            match client.list_stopped_nodes(Some(&session.name)).await {
                Ok(stopped) => {
                    for info in stopped {
                        rows.push(self.row(info).await);
                    }
                }
                // The session was deleted meanwhile.
                Err(ClientError::Server(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.send(Update::Nodes(self.server.clone(), rows)).await;
        Ok(())
    }

    async fn row(&self, info: NodeInfo) -> NodeRow {
        let mut row = NodeRow::new(&self.server, info);
        let cwd = row.info.metadata.known_text("cwd").filter(|_| !is_on_machine(&self.server));
        if let Some(cwd) = cwd.map(PathBuf::from) {
            row.branch = tokio::task::spawn_blocking(move || read_branch(&cwd)).await.unwrap_or_default();
        }
        row
    }

    async fn send(&self, update: Update) {
        // The dashboard may have been left; this task ends with it.
        let _ = self.updates.send(update).await;
    }
}
