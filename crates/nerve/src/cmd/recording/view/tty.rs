//! The user's terminal while the viewer has it: cells out, keys and the wheel in. Given back whatever happens.

use std::io::{self, Stdout, Write};

use nerve_view::keys::{Code, Key};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    DisableMouseCapture, EnableMouseCapture, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers,
    MouseEventKind, read,
};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use tokio::sync::mpsc;

/// Events that may wait.
const EVENTS: usize = 64;
/// Lines that the wheel turns.
const WHEEL: i64 = 3;

/// What the user did.
#[derive(Debug)]
pub(super) enum Typed {
    Key(Key),
    /// So many lines down; up, if negative.
    Wheel(i64),
    /// Ctrl+C.
    Interrupt,
    /// Something that means nothing here, or another size, which the next drawing sees.
    Nothing,
    /// Nobody can type any more.
    Gone,
}

/// The terminal. Dropping it gives it back.
pub(super) struct Tty {
    pub(super) screen: Terminal<CrosstermBackend<Stdout>>,
    events: mpsc::Receiver<Event>,
    _given_back: Back,
}

/// Gives the terminal back when it is dropped, in a panic too.
struct Back;

impl Drop for Back {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        let _ = execute!(io::stdout(), DisableMouseCapture, LeaveAlternateScreen);
        let _ = io::stdout().write_all(b"\x1b[?25h").and_then(|()| io::stdout().flush());
        let _ = disable_raw_mode();
    }
}

impl Tty {
    pub(super) fn enter() -> io::Result<Tty> {
        enable_raw_mode()?;
        let back = Back;
        execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture)?;
        let screen = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        let (sender, events) = mpsc::channel(EVENTS);
        // A thread of its own: a read from a terminal cannot be given up. It ends with the process.
        std::thread::spawn(move || {
            while let Ok(event) = read() {
                if sender.blocking_send(event).is_err() {
                    break;
                }
            }
        });
        Ok(Tty { screen, events, _given_back: back })
    }

    /// What the user does next.
    pub(super) async fn typed(&mut self) -> Typed {
        match self.events.recv().await {
            None => Typed::Gone,
            Some(Event::Key(event)) if event.kind != KeyEventKind::Release => key(event),
            Some(Event::Mouse(event)) => match event.kind {
                MouseEventKind::ScrollDown => Typed::Wheel(WHEEL),
                MouseEventKind::ScrollUp => Typed::Wheel(-WHEEL),
                _ => Typed::Nothing,
            },
            Some(_) => Typed::Nothing,
        }
    }
}

fn key(event: KeyEvent) -> Typed {
    let code = match event.code {
        KeyCode::Char(char) => Code::Char(char),
        KeyCode::Enter => Code::Enter,
        KeyCode::Esc => Code::Esc,
        KeyCode::Backspace => Code::Backspace,
        KeyCode::Tab => Code::Tab,
        KeyCode::Delete => Code::Delete,
        KeyCode::Up => Code::Up,
        KeyCode::Down => Code::Down,
        KeyCode::Left => Code::Left,
        KeyCode::Right => Code::Right,
        KeyCode::Home => Code::Home,
        KeyCode::End => Code::End,
        KeyCode::PageUp => Code::PageUp,
        KeyCode::PageDown => Code::PageDown,
        _ => return Typed::Nothing,
    };
    let held = |modifier| event.modifiers.contains(modifier);
    let shift = held(KeyModifiers::SHIFT) && !matches!(code, Code::Char(_));
    let key = Key { code, ctrl: held(KeyModifiers::CONTROL), alt: held(KeyModifiers::ALT), shift };
    if key == Key::ctrl('c') { Typed::Interrupt } else { Typed::Key(key) }
}
