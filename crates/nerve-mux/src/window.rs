//! The window of a node: the pane of tmux or WezTerm in which people see its terminal.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_host::backend::{PaneError, PaneInfo};
use nerve_host::registry::Entry;
use nerve_types::files::{read_json, replace_unsynced};
use nerve_types::os::start_time;
use nerve_types::{Multiplexer, Size};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::pane::{NewPane, PaneEntry, PanePlace, Panes};
use crate::tmux::Tmux;
use crate::wezterm::Wezterm;

/// The file of a window, in the runtime directory of its host.
const FILE: &str = "window.json";
/// Maximum size of that file; a larger one is not read.
const FILE_LIMIT: u64 = 64 << 10;
/// Variables by which the viewer finds the host. In the multiplexer's server they may have other values.
const PATH_VARS: [&str; 7] =
    ["HOME", "NERVE_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "AH_HOME", "TMPDIR"];
/// Time to wait for the program of a new pane.
const START_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Rows of the viewer's status line.
const STATUS_ROWS: u16 = 1;

/// The window of a node. A node in a host has at most one, which shows the host's terminal in a viewer. It can be closed and opened
/// again without effect on the node. The window of any other node is the pane in which its program runs.
#[derive(Debug)]
pub struct Window {
    panes: Panes,
    viewer: Option<Viewer>,
    pane: Mutex<Option<WindowPane>>,
    /// Held while the window is opened.
    opening: tokio::sync::Mutex<()>,
}

/// The viewer of a host.
#[derive(Debug)]
struct Viewer {
    /// The pane to create for it.
    pane: NewPane,
    /// Names the pane for a later server.
    file: PathBuf,
}

/// A pane, identified by its first process: multiplexers reuse the ids of panes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct WindowPane {
    #[serde(rename = "terminal")]
    multiplexer: Multiplexer,
    socket: Option<String>,
    /// tmux session or WezTerm workspace.
    session: Option<String>,
    pane: String,
    pid: Option<i32>,
    /// Start time of the process in clock ticks since boot.
    started: Option<u64>,
}

impl Window {
    /// Creates the window of a host. It is closed, unless an earlier server opened it. `program`: nerve.
    pub fn of_host(panes: &Panes, program: &Path, entry: &Entry, name: &str) -> Window {
        let argv = [&program.display().to_string(), "attach", &entry.id, "--gutter", "none"];
        let viewer = Viewer {
            pane: NewPane {
                argv: argv.map(str::to_string).to_vec(),
                cwd: entry.cwd.clone(),
                env: path_vars(),
                name: Some(name.to_string()),
                ..NewPane::default()
            },
            file: entry.runtime.join(FILE),
        };
        let pane = Mutex::new(read_json(&viewer.file, FILE_LIMIT).ok());
        Window { panes: panes.clone(), viewer: Some(viewer), pane, opening: tokio::sync::Mutex::default() }
    }

    /// Creates the window of a node whose program runs in this pane.
    pub fn of_pane(panes: &Panes, entry: &PaneEntry) -> Window {
        let pane = WindowPane {
            multiplexer: entry.multiplexer,
            socket: entry.socket.clone(),
            session: entry.session.clone(),
            pane: entry.pane.clone(),
            pid: entry.pid,
            started: entry.started,
        };
        let pane = Mutex::new(Some(pane));
        Window { panes: panes.clone(), viewer: None, pane, opening: tokio::sync::Mutex::default() }
    }

