//! How a connection to a pane is made: to a new one, to one that is there, to one that was ours.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_term::event::Size;

use super::client::Tmux;
use super::control::Control;
use super::formats::SEPARATOR;
use super::parser::{Said, pane_of};
use super::quoting::{self, program};
use super::screen::{self, State};
use crate::backend::Program;
use crate::backend::pane::PaneError;
use crate::host::registry::start_ticks;

/// What is asked of a pane to know whose it is.
const FACTS: &str = concat!(
    "#{pane_id}\u{1f}#{pane_pid}\u{1f}#{pane_tty}\u{1f}#{pid}\u{1f}#{pane_width}\u{1f}#{pane_height}\u{1f}#{session_id}\u{1f}",
    "#{session_name}\u{1f}#{pane_current_path}\u{1f}#{socket_path}"
);
/// Runs in a pane until its own program does; a minute is long for that.
const STAND_IN: [&str; 2] = ["sleep", "60"];
/// How long servers and sessions may come and go between two looks.
const UNREST: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);

/// What is known of a pane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) pane: String,
    /// The pane's number: 3 of `%3`.
    pub(super) number: u32,
    /// The program that it was made for.
    pub(super) pid: Option<i32>,
    pub(super) tty: Option<PathBuf>,
    /// tmux's own process, and when it was started: another one gives the same numbers to other panes.
    pub(super) server: Option<(u32, u64)>,
    pub(super) size: Size,
    /// An id, `$1`.
    session_id: String,
    pub(super) session: String,
    pub(super) cwd: Option<PathBuf>,
    pub(super) socket: Option<String>,
}

/// A connection to a pane.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) control: Control,
    pub(super) facts: Facts,
    /// What it showed before; nothing of a new one.
    pub(super) screen: Vec<u8>,
}

impl Facts {
    fn read(text: &str) -> Option<Facts> {
        let fields: Vec<&str> = text.trim_end_matches('\n').splitn(10, SEPARATOR).collect();
        let [pane, pid, tty, server, cols, rows, session_id, session, cwd, socket] = fields.as_slice() else {
            return None;
        };
        let server: Option<u32> = server.parse().ok();
        let some = |text: &str| (!text.is_empty()).then(|| text.to_string());
        Some(Facts {
            pane: (*pane).to_string(),
            number: pane_of(pane)?,
            pid: pid.parse().ok().filter(|pid| *pid > 0),
            tty: some(tty).map(PathBuf::from),
            server: server.and_then(|pid| Some((pid, start_ticks(pid)?))),
            size: Size::new(cols.parse().ok()?, rows.parse().ok()?),
            session_id: (*session_id).to_string(),
            session: (*session).to_string(),
            cwd: some(cwd).map(PathBuf::from),
            socket: some(socket),
        })
    }

    /// Of a pane, by whatever name tmux has for it.
    ///
    /// # Errors
    /// [`PaneError`].
    pub(super) async fn of(tmux: &Tmux, target: &str) -> Result<Facts, PaneError> {
        let text = tmux.call(&["display-message", "-p", "-t", target, FACTS], &[]).await?;
        Facts::read(&String::from_utf8_lossy(&text)).ok_or_else(|| PaneError::NoPane(target.to_string()))
    }
}

/// A connection to the session of a pane that is there, with what it shows.
///
/// # Errors
/// [`PaneError`].
pub(super) async fn join(tmux: &Tmux, facts: Facts) -> Result<Joined, PaneError> {
    let mut control = attach(tmux, &facts.session_id).await?;
    let screen = capture(&mut control, &facts).await?;
    Ok(Joined { control, facts: Facts { size: screen.1, ..facts }, screen: screen.0 })
}

/// Looks at a session without a size of its own and without changing its environment.
async fn attach(tmux: &Tmux, session: &str) -> Result<Control, PaneError> {
    let words = ["attach-session", "-E", "-f", "ignore-size", "-t", session];
    Ok(Control::open(tmux.command(), &words).await?.0)
}

/// Bytes that make what a pane shows now, and its size. What it wrote before is in them and is not told again.
pub(super) async fn capture(control: &mut Control, facts: &Facts) -> Result<(Vec<u8>, Size), PaneError> {
    let pane = facts.pane.as_str();
    // In one line, so that nothing comes between.
    let answers = control.ask_all(&screen::questions(pane)).await?;
    control.forget(|said| matches!(said, Said::Output { pane, .. } if *pane == facts.number));
    let [state, text, below] = answers.as_slice() else { return Err(PaneError::NoPane(pane.to_string())) };
    let state = State::read(&String::from_utf8_lossy(state)).ok_or_else(|| PaneError::NoPane(pane.into()))?;
    let (cols, rows) = state.size();
    Ok((state.repaint(text, Some(below)), Size::new(cols, rows)))
}

