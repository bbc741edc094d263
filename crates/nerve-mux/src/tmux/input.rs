//! Splits input for a pane into tmux commands that run one after the other. No I/O.
//!
//! Input never reaches copy mode or another program: each command checks the pane within tmux, so nothing can happen in between.
//! Blocked input is sent again when the mode ends.

use std::collections::VecDeque;

use nerve_host::backend::pty::WRITE_LIMIT;
use nerve_vt::keys::{PASTE_END, PASTE_START, split_paste};

use super::quoting::CommandArgs;

/// Up to this many bytes are typed as keys; more are pasted, which is cheaper.
const MAX_KEY_BYTES: usize = 256;
/// Bytes per chunk of a paste buffer.
const CHUNK: usize = 32 << 10;
/// Printed by a command that found the pane in a mode, or with another program.
pub(super) const BLOCKED: &str = "held";

/// The input queue of a pane.
#[derive(Debug)]
pub(super) struct Input {
    pane: String,
    /// tmux format that is true if the pane takes no input.
    blocked_format: String,
    /// Name of the paste buffer.
    buffer: String,
    queue: VecDeque<Piece>,
    queued_bytes: usize,
    /// Bytes of the queue that were sent to tmux.
    in_flight: Option<usize>,
    /// The pane is in a mode.
    blocked: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// Exact bytes.
    Raw(VecDeque<u8>),
    /// A paste, which tmux brackets.
    Paste(Vec<u8>),
}

impl Input {
    /// Creates the queue of a pane with the program `pid`, if known.
    pub(super) fn new(pane: &str, pid: Option<i32>) -> Input {
        let blocked_format = match pid {
            Some(pid) => format!("#{{||:#{{pane_in_mode}},#{{!=:#{{pane_pid}},{pid}}}}}"),
            None => "#{pane_in_mode}".to_string(),
        };
        Input {
            pane: pane.to_string(),
            blocked_format,
            buffer: super::client::buffer_name(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            in_flight: None,
            blocked: false,
        }
    }

    /// Queues bytes. Returns false and takes nothing if too much is queued. Paste brackets are left to tmux, because only
    /// tmux knows whether the program enabled them.
    #[must_use]
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        if self.queued_bytes + bytes.len() > WRITE_LIMIT {
            return false;
        }
        self.queued_bytes += bytes.len();
        let mut rest = bytes;
        while let Some((plain, pasted, remainder)) = split_paste(rest) {
            self.push_raw(plain);
            self.queue.push_back(Piece::Paste(pasted.to_vec()));
            rest = remainder;
        }
        self.push_raw(rest);
        true
    }

    fn push_raw(&mut self, bytes: &[u8]) {
        match self.queue.back_mut() {
            _ if bytes.is_empty() => {}
            Some(Piece::Raw(last)) => last.extend(bytes),
            _ => self.queue.push_back(Piece::Raw(bytes.iter().copied().collect())),
        }
    }

    /// Returns the number of bytes that tmux has not taken yet.
    pub(super) fn queued_input(&self) -> usize {
        self.queued_bytes
    }

    /// Records that the pane may have left its mode.
    pub(super) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// Returns the commands for the next bytes; `None` while others are in flight.
    pub(super) fn next_commands(&mut self) -> Option<Vec<CommandArgs>> {
        if self.in_flight.is_some() || self.blocked {
            return None;
        }
        let mut commands = Vec::new();
        let (size, action) = match self.queue.front()? {
            Piece::Raw(bytes) => {
                let as_keys =
                    bytes.len() <= MAX_KEY_BYTES || bytes.iter().take(MAX_KEY_BYTES).any(|byte| *byte == 0);
                // tmux's strings end at a zero byte, so such bytes are sent as keys.
                let limit = if as_keys { MAX_KEY_BYTES } else { CHUNK };
                let chunk: Vec<u8> = bytes.iter().take(limit).copied().collect();
                let size = if as_keys { chunk.len() } else { length_to_zero_byte(&chunk) };
                let chunk = &chunk[..size];
                (size, if as_keys { self.keys(chunk) } else { self.paste(chunk, "-r", &mut commands) })
            }
            Piece::Paste(bytes) => {
                // Zero bytes cannot be pasted.
                let text: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != 0).collect();
                (bytes.len() + PASTE_START.len() + PASTE_END.len(), self.paste(&text, "-p -r", &mut commands))
            }
        };
        let report_blocked = format!("display-message -p {BLOCKED}");
        let format = &self.blocked_format;
        commands.push(command(&["if-shell", "-F", "-t", &self.pane, format, &report_blocked, &action]));
        self.in_flight = Some(size);
        Some(commands)
    }

    fn keys(&self, bytes: &[u8]) -> String {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("send-keys -t {} -H {}", self.pane, hex.join(" "))
    }

    /// Appends the commands that fill the buffer and returns the one that pastes it.
    fn paste(&self, bytes: &[u8], options: &str, commands: &mut Vec<CommandArgs>) -> String {
        let mut add: &[&str] = &[];
        for piece in bytes.chunks(CHUNK) {
            let mut set = command(&["set-buffer"]);
            set.extend(command(add));
            set.extend(command(&["-b", &self.buffer, "--"]));
            set.push(piece.to_vec());
            commands.push(set);
            add = &["-a"];
        }
        match bytes.is_empty() {
            // tmux has no empty buffers, and an empty paste has no effect.
            true => "display-message -p nothing".into(),
            false => format!("paste-buffer {options} -d -b {} -t {}", self.buffer, self.pane),
        }
    }

    /// Records that the commands in flight were carried out or blocked.
    pub(super) fn on_done(&mut self, blocked: bool) {
        self.blocked = blocked;
        let Some(size) = self.in_flight.take().filter(|_| !blocked) else { return };
        self.queued_bytes -= size;
        let is_piece_done = match self.queue.front_mut() {
            Some(Piece::Raw(bytes)) => {
                bytes.drain(..size);
                bytes.is_empty()
            }
            _ => true,
        };
        if is_piece_done {
            self.queue.pop_front();
        }
    }

    /// Clears the queue and returns the number of lost bytes.
    pub(super) fn clear(&mut self) -> usize {
        self.queue.clear();
        self.in_flight = None;
        std::mem::take(&mut self.queued_bytes)
    }
}

