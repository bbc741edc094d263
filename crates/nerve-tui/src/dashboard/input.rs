//! The keys of the dashboard.

use nerve_vt::keys::{Code, Input, Key, MouseAction, Wheel};

use super::effect::Effect;
use super::panel::{Entry, Panel};
use super::row::NodeKey;
use super::state::Dashboard;
use crate::view::line_edit::LineEdit;

const HELP: &str = "\
Enter  attach; ctrl+] d comes back; start a stopped node
a      answer the dialog of a blocked node
p      send a prompt
n      create a node
s      stop the node
x      remove a stopped node
w      explain the state: evidence and screen
r      open the recording
/      filter by name, state, command, folder, branch or prompt; Esc clears it
j k    select; PgUp and PgDn by 10 rows; g and G the first and the last
q      quit";

impl Dashboard {
    /// Handles input.
    pub fn input(&mut self, input: &Input) -> Option<Effect> {
        match input {
            Input::Key(key) => {
                self.message = None;
                if *key == Key::ctrl('z') {
                    return Some(Effect::Suspend);
                }
                match self.panel.take() {
                    Some(panel) => self.handle_panel_key(panel, *key),
                    None => self.handle_list_key(*key),
                }
            }
            Input::Paste(text) => {
                if let Some(Panel::Entry(_, line)) = &mut self.panel {
                    line.insert(text);
                }
                None
            }
            Input::Mouse(mouse) if self.panel.is_none() => {
                match mouse.action {
                    MouseAction::Wheel(Wheel::Up) => self.move_selection(-1),
                    MouseAction::Wheel(Wheel::Down) => self.move_selection(1),
                    _ => {}
                }
                None
            }
            Input::Mouse(_) | Input::Focus(_) => None,
        }
    }

    fn handle_list_key(&mut self, key: Key) -> Option<Effect> {
        if key == Key::ctrl('c') {
            return Some(Effect::Quit);
        }
        if key.ctrl || key.alt {
            return None;
        }
        match key.code {
            Code::Char('q') => return Some(Effect::Quit),
            Code::Char('j') | Code::Down => self.move_selection(1),
            Code::Char('k') | Code::Up => self.move_selection(-1),
            Code::PageDown => self.move_selection(10),
            Code::PageUp => self.move_selection(-10),
            Code::Char('g') | Code::Home => self.move_selection(isize::MIN),
            Code::Char('G') | Code::End => self.move_selection(isize::MAX),
            Code::Esc => self.filter.clear(),
            Code::Char('/') => {
                let mut line = LineEdit::default();
                line.set(&self.filter);
                self.panel = Some(Panel::Entry(Entry::Filter, line));
            }
            Code::Char('n') => self.panel = Some(Panel::Entry(Entry::Command, LineEdit::default())),
            Code::Char('?' | 'h') => self.show_text("keys", HELP),
            _ => return self.handle_node_key(key),
        }
        None
    }

    /// Handles the keys that act on the selected node.
    fn handle_node_key(&mut self, key: Key) -> Option<Effect> {
        let row = self.selected_row()?;
        let node = row.key.clone();
        match key.code {
            Code::Enter if row.is_stopped() => Some(Effect::Start(node)),
            Code::Char('x') if row.is_stopped() => Some(Effect::Remove(node)),
            Code::Char('x') => {
                self.show_message(format!("node '{}' is running: s stops it", node.node));
                None
            }
            Code::Char('a' | 'p' | 's') if row.is_stopped() => {
                self.show_message(format!("node '{}' is stopped: Enter starts it, x removes it", node.node));
                None
            }
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

    /// Handles a key for the panel taken from `self.panel`. Arms that keep the panel open store it again.
    fn handle_panel_key(&mut self, panel: Panel, key: Key) -> Option<Effect> {
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
    fn move_selection(&mut self, by: isize) {
        let keys: Vec<NodeKey> = self.visible_rows().map(|row| row.key.clone()).collect();
        let position = self.selected_position().unwrap_or_default();
        let position = position.saturating_add_signed(by).min(keys.len().saturating_sub(1));
        self.selected = keys.get(position).cloned();
    }
}

#[cfg(test)]
mod tests {
    use nerve_api::value::NodeState;

    use super::super::row::examples::row_in;
    use super::*;

    fn dashboard() -> Dashboard {
        let mut dashboard = Dashboard::default();
        let states = [("a", NodeState::Ready), ("b", NodeState::Blocked), ("c", NodeState::Busy)];
        dashboard.set_nodes("default", states.map(|(node, state)| row_in(node, state)).to_vec());
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
        dashboard.set_nodes("default", vec![row_in("0", NodeState::Ready), row_in("b", NodeState::Ready)]);
        assert_eq!(node(press(&mut dashboard, "enter")), "b");
        assert_eq!(node(press(&mut dashboard, "G enter")), "b");
        assert_eq!(node(press(&mut dashboard, "g enter")), "0");
    }

    #[test]
    fn filter_narrows_list_while_it_is_typed() {
        let mut dashboard = dashboard();
        press(&mut dashboard, "/ b u s y");
        assert_eq!(dashboard.visible_rows().map(|row| row.key.node.as_str()).collect::<Vec<_>>(), ["c"]);
        assert_eq!(node(press(&mut dashboard, "enter enter")), "c");
        press(&mut dashboard, "esc");
        assert_eq!(dashboard.visible_rows().count(), 3);
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
        dashboard.set_node(row_in("b", NodeState::Blocked));
        assert_eq!(press(&mut dashboard, "1"), None);
    }

    #[test]
    fn stop_needs_confirmation() {
        let mut dashboard = dashboard();
        assert_eq!(press(&mut dashboard, "s x"), None);
        assert_eq!(node(press(&mut dashboard, "s y")), "a");
    }

    #[test]
    fn stopped_node_is_started_or_removed() {
        let mut dashboard = Dashboard::default();
        dashboard.set_nodes("default", vec![row_in("a", NodeState::Stopped)]);
        let key = dashboard.selected_row().unwrap().key.clone();
        for refused in ["a", "p", "s"] {
            assert_eq!(press(&mut dashboard, refused), None);
            assert!(dashboard.panel.is_none() && dashboard.message.is_some(), "{refused}");
        }
        assert_eq!(press(&mut dashboard, "enter"), Some(Effect::Start(key.clone())));
        assert_eq!(press(&mut dashboard, "x"), Some(Effect::Remove(key)));
        dashboard.set_nodes("default", vec![row_in("a", NodeState::Ready)]);
        assert_eq!(press(&mut dashboard, "x"), None);
    }

    #[test]
    fn blank_prompt_is_not_sent() {
        let mut dashboard = dashboard();
        assert_eq!(press(&mut dashboard, "p space enter"), None);
        let Some(Effect::Send(key, text)) = press(&mut dashboard, "p h i enter") else { panic!() };
        assert_eq!((key.node.as_str(), text.as_str()), ("a", "hi"));
    }
}
