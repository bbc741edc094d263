//! The state of the overview: the nodes, the selection and the open panel.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nerve_api::value::NodeState;
use nerve_types::activity::TsMs;
use nerve_vt::keys::{Code, Input, Key, MouseAction, Wheel};

use super::age;
use super::panel::{Entry, Panel};
use super::row::{NodeKey, NodeRow};
use crate::view::line_edit::LineEdit;

/// An action that the caller performs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Leave.
    Quit,
    /// Stop this process, as Ctrl+Z does.
    Suspend,
    /// Attach the terminal to a node.
    Attach(NodeKey),
    /// Show the recording of a node.
    OpenRecording(NodeKey),
    /// Read the evidence for a node's state and pass it to [`Dashboard::show_text`].
    Explain(NodeKey),
    /// Read the choices of a node's dialog and pass them to [`Dashboard::show_choices`].
    ReadChoices(NodeKey),
    /// Answer a node's dialog with the choice of this number, from 1.
    Answer(NodeKey, usize),
    /// Send a prompt to a node.
    Send(NodeKey, String),
    /// Create a node with this command on the server of the selected node.
    Create(String),
    /// Stop a node.
    Stop(NodeKey),
}

/// The overview.
#[derive(Debug, Default)]
pub struct Dashboard {
    rows: BTreeMap<NodeKey, NodeRow>,
    /// Servers that do not respond, with the reason.
    faults: BTreeMap<String, String>,
    /// Servers that were read.
    servers: BTreeSet<String>,
    selected: Option<NodeKey>,
    filter: String,
    pub(super) panel: Option<Panel>,
    message: Option<String>,
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

    pub(super) fn filter(&self) -> &str {
        &self.filter
    }

