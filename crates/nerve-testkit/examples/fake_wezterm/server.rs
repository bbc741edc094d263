//! The server. Like the original, a single thread serves all calls in order, so one that blocks blocks all.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nerve_types::Size;
use serde_json::{Value, json};

use super::pane::{Pane, PaneSpec};
use super::text::text;
use super::wire::{ClientRequest, Fault, Request, answer, read};

/// State shared by the connection threads and the serving thread.
#[derive(Default)]
struct Shared {
    fault: Fault,
    calls: BTreeMap<&'static str, u64>,
}

enum Message {
    Request(ClientRequest, UnixStream),
    Ended(u64),
}

/// Serves at `socket` until stdin is closed, so that the server does not outlive its test.
///
/// # Errors
/// The socket cannot be created.
pub(super) fn serve(socket: &Path) -> std::io::Result<()> {
    // Removes a stale socket.
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket)?;
    std::thread::spawn(|| {
        let mut rest = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut rest);
        std::process::exit(0);
    });
    let shared = Arc::new(Mutex::new(Shared::default()));
    let (messages, inbox) = channel();
    let mux = Mux {
        panes: BTreeMap::new(),
        next: 0,
        lists: 0,
        socket: socket.display().to_string(),
        messages: messages.clone(),
    };
    let of_mux = shared.clone();
    std::thread::spawn(move || mux.run(&inbox, &of_mux));
    for stream in listener.incoming() {
        let (stream, messages, shared) = (stream?, messages.clone(), shared.clone());
        std::thread::spawn(move || connection(stream, &messages, &shared));
    }
    Ok(())
}