    /// Opens the window with room for a program of `size`, or focuses it if it is open in this multiplexer. A window in another one is
    /// closed. Returns the id of the new pane.
    ///
    /// # Errors
    /// [`PaneError`]; Refused: the program runs in a pane of its own.
    pub async fn open(
        &self,
        multiplexer: Multiplexer,
        place: &PanePlace,
        size: Size,
    ) -> Result<String, PaneError> {
        let Some(viewer) = &self.viewer else {
            return Err(PaneError::Refused("the node already runs in a pane of its own".to_string()));
        };
        let _opening = self.opening.lock().await;
        let previous = self.open_pane();
        if let Some(pane) = previous.as_ref().filter(|pane| pane.multiplexer == multiplexer) {
            self.client(pane).focus(&pane.pane).await?;
            return Ok(pane.pane.clone());
        }
        let new = NewPane {
            size: Size { cols: size.cols, rows: size.rows.saturating_add(STATUS_ROWS) },
            session: place.session.clone(),
            split: place.split.clone(),
            ..viewer.pane.clone()
        };
        let client = Client::new(&self.panes, multiplexer, place.socket.as_deref());
        let pane = client.open(&new).await?;
        if let Some(previous) = &previous {
            self.close_pane(previous).await;
        }
        // Without the file, a later server does not know the window. It is still the viewer of the host.
        let _ = replace_unsynced(&viewer.file, &serde_json::to_vec(&pane).unwrap_or_default());
        let id = pane.pane.clone();
        *self.pane.lock() = Some(pane);
        Ok(id)
    }

    /// Returns true if the window shows the terminal of a host.
    pub fn is_open(&self) -> bool {
        self.viewer.is_some() && self.open_pane().is_some()
    }

    /// Returns the location of the window for the node's info, as names and values.
    pub fn place(&self) -> Vec<(&'static str, String)> {
        let Some(viewed) = self.pane.lock().clone().filter(|_| self.viewer.is_some()) else {
            return Vec::new();
        };
        if !viewed.is_alive() {
            return vec![("window", "closed".to_string())];
        }
        let (session, socket) = match viewed.multiplexer {
            Multiplexer::Wezterm => ("workspace", "wezterm_socket"),
            Multiplexer::Tmux => ("tmux_session", "tmux_socket"),
        };
        let mut place = vec![
            ("window", "open".to_string()),
            ("pane_id", viewed.pane.clone()),
            ("owned", true.to_string()),
        ];
        place.extend(viewed.session.map(|name| (session, name)));
        place.extend(viewed.socket.map(|path| (socket, path)));
        place
    }

    /// Returns the multiplexer's current description of the pane.
    ///
    /// # Errors
    /// [`PaneError`]; NoPane: the window is closed.
    pub async fn info(&self) -> Result<PaneInfo, PaneError> {
        let pane = self.require_pane()?;
        let info = self.client(&pane).info(&pane.pane).await?;
        pane.check(&info)?;
        Ok(info)
    }

    /// Gives the pane the focus of its window.
    ///
    /// # Errors
    /// See [`Window::info`].
    pub async fn focus(&self) -> Result<(), PaneError> {
        let pane = self.info().await?.pane;
        self.client(&self.require_pane()?).focus(&pane).await
    }

    /// Resizes the window to leave room for a program of `size`.
    ///
    /// # Errors
    /// See [`Window::info`]; Refused: the multiplexer cannot resize windows.
    pub async fn resize(&self, size: Size) -> Result<(), PaneError> {
        let pane = self.info().await?.pane;
        let size = Size { cols: size.cols, rows: size.rows.saturating_add(STATUS_ROWS) };
        match self.client(&self.require_pane()?) {
            Client::Tmux(tmux) => tmux.resize(&pane, size).await,
            Client::Wezterm(_) => Err(PaneError::Refused(
                "WezTerm's command line cannot resize a window; resize it by hand".to_string(),
            )),
        }
    }

    /// Closes the window of a host. Does nothing if it is closed, or if its pane belongs to another program by now.
    pub async fn close(&self) {
        let pane = self.pane.lock().take().filter(|_| self.viewer.is_some());
        if let Some(pane) = pane {
            self.close_pane(&pane).await;
        }
    }

    async fn close_pane(&self, pane: &WindowPane) {
        if !pane.is_alive() {
            return;
        }
        let client = self.client(pane);
        if client.info(&pane.pane).await.is_ok_and(|info| pane.check(&info).is_ok()) {
            // The pane may have closed by itself.
            let _ = client.kill(&pane.pane).await;
        }
    }

    fn open_pane(&self) -> Option<WindowPane> {
        self.pane.lock().clone().filter(WindowPane::is_alive)
    }

    fn require_pane(&self) -> Result<WindowPane, PaneError> {
        self.open_pane().ok_or_else(|| match &*self.pane.lock() {
            Some(pane) => PaneError::NoPane(format!("{}: its program is gone", pane.pane)),
            None => PaneError::NoPane("the node has no window".to_string()),
        })
    }