/// Where a new pane is to be.
pub(super) struct Wanted<'a> {
    pub(super) session: &'a str,
    pub(super) name: &'a str,
    pub(super) size: Size,
    pub(super) cwd: &'a Path,
}

/// Makes a pane and starts a program in it. The connection is there before the program is, so that no byte is missed.
///
/// # Errors
/// [`PaneError`]: nothing was started, or it was ended again.
pub(super) async fn make(tmux: &Tmux, wanted: &Wanted<'_>, run: &Program) -> Result<Joined, PaneError> {
    quoting::check_session(wanted.session)?;
    let (mut control, pane) = place(tmux, wanted).await?;
    match fill(&mut control, &pane, wanted, run).await {
        Ok(facts) => Ok(Joined { control, facts, screen: Vec::new() }),
        Err(error) => {
            // It goes with the stand-in at the latest.
            let _ = control.ask(&["kill-pane", "-t", &pane]).await;
            Err(error)
        }
    }
}

/// A window in a session that is there, or a session.
async fn place(tmux: &Tmux, wanted: &Wanted<'_>) -> Result<(Control, String), PaneError> {
    let deadline = tokio::time::Instant::now() + UNREST;
    loop {
        let placed = match tmux.has_session(wanted.session).await? {
            true => window(tmux, wanted).await,
            false => session(tmux, wanted).await,
        };
        let restless = match &placed {
            // It has just ended, or is not there yet.
            Err(PaneError::NoPane(_) | PaneError::NoServer(_)) => true,
            // Somebody else was faster.
            Err(PaneError::Refused(said)) => said.contains("duplicate session"),
            _ => false,
        };
        if !restless || tokio::time::Instant::now() >= deadline {
            return placed;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn window(tmux: &Tmux, wanted: &Wanted<'_>) -> Result<(Control, String), PaneError> {
    let mut control = attach(tmux, &format!("={}", wanted.session)).await?;
    let target = format!("={}:", wanted.session);
    let mut words = vec!["new-window", "-d", "-P", "-F", "#{pane_id}", "-t", &target, "-n", wanted.name];
    words.extend(STAND_IN);
    let pane = control.ask(&words).await?.trim().to_string();
    Ok((control, pane))
}

async fn session(tmux: &Tmux, wanted: &Wanted<'_>) -> Result<(Control, String), PaneError> {
    let (cols, rows) = (wanted.size.cols.to_string(), wanted.size.rows.to_string());
    let mut words = vec!["new-session", "-s", wanted.session, "-n", wanted.name, "-x", &cols, "-y", &rows];
    words.extend(["-f", "ignore-size", "-P", "-F", "#{pane_id}"]);
    words.extend(STAND_IN);
    let (control, pane) = Control::open(tmux.command(), &words).await?;
    Ok((control, pane.trim().to_string()))
}

/// Puts the program in the stand-in's place.
async fn fill(
    control: &mut Control,
    pane: &str,
    wanted: &Wanted<'_>,
    run: &Program,
) -> Result<Facts, PaneError> {
    // Its end and its last words are to be seen.
    control.ask(&["set-option", "-p", "-t", pane, "remain-on-exit", "on"]).await?;
    // Nothing is to be written over them. Older ones cannot be told so.
    control.ask(&["set-option", "-p", "-q", "-t", pane, "remain-on-exit-format", ""]).await?;
    let before = facts(control, pane).await?;
    if before.size != wanted.size && !is_watched(control, &before.session_id).await? {
        let (cols, rows) = (wanted.size.cols.to_string(), wanted.size.rows.to_string());
        control.ask(&["resize-window", "-t", pane, "-x", &cols, "-y", &rows]).await?;
    }
    // Formats are expanded in folders.
    let cwd = wanted.cwd.display().to_string().replace('#', "##");
    let mut words = vec!["respawn-pane".into(), "-k".into(), "-t".into(), pane.to_string(), "-c".into(), cwd];
    words.extend(program(&run.argv, &run.env, &run.env_remove));
    control.ask(&words).await?;
    facts(control, pane).await
}

async fn facts(control: &mut Control, pane: &str) -> Result<Facts, PaneError> {
    let text = control.ask(&["display-message", "-p", "-t", pane, FACTS]).await?;
    Facts::read(&text).ok_or_else(|| PaneError::NoPane(pane.to_string()))
}

/// A person looks at the session: its size is theirs.
async fn is_watched(control: &mut Control, session: &str) -> Result<bool, PaneError> {
    let clients = control.ask(&["list-clients", "-t", session, "-F", "#{client_control_mode}"]).await?;
    Ok(clients.lines().any(|control| control != "1"))
}