fn connection(stream: UnixStream, messages: &Sender<Message>, shared: &Mutex<Shared>) {
    let Some(call) = read(&stream) else { return };
    match &call.request {
        Request::Fault(fault) => {
            lock(shared).fault = *fault;
            let _ = answer(&stream, &Ok(String::new()));
        }
        Request::Calls => {
            let calls = json!(lock(shared).calls);
            let _ = answer(&stream, &Ok(format!("{calls}\n")));
        }
        request => {
            let hangs = {
                let mut shared = lock(shared);
                *shared.calls.entry(request.name()).or_default() += 1;
                shared.fault == Fault::Hang
            };
            if hangs {
                // Hangs until the client disconnects.
                let mut nothing = Vec::new();
                let _ = (&stream).read_to_end(&mut nothing);
                return;
            }
            let _ = messages.send(Message::Request(call, stream));
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Mux {
    panes: BTreeMap<u64, PositionedPane>,
    next: u64,
    lists: usize,
    socket: String,
    messages: Sender<Message>,
}

/// A pane and its position.
struct PositionedPane {
    pane: Pane,
    window: u64,
    tab: u64,
    workspace: String,
    is_active: bool,
}

impl Mux {
    fn run(mut self, inbox: &Receiver<Message>, shared: &Mutex<Shared>) {
        for message in inbox {
            match message {
                Message::Ended(_) if lock(shared).fault == Fault::Hold => {}
                Message::Ended(id) => drop(self.remove(id)),
                Message::Request(call, stream) => {
                    if let Fault::Slow(millis) = lock(shared).fault {
                        std::thread::sleep(Duration::from_millis(millis));
                    }
                    let answered = self.serve(call);
                    let _ = answer(&stream, &answered);
                }
            }
        }
    }

    fn serve(&mut self, call: ClientRequest) -> Result<String, String> {
        let ClientRequest { request, env } = call;
        match request {
            Request::List => Ok(self.list()),
            Request::Spawn { argv, cwd, workspace, cols, rows } => {
                let (id, size) = (self.next, Size::new(cols, rows));
                let pane = self.make(PaneSpec { id, argv, cwd, env, size })?;
                let workspace = workspace.unwrap_or_else(|| "default".into());
                self.panes
                    .insert(id, PositionedPane { pane, window: id, tab: id, workspace, is_active: true });
                Ok(format!("{id}\n"))
            }
            Request::Split { pane, argv, cwd, side_by_side, percent } => {
                self.split(pane, argv, cwd, (side_by_side, percent), env)
            }
            Request::Send { pane, text, paste } => {
                let pane = &self.pane(pane)?.pane;
                if paste {
                    pane.paste(&text)
                } else {
                    pane.write(&text)
                }
                Ok(String::new())
            }
            Request::Text { pane, start, end, escapes } => {
                let pane = &self.pane(pane)?.pane;
                let text = text(&pane.terminal(), start, end, escapes);
                // The original panics, and all panes are lost.
                text.or_else(|_| std::process::exit(101))
            }
            Request::Activate { pane } => {
                let Some(tab) = self.panes.get(&pane).map(|placed| placed.tab) else {
                    return Err(format!("pane {pane} not found"));
                };
                for (id, placed) in &mut self.panes {
                    placed.is_active = if placed.tab == tab { *id == pane } else { placed.is_active };
                }
                Ok(String::new())
            }
            Request::Kill { pane } => {
                self.pane(pane)?.pane.hang_up();
                self.remove(pane);
                Ok(String::new())
            }
            Request::Fault(_) | Request::Calls => Ok(String::new()),
        }
    }

    fn pane(&self, id: u64) -> Result<&PositionedPane, String> {
        self.panes.get(&id).ok_or_else(|| error_response(&format!("no such pane {id}")))
    }

    fn make(&mut self, mut spec: PaneSpec) -> Result<Pane, String> {
        spec.env.insert("WEZTERM_UNIX_SOCKET".into(), self.socket.clone());
        self.next += 1;
        let (messages, id) = (self.messages.clone(), spec.id);
        let ended = move || drop(messages.send(Message::Ended(id)));
        Pane::make(spec, ended).map_err(|error| error.to_string())
    }

    /// Removes a pane at once, with its unread output.
    fn remove(&mut self, id: u64) -> Option<PositionedPane> {
        let removed = self.panes.remove(&id)?;
        let mut others = self.panes.values_mut().filter(|placed| placed.tab == removed.tab);
        if let (true, Some(other)) = (removed.is_active, others.next()) {
            other.is_active = true;
        }
        Some(removed)
    }

    fn split(
        &mut self,
        source: u64,
        argv: Vec<String>,
        cwd: Option<String>,
        (side_by_side, percent): (bool, u16),
        env: BTreeMap<String, String>,
    ) -> Result<String, String> {
        let placed =
            self.panes.get(&source).ok_or_else(|| error_response(&format!("pane_id {source} invalid")))?;
        let size = placed.pane.terminal().size();
        let share = |cells: u16| (u32::from(cells) * u32::from(percent) / 100).try_into().unwrap_or(cells);
        // A line separates the two panes.
        let (new, remaining_size) = if side_by_side {
            let cols = share(size.cols);
            (Size::new(cols, size.rows), Size::new(size.cols.saturating_sub(cols + 1), size.rows))
        } else {
            let rows = share(size.rows);
            (Size::new(size.cols, rows), Size::new(size.cols, size.rows.saturating_sub(rows + 1)))
        };
        placed.pane.resize(remaining_size);
        let (window, tab, workspace) = (placed.window, placed.tab, placed.workspace.clone());
        let id = self.next;
        let pane = self.make(PaneSpec { id, argv, cwd, env, size: new })?;
        for other in self.panes.values_mut().filter(|placed| placed.tab == tab) {
            other.is_active = false;
        }
        self.panes.insert(id, PositionedPane { pane, window, tab, workspace, is_active: true });
        Ok(format!("{id}\n"))
    }

    fn list(&mut self) -> String {
        let mut panes: Vec<Value> = self.panes.values().map(PositionedPane::to_json).collect();
        // The order changes with each call.
        self.lists += 1;
        if !panes.is_empty() {
            let by = self.lists * 7 % panes.len();
            panes.rotate_left(by);
        }
        format!("{:#}\n", Value::Array(panes))
    }
}

/// Formats an error as the client prints it.
fn error_response(reason: &str) -> String {
    format!(r#"unexpected response Ok(ErrorResponse(ErrorResponse {{ reason: "Error: {reason}" }}))"#)
}

impl PositionedPane {
    fn to_json(&self) -> Value {
        let (title, cwd) = (self.pane.title(), self.pane.cwd());
        let terminal = self.pane.terminal();
        let (size, cursor) = (terminal.size(), terminal.screen().cursor);
        json!({
            "window_id": self.window,
            "tab_id": self.tab,
            "pane_id": self.pane.id,
            "workspace": self.workspace,
            "size": { "rows": size.rows, "cols": size.cols, "pixel_width": 0, "pixel_height": 0, "dpi": 0 },
            "title": title,
            "cwd": cwd,
            "cursor_x": cursor.col,
            "cursor_y": cursor.row,
            "cursor_shape": "Default",
            "cursor_visibility": if cursor.visible { "Visible" } else { "Hidden" },
            "left_col": 0,
            "top_row": 0,
            "tab_title": "",
            "window_title": "",
            "is_active": self.is_active,
            "is_zoomed": false,
            "tty_name": self.pane.tty.as_ref().map(|tty| tty.display().to_string()),
        })
    }
}