    fn client(&self, pane: &WindowPane) -> Client {
        Client::new(&self.panes, pane.multiplexer, pane.socket.as_deref())
    }
}

impl WindowPane {
    /// Returns true if the pane's first process lives. The start time is checked, because the system reuses process ids too.
    fn is_alive(&self) -> bool {
        let Some(pid) = self.pid else { return false };
        self.started.is_some() && start_time(pid) == self.started
    }

    /// Checks that the pane with this id is still this pane.
    ///
    /// # Errors
    /// NoPane.
    fn check(&self, info: &PaneInfo) -> Result<(), PaneError> {
        match info.pid == self.pid && self.is_alive() {
            true => Ok(()),
            false => Err(PaneError::NoPane(format!("{}: its program is gone", self.pane))),
        }
    }
}

/// The command line of a multiplexer.
#[derive(Debug)]
enum Client {
    Tmux(Tmux),
    Wezterm(Wezterm),
}

impl Client {
    fn new(panes: &Panes, multiplexer: Multiplexer, socket: Option<&str>) -> Client {
        match multiplexer {
            Multiplexer::Tmux => Client::Tmux(Tmux::new(socket).with_program(panes.tmux.clone())),
            Multiplexer::Wezterm => {
                let wezterm = Wezterm::new(socket.map(str::to_string));
                Client::Wezterm(match &panes.wezterm {
                    Some(program) => wezterm.with_program(program.clone()),
                    None => wezterm,
                })
            }
        }
    }

    /// Creates a pane and identifies it.
    async fn open(&self, new: &NewPane) -> Result<WindowPane, PaneError> {
        let (multiplexer, id, socket) = match self {
            Client::Tmux(tmux) => {
                let (id, socket) = tmux.spawn_sized(new).await?;
                (Multiplexer::Tmux, id, socket)
            }
            Client::Wezterm(wezterm) => {
                let socket = wezterm.socket().map(str::to_string);
                (Multiplexer::Wezterm, wezterm.spawn(new).await?, socket)
            }
        };
        let ended_at_once = |_| PaneError::Refused("the viewer in the new pane ended at once".to_string());
        let deadline = Instant::now() + START_TIMEOUT;
        let mut info = self.info(&id).await.map_err(ended_at_once)?;
        // A new process takes a moment to become the leader of its terminal.
        while info.pid.is_none() && Instant::now() < deadline {
            tokio::time::sleep(POLL_INTERVAL).await;
            info = self.info(&id).await.map_err(ended_at_once)?;
        }
        let started = info.pid.and_then(start_time);
        Ok(WindowPane { multiplexer, socket, session: Some(info.session), pane: id, pid: info.pid, started })
    }

    async fn info(&self, pane: &str) -> Result<PaneInfo, PaneError> {
        match self {
            Client::Tmux(tmux) => tmux.pane(pane).await,
            Client::Wezterm(wezterm) => wezterm.pane_info(pane).await,
        }
    }

    async fn focus(&self, pane: &str) -> Result<(), PaneError> {
        match self {
            Client::Tmux(tmux) => tmux.focus(pane).await,
            Client::Wezterm(wezterm) => wezterm.activate(pane).await,
        }
    }

    async fn kill(&self, pane: &str) -> Result<(), PaneError> {
        match self {
            Client::Tmux(tmux) => tmux.kill(pane).await,
            Client::Wezterm(wezterm) => wezterm.kill(pane).await,
        }
    }
}

/// Returns the variables of this process that locate hosts, as absolute paths. Missing ones are set to nothing, which nerve ignores.
fn path_vars() -> BTreeMap<String, String> {
    let value = |name: &str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
        std::path::absolute(value).ok()?.into_os_string().into_string().ok()
    };
    let pairs = PATH_VARS.iter().map(|name| (name.to_string(), value(name)));
    // A program may need a home.
    pairs
        .filter(|(name, value)| value.is_some() || name != "HOME" && name != "TMPDIR")
        .map(|(name, value)| (name, value.unwrap_or_default()))
        .collect()
}