fn length_to_zero_byte(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())
}

fn command<S: AsRef<[u8]>>(words: &[S]) -> CommandArgs {
    words.iter().map(|word| word.as_ref().to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(commands: &[CommandArgs]) -> Vec<String> {
        let text = |words: &CommandArgs| {
            words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
        };
        commands
            .iter()
            .map(|words| <Vec<String> as AsRef<[String]>>::as_ref(&text(words)).join(" "))
            .collect()
    }

    #[test]
    fn short_input_is_keys_and_long_input_a_paste() {
        let mut input = Input::new("%3", None);
        assert!(input.push(b"a\x00\xff"));
        assert!(input.push(b"\r"));
        assert_eq!(
            text(&input.next_commands().unwrap()),
            ["if-shell -F -t %3 #{pane_in_mode} display-message -p held send-keys -t %3 -H 61 00 ff 0d"]
        );
        assert_eq!((input.next_commands(), input.queued_input()), (None, 4));
        input.on_done(false);
        assert_eq!((input.next_commands(), input.queued_input()), (None, 0));
        assert!(input.push(&[b'x'; 40_000]));
        let commands = text(&input.next_commands().unwrap());
        assert_eq!(commands.len(), 2);
        assert!(commands[0].starts_with("set-buffer -b nerve-") && commands[0].ends_with("x"));
        assert!(commands[1].contains("paste-buffer -r -d -b nerve-"), "{}", commands[1]);
        input.on_done(false);
        assert_eq!(input.queued_input(), 40_000 - CHUNK);
    }

    #[test]
    fn blocked_input_is_sent_again_in_order() {
        let mut input = Input::new("%3", None);
        assert!(input.push(b"one"));
        let first = input.next_commands();
        assert!(input.push(b"two"));
        input.on_done(true);
        assert_eq!(input.next_commands(), None, "until the mode has ended");
        input.unblock();
        assert_ne!(input.next_commands(), first, "with what has come meanwhile");
        input.on_done(false);
        assert_eq!(input.queued_input(), 0);
    }

    #[test]
    fn other_program_gets_no_input() {
        let mut input = Input::new("%3", Some(77));
        assert!(input.push(b"a"));
        let commands = text(&input.next_commands().unwrap());
        assert!(commands[0].starts_with("if-shell -F -t %3 #{||:#{pane_in_mode},#{!=:#{pane_pid},77}} "));
    }

    #[test]
    fn zero_bytes_are_sent_as_keys() {
        let mut input = Input::new("%3", None);
        let bytes: Vec<u8> = (0..3000_u32).map(|n| if n == 1500 { 0 } else { b'x' }).collect();
        assert!(input.push(&bytes));
        let mut kinds = Vec::new();
        while let Some(commands) = input.next_commands() {
            kinds.push(commands.len());
            input.on_done(false);
        }
        assert_eq!(kinds.iter().max(), Some(&2));
        assert_eq!((kinds[0], input.queued_input()), (2, 0));
    }

    #[test]
    fn tmux_brackets_pastes() {
        let mut input = Input::new("%3", None);
        assert!(input.push(b"a\x1b[200~x\ny\x1b[201~\r"));
        assert!(text(&input.next_commands().unwrap())[0].ends_with("-H 61"));
        input.on_done(false);
        let commands = text(&input.next_commands().unwrap());
        assert!(
            commands[0].ends_with("-- x\ny") && commands[1].contains("paste-buffer -p -r -d"),
            "{commands:?}"
        );
        input.on_done(false);
        assert!(text(&input.next_commands().unwrap())[0].ends_with("-H 0d"));
        input.on_done(false);
        assert_eq!(input.queued_input(), 0);
        assert!(input.push(b"\x1b[200~no end"));
        assert!(text(&input.next_commands().unwrap())[0].contains("1b 5b 32"));
    }
}