    pub(super) fn message(&self) -> Option<&str> {
        self.message.as_deref()
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

    /// Handles input.
    pub fn input(&mut self, input: &Input) -> Option<Effect> {
        match input {
            Input::Key(key) => {
                self.message = None;
                if *key == Key::ctrl('z') {
                    return Some(Effect::Suspend);
                }
                match self.panel.take() {
                    Some(panel) => self.panel_key(panel, *key),
                    None => self.list_key(*key),
                }
            }
            Input::Paste(text) => {
                if let Some(Panel::Entry(_, line)) = &mut self.panel {
                    line.insert(text);
                }
                None
            }
            Input::Mouse(mouse) => {
                match mouse.what {
                    MouseAction::Wheel(Wheel::Up) => self.select(-1),
                    MouseAction::Wheel(Wheel::Down) => self.select(1),
                    _ => {}
                }
                None
            }
            Input::Focus(_) => None,
        }
    }

    fn list_key(&mut self, key: Key) -> Option<Effect> {
        if key == Key::ctrl('c') {
            return Some(Effect::Quit);
        }
        if key.ctrl || key.alt {
            return None;
        }
        match key.code {
            Code::Char('q') => return Some(Effect::Quit),
            Code::Char('j') | Code::Down => self.select(1),
            Code::Char('k') | Code::Up => self.select(-1),
            Code::PageDown => self.select(10),
            Code::PageUp => self.select(-10),
            Code::Char('g') | Code::Home => self.select(isize::MIN),
            Code::Char('G') | Code::End => self.select(isize::MAX),
            Code::Esc => self.filter.clear(),
            Code::Char('/') => {
                let mut line = LineEdit::default();
                line.set(&self.filter);
                self.panel = Some(Panel::Entry(Entry::Filter, line));
            }
            Code::Char('n') => self.panel = Some(Panel::Entry(Entry::Command, LineEdit::default())),
            Code::Char('?' | 'h') => self.show_text("keys", HELP),
            _ => return self.node_key(key),
        }
        None
    }

    /// Handles the keys that act on the selected node.
    fn node_key(&mut self, key: Key) -> Option<Effect> {
        let node = self.selected()?.key.clone();
        match key.code {
            Code::Enter => Some(Effect::Attach(node)),
            Code::Char('r') => Some(Effect::OpenRecording(node)),
            Code::Char('w') => Some(Effect::Explain(node)),
            Code::Char('a') => Some(Effect::ReadChoices(node)),
            Code::Char('p') => {
                self.panel = Some(Panel::Entry(Entry::Prompt(node), LineEdit::default()));
                None
            }
            Code::Char('s') => {
                self.panel = Some(Panel::ConfirmStop(node));
                None
            }
            _ => None,
        }
    }

    /// Handles a key of an open panel, which stays open only if it is put back.
    fn panel_key(&mut self, panel: Panel, key: Key) -> Option<Effect> {
        let is_cancel = key.code == Code::Esc || key == Key::ctrl('c');
        match panel {
            Panel::Entry(entry, mut line) => {
                if key.code == Code::Enter {
                    return self.submit(entry, line.text());
                }
                if is_cancel {
                    if entry == Entry::Filter {
                        self.filter.clear();
                    }
                    return None;
                }
                line.key(key);
                if entry == Entry::Filter {
                    self.filter = line.text().to_string();
                }
                self.panel = Some(Panel::Entry(entry, line));
            }
            Panel::Choices { key: node, choices, mut selected } => {
                let last = choices.len().saturating_sub(1);
                match key.code {
                    _ if is_cancel => return None,
                    Code::Char('q') => return None,
                    Code::Enter => return Some(Effect::Answer(node, selected + 1)),
                    Code::Char(digit @ '1'..='9') => {
                        let number = digit as usize - '0' as usize;
                        if number <= choices.len() {
                            return Some(Effect::Answer(node, number));
                        }
                    }
                    Code::Down | Code::Char('j') => selected = (selected + 1).min(last),
                    Code::Up | Code::Char('k') => selected = selected.saturating_sub(1),
                    _ => {}
                }
                self.panel = Some(Panel::Choices { key: node, choices, selected });
            }
            Panel::ConfirmStop(node) => {
                if key.code == Code::Char('y') {
                    return Some(Effect::Stop(node));
                }
                self.show_message("not stopped");
            }
            Panel::Text { title, text, mut scrolled } => {
                match key.code {
                    Code::Down | Code::Char('j') => scrolled += 1,
                    Code::Up | Code::Char('k') => scrolled = scrolled.saturating_sub(1),
                    _ => return None,
                }
                scrolled = scrolled.min(text.lines().count().saturating_sub(1));
                self.panel = Some(Panel::Text { title, text, scrolled });
            }
        }
        None
    }

    fn submit(&mut self, entry: Entry, text: &str) -> Option<Effect> {
        match entry {
            Entry::Filter => None,
            _ if text.trim().is_empty() => None,
            Entry::Prompt(node) => Some(Effect::Send(node, text.to_string())),
            Entry::Command => Some(Effect::Create(text.to_string())),
        }
    }

    /// Moves the selection by a number of rows.
    fn select(&mut self, by: isize) {
        let keys: Vec<NodeKey> = self.visible().map(|row| row.key.clone()).collect();
        let position = self.selected_position().unwrap_or_default();
        let position = position.saturating_add_signed(by).min(keys.len().saturating_sub(1));
        self.selected = keys.get(position).cloned();
    }
}

const HELP: &str = "\
Enter  attach; ctrl+] d comes back
a      answer the dialog of a blocked node
p      send a prompt
n      create a node
s      stop the node
w      explain the state: evidence and screen
r      open the recording
/      filter by name, state, command, folder, branch or prompt; Esc clears it
j k    select
q      quit";

#[cfg(test)]
mod tests {
    use nerve_api::reply::{NodeInfo, NodeMetadata, NodeProgress};

    use super::*;

    fn row(node: &str, state: NodeState) -> NodeRow {
        let info = NodeInfo {
            id: node.to_string(),
            kind: "pty".to_string(),
            state,
            persistent: true,
            approximate: false,
            progress: NodeProgress { state_since: Some(TsMs(1000)), ..NodeProgress::default() },
            metadata: NodeMetadata::default(),
        };
        NodeRow::new("default", info)
    }

    fn dashboard() -> Dashboard {
        let mut dashboard = Dashboard::default();
        let rows = vec![row("a", NodeState::Ready), row("b", NodeState::Blocked), row("c", NodeState::Busy)];
        dashboard.set_nodes("default", rows);
        dashboard
    }

