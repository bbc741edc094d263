//! The state of the overview: the nodes, the selection and the open panel.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nerve_api::value::NodeState;
use nerve_types::activity::TsMs;

use super::age;
use super::panel::Panel;
use super::row::{NodeKey, NodeRow};

/// The overview.
#[derive(Debug, Default)]
pub struct Dashboard {
    rows: BTreeMap<NodeKey, NodeRow>,
    /// Servers that do not respond, with the reason.
    faults: BTreeMap<String, String>,
    /// Servers that were read.
    servers: BTreeSet<String>,
    pub(super) selected: Option<NodeKey>,
    pub(super) filter: String,
    pub(super) panel: Option<Panel>,
    pub(super) message: Option<String>,
}

impl Dashboard {
    /// Replaces the nodes of a server. Their activities are kept while their turns run.
    pub fn set_nodes(&mut self, server: &str, rows: Vec<NodeRow>) {
        let (mut old, others) = std::mem::take(&mut self.rows)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(key, _)| key.server == server);
        self.rows = others;
        self.faults.remove(server);
        self.servers.insert(server.to_string());
        for mut row in rows {
            if let Some(old) = old.remove(&row.key) {
                row.keep_activity(old);
            }
            self.rows.insert(row.key.clone(), row);
        }
    }

    /// Replaces a node. Its activity is kept while its turn runs. The choices of its earlier dialog are closed.
    pub fn set_node(&mut self, mut row: NodeRow) {
        if let Some(old) = self.rows.remove(&row.key) {
            row.keep_activity(old);
        }
        if matches!(&self.panel, Some(Panel::Choices { key, .. }) if *key == row.key) {
            self.panel = None;
            self.show_message("the dialog has changed");
        }
        self.rows.insert(row.key.clone(), row);
    }

    /// Removes a node that no longer exists.
    pub fn remove_node(&mut self, key: &NodeKey) {
        self.rows.remove(key);
    }

    /// Sets the last activity of a node's agent.
    pub fn set_activity(&mut self, key: &NodeKey, activity: String) {
        if let Some(row) = self.rows.get_mut(key) {
            row.activity = Some(activity);
        }
    }

    /// Sets why a server does not respond. Its nodes are removed: their states are unknown.
    pub fn set_fault(&mut self, server: &str, fault: String) {
        self.rows.retain(|key, _| key.server != server);
        self.faults.insert(server.to_string(), fault);
    }

    /// Forgets a server that has ended.
    pub fn remove_server(&mut self, server: &str) {
        self.rows.retain(|key, _| key.server != server);
        self.faults.remove(server);
        self.servers.remove(server);
    }

    /// Shows a message until the next key.
    pub fn show_message(&mut self, message: impl Into<String>) {
        self.message = Some(message.into());
    }

    /// Shows a text until it is closed, unless a panel is open: keys that the user types for that one must not reach another.
    pub fn show_text(&mut self, title: impl Into<String>, text: impl Into<String>) {
        self.panel.get_or_insert(Panel::Text { title: title.into(), text: text.into(), scrolled: 0 });
    }

    /// Shows the choices of a node's dialog, unless a panel is open.
    pub fn show_choices(&mut self, key: NodeKey, choices: Vec<String>) {
        self.panel.get_or_insert(Panel::Choices { key, choices, selected: 0 });
    }

    /// Returns the time until an age changes its text; `None` if no row has an age.
    pub fn next_change(&self, now: TsMs) -> Option<Duration> {
        let ages = self.visible().flat_map(|row| [row.state_age(now), row.turn_age(now)]);
        ages.flatten().map(age::until_change).min()
    }

    /// Returns the rows that pass the filter, in order.
    pub(super) fn visible(&self) -> impl Iterator<Item = &NodeRow> {
        self.rows.values().filter(|row| row.matches(&self.filter))
    }

    /// Returns the selected row, or the first one.
    pub fn selected(&self) -> Option<&NodeRow> {
        let selected = self.selected.as_ref().and_then(|key| self.rows.get(key));
        selected.filter(|row| row.matches(&self.filter)).or_else(|| self.visible().next())
    }

    /// Returns the position of the selected row among the visible ones.
    pub(super) fn selected_position(&self) -> Option<usize> {
        let key = &self.selected()?.key;
        self.visible().position(|row| row.key == *key)
    }

    /// Returns true if the rows come from several servers or sessions.
    pub(super) fn has_places(&self) -> bool {
        let places: BTreeSet<_> = self.rows.keys().map(|key| (&key.server, &key.session)).collect();
        places.len() > 1
            || places.iter().any(|(server, session)| *server != "default" || *session != "default")
    }

    pub(super) fn faults(&self) -> impl Iterator<Item = (&String, &String)> {
        self.faults.iter()
    }

    pub(super) fn has_server(&self) -> bool {
        !self.servers.is_empty()
    }

    /// Returns the number of nodes in a state.
    pub(super) fn count(&self, state: NodeState) -> usize {
        self.rows.values().filter(|row| row.info.state == state).count()
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::examples::row_in;
    use super::*;

    #[test]
    fn silent_server_hides_its_nodes() {
        let mut dashboard = Dashboard::default();
        dashboard.set_nodes("default", vec![row_in("a", NodeState::Ready)]);
        dashboard.set_fault("default", "no reply".to_string());
        assert_eq!(dashboard.len(), 0);
        dashboard.set_nodes("default", vec![row_in("a", NodeState::Ready)]);
        assert_eq!((dashboard.len(), dashboard.faults().count()), (1, 0));
    }

    #[test]
    fn next_change_is_that_of_youngest_row() {
        let mut dashboard = Dashboard::default();
        dashboard.set_nodes("default", vec![row_in("a", NodeState::Ready)]);
        assert_eq!(dashboard.next_change(TsMs(1500)), Some(Duration::from_millis(500)));
        assert_eq!(dashboard.next_change(TsMs(61_000)), Some(Duration::from_secs(60)));
        assert_eq!(Dashboard::default().next_change(TsMs(0)), None);
    }
}
