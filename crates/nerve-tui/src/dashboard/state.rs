//! The state of the dashboard: the nodes, the selection and the open panel.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nerve_api::value::NodeState;
use nerve_types::activity::TsMs;

use super::age;
use super::panel::Panel;
use super::row::{NodeKey, NodeRow, machine_of};

/// The dashboard.
#[derive(Debug, Default)]
pub struct Dashboard {
    rows: BTreeMap<NodeKey, NodeRow>,
    /// Servers that do not respond, with the reason.
    server_errors: BTreeMap<String, String>,
    /// Servers whose nodes were loaded at least once.
    loaded_servers: BTreeSet<String>,
    pub(super) selected: Option<NodeKey>,
    pub(super) filter: String,
    pub(super) panel: Option<Panel>,
    pub(super) message: Option<String>,
}

impl Dashboard {
    /// Replaces the nodes of a server and keeps their activities while their turns run.
    pub fn set_nodes(&mut self, server: &str, rows: Vec<NodeRow>) {
        let (mut old, others) = std::mem::take(&mut self.rows)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(key, _)| key.server == server);
        self.rows = others;
        self.server_errors.remove(server);
        self.loaded_servers.insert(server.to_string());
        for mut row in rows {
            if let Some(old) = old.remove(&row.key) {
                row.keep_activity(old);
            }
            self.rows.insert(row.key.clone(), row);
        }
        self.close_choices(|key| key.server == server);
        self.pin_selection();
    }

    /// Replaces a node and keeps its activity while its turn runs. Closes its open choices, because the dialog may have changed.
    pub fn set_node(&mut self, mut row: NodeRow) {
        if let Some(old) = self.rows.remove(&row.key) {
            row.keep_activity(old);
        }
        self.close_choices(|key| *key == row.key);
        self.rows.insert(row.key.clone(), row);
        self.pin_selection();
    }

    /// Closes the choices of a node's dialog: the node may show another dialog now.
    fn close_choices(&mut self, is_changed: impl Fn(&NodeKey) -> bool) {
        if matches!(&self.panel, Some(Panel::Choices { key, .. }) if is_changed(key)) {
            self.panel = None;
            self.show_message("the dialog has changed");
        }
    }

    /// Selects the first row if none was selected, so that a later row above it does not receive its keys.
    fn pin_selection(&mut self) {
        if self.selected.is_none() {
            self.selected = self.selected_row().map(|row| row.key.clone());
        }
    }

    /// Removes a node that no longer exists.
    pub fn remove_node(&mut self, node: &NodeKey) {
        self.close_choices(|key| key == node);
        self.rows.remove(node);
    }

    /// Sets the last activity of a node's agent.
    pub fn set_activity(&mut self, key: &NodeKey, activity: String) {
        if let Some(row) = self.rows.get_mut(key) {
            row.activity = Some(activity);
        }
    }

    /// Sets why a server does not respond. Its nodes are removed: their states are unknown.
    pub fn set_server_error(&mut self, server: &str, error: String) {
        self.rows.retain(|key, _| key.server != server);
        self.server_errors.insert(server.to_string(), error);
    }

    /// Forgets a server that has ended.
    pub fn remove_server(&mut self, server: &str) {
        self.rows.retain(|key, _| key.server != server);
        self.server_errors.remove(server);
        self.loaded_servers.remove(server);
    }

    /// Shows a message until the next key.
    pub fn show_message(&mut self, message: impl Into<String>) {
        self.message = Some(message.into());
    }

    /// Opens a text panel. Does nothing if a panel is open, so that keys typed for that panel do not reach this one.
    pub fn show_text(&mut self, title: impl Into<String>, text: impl Into<String>) {
        self.panel.get_or_insert(Panel::Text { title: title.into(), text: text.into(), scrolled: 0 });
    }

    /// Opens the choices of a node's dialog. Does nothing if a panel is open.
    pub fn show_choices(&mut self, key: NodeKey, choices: Vec<String>) {
        self.panel.get_or_insert(Panel::Choices { key, choices, selected: 0 });
    }

    /// Returns the time until a visible row's age text changes; `None` if no visible row has an age.
    pub fn time_until_age_change(&self, now: TsMs) -> Option<Duration> {
        let ages = self.visible_rows().flat_map(|row| [row.state_age(now), row.turn_age(now)]);
        ages.flatten().map(age::until_change).min()
    }

    /// Returns the rows that pass the filter, in order: stopped nodes last.
    pub(super) fn visible_rows(&self) -> impl Iterator<Item = &NodeRow> {
        let rows = |stopped| {
            let is_wanted = move |row: &&NodeRow| row.is_stopped() == stopped && row.matches(&self.filter);
            self.rows.values().filter(is_wanted)
        };
        rows(false).chain(rows(true))
    }

    /// Returns the selected row, or the first one.
    pub fn selected_row(&self) -> Option<&NodeRow> {
        let selected = self.selected.as_ref().and_then(|key| self.rows.get(key));
        selected.filter(|row| row.matches(&self.filter)).or_else(|| self.visible_rows().next())
    }

    /// Returns the position of the selected row among the visible ones.
    pub(super) fn selected_position(&self) -> Option<usize> {
        let key = &self.selected_row()?.key;
        self.visible_rows().position(|row| row.key == *key)
    }

    /// Returns true if a node is outside the default session of the default server.
    pub(super) fn has_non_default_session(&self) -> bool {
        self.rows.keys().any(|key| key.server != "default" || key.session != nerve_api::DEFAULT_SESSION)
    }

    pub(super) fn server_errors(&self) -> impl Iterator<Item = (&String, &String)> {
        self.server_errors.iter()
    }

    /// Returns the machines that do not respond, with the reason.
    pub(super) fn unreachable_machines(&self) -> impl Iterator<Item = (&str, &String)> {
        self.server_errors.iter().filter_map(|(server, why)| Some((machine_of(server)?, why)))
    }

    pub(super) fn has_loaded_server(&self) -> bool {
        !self.loaded_servers.is_empty()
    }

    /// Returns the number of nodes in a state.
    pub(super) fn count(&self, state: NodeState) -> usize {
        self.rows.values().filter(|row| row.info.state == state).count()
    }

    pub(super) fn node_count(&self) -> usize {
        self.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::examples::row_in;
    use super::*;

    #[test]
    fn unresponsive_server_hides_its_nodes() {
        let mut dashboard = Dashboard::default();
        dashboard.set_nodes("default", vec![row_in("a", NodeState::Ready)]);
        dashboard.set_server_error("default", "no reply".to_string());
        assert_eq!(dashboard.node_count(), 0);
        dashboard.set_nodes("default", vec![row_in("a", NodeState::Ready)]);
        assert_eq!((dashboard.node_count(), dashboard.server_errors().count()), (1, 0));
    }

    #[test]
    fn stopped_nodes_are_last() {
        let mut dashboard = Dashboard::default();
        let rows = [("a", NodeState::Stopped), ("b", NodeState::Ready), ("c", NodeState::Stopped)];
        dashboard.set_nodes("default", rows.map(|(node, state)| row_in(node, state)).to_vec());
        let names: Vec<&str> = dashboard.visible_rows().map(|row| row.key.node.as_str()).collect();
        assert_eq!(names, ["b", "a", "c"]);
        assert_eq!(dashboard.selected_row().map(|row| row.key.node.as_str()), Some("b"));
    }

    #[test]
    fn age_change_is_due_at_next_unit() {
        let mut dashboard = Dashboard::default();
        dashboard.set_nodes("default", vec![row_in("a", NodeState::Ready)]);
        assert_eq!(dashboard.time_until_age_change(TsMs(1500)), Some(Duration::from_millis(500)));
        assert_eq!(dashboard.time_until_age_change(TsMs(61_000)), Some(Duration::from_secs(60)));
        assert_eq!(Dashboard::default().time_until_age_change(TsMs(0)), None);
    }
}