    fn press(dashboard: &mut Dashboard, keys: &str) -> Option<Effect> {
        let key = |key: &str| Input::Key(key.parse().unwrap());
        keys.split_whitespace().map(|name| dashboard.input(&key(name))).last().flatten()
    }

    fn node(effect: Option<Effect>) -> String {
        match effect {
            Some(Effect::Attach(key) | Effect::Stop(key)) => key.node,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn selection_follows_node() {
        let mut dashboard = dashboard();
        assert_eq!(node(press(&mut dashboard, "enter")), "a");
        assert_eq!(node(press(&mut dashboard, "j enter")), "b");
        dashboard.set_nodes("default", vec![row("0", NodeState::Ready), row("b", NodeState::Ready)]);
        assert_eq!(node(press(&mut dashboard, "enter")), "b");
        assert_eq!(node(press(&mut dashboard, "G enter")), "b");
        assert_eq!(node(press(&mut dashboard, "g enter")), "0");
    }

    #[test]
    fn filter_narrows_list_while_it_is_typed() {
        let mut dashboard = dashboard();
        press(&mut dashboard, "/ b u s y");
        assert_eq!(dashboard.visible().map(|row| row.key.node.as_str()).collect::<Vec<_>>(), ["c"]);
        assert_eq!(node(press(&mut dashboard, "enter enter")), "c");
        press(&mut dashboard, "esc");
        assert_eq!(dashboard.visible().count(), 3);
    }

    #[test]
    fn dialog_is_answered_by_number_or_selection() {
        let mut dashboard = dashboard();
        let Some(Effect::ReadChoices(key)) = press(&mut dashboard, "j a") else { panic!() };
        let choices = vec!["Yes".to_string(), "No".to_string()];
        dashboard.show_choices(key.clone(), choices.clone());
        assert_eq!(press(&mut dashboard, "3"), None, "there are two choices");
        assert_eq!(press(&mut dashboard, "2"), Some(Effect::Answer(key.clone(), 2)));
        dashboard.show_choices(key.clone(), choices.clone());
        assert_eq!(press(&mut dashboard, "down down enter"), Some(Effect::Answer(key.clone(), 2)));
        // A late reply does not replace what the user has opened meanwhile.
        press(&mut dashboard, "p");
        dashboard.show_choices(key.clone(), choices.clone());
        assert_eq!(press(&mut dashboard, "1"), None);
        press(&mut dashboard, "esc");
        // The dialog that is shown may be another one.
        dashboard.show_choices(key, choices);
        dashboard.set_node(row("b", NodeState::Blocked));
        assert_eq!(press(&mut dashboard, "1"), None);
    }

    #[test]
    fn stop_needs_confirmation() {
        let mut dashboard = dashboard();
        assert_eq!(press(&mut dashboard, "s x"), None);
        assert_eq!(node(press(&mut dashboard, "s y")), "a");
    }

    #[test]
    fn blank_prompt_is_not_sent() {
        let mut dashboard = dashboard();
        assert_eq!(press(&mut dashboard, "p space enter"), None);
        let Some(Effect::Send(key, text)) = press(&mut dashboard, "p h i enter") else { panic!() };
        assert_eq!((key.node.as_str(), text.as_str()), ("a", "hi"));
    }

    #[test]
    fn silent_server_hides_its_nodes() {
        let mut dashboard = dashboard();
        dashboard.set_fault("default", "no reply".to_string());
        assert_eq!(dashboard.len(), 0);
        dashboard.set_nodes("default", vec![row("a", NodeState::Ready)]);
        assert_eq!((dashboard.len(), dashboard.faults().count()), (1, 0));
    }

    #[test]
    fn next_change_is_that_of_youngest_row() {
        let dashboard = dashboard();
        assert_eq!(dashboard.next_change(TsMs(1500)), Some(Duration::from_millis(500)));
        assert_eq!(dashboard.next_change(TsMs(61_000)), Some(Duration::from_secs(60)));
        assert_eq!(Dashboard::default().next_change(TsMs(0)), None);
    }
}
