//! The dashboard in the user's terminal.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nerve_types::activity::TsMs;
use tokio::time::Instant;

use super::effect::Effect;
use super::state::Dashboard;
use crate::TuiError;
use crate::terminal::pacing::{FramePacer, until};
use crate::terminal::{TerminalEvent, UserTerminal};

/// Changes that come from servers are drawn at most this often: agents can report many per second.
const UPDATE_INTERVAL: Duration = Duration::from_millis(250);
/// Minimum interval of draws that only update ages.
const AGE_INTERVAL: Duration = Duration::from_secs(1);

/// A dashboard in the user's terminal. Dropping it restores the terminal.
pub struct DashboardSession {
    dashboard: Dashboard,
    terminal: UserTerminal,
    pacing: FramePacer,
    has_colors: bool,
    last_draw: Instant,
    /// Time at which changes from servers are drawn.
    update_due: Option<Instant>,
}

/// The next thing that the caller has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DashboardEvent {
    /// Perform an effect.
    Effect(Effect),
    /// Leave: this process received a signal with this number, or the terminal was closed.
    Closed(Option<u8>),
}

impl DashboardSession {
    /// Takes over the terminal.
    ///
    /// # Errors
    /// There is no terminal, or signals cannot be handled.
    pub fn start(dashboard: Dashboard, has_colors: bool) -> Result<DashboardSession, TuiError> {
        let mut pacing = FramePacer::default();
        pacing.request();
        let terminal = UserTerminal::take()?;
        Ok(DashboardSession {
            dashboard,
            terminal,
            pacing,
            has_colors,
            last_draw: Instant::now(),
            update_due: None,
        })
    }

    /// Returns the dashboard for a change, which is drawn soon.
    pub fn update(&mut self) -> &mut Dashboard {
        self.update_due.get_or_insert(self.last_draw + UPDATE_INTERVAL);
        &mut self.dashboard
    }

    /// Returns the dashboard for a change that answers the user, which is drawn at once.
    pub fn respond(&mut self) -> &mut Dashboard {
        self.pacing.request();
        &mut self.dashboard
    }

    /// Gives the terminal back and returns the dashboard.
    pub fn leave(self) -> Dashboard {
        self.dashboard
    }

    /// Stops this process, as Ctrl+Z does.
    ///
    /// # Errors
    /// The terminal cannot be taken back.
    pub fn suspend(&mut self) -> Result<(), TuiError> {
        self.pacing.request();
        self.terminal.tty.suspend().map_err(TuiError::Terminal)
    }

    /// Draws and handles input until the caller has to do something. Cancel-safe.
    pub async fn next(&mut self) -> DashboardEvent {
        loop {
            let next_age = self.dashboard.time_until_age_change(now()).map(|after| Instant::now() + after);
            // Ages change at different moments of a second, one for each node.
            let next_age = next_age.map(|due| due.max(self.last_draw + AGE_INTERVAL));
            let due = [self.update_due, next_age].into_iter().flatten().min();
            tokio::select! {
                biased;
                event = self.terminal.next_event(&mut self.pacing) => match event {
                    TerminalEvent::DrawDue => self.draw(),
                    TerminalEvent::Closed(signal) => return DashboardEvent::Closed(signal),
                    TerminalEvent::Input(input) => {
                        self.pacing.request();
                        if let Some(effect) = self.dashboard.input(&input) {
                            return DashboardEvent::Effect(effect);
                        }
                    }
                },
                () = until(due) => {
                    self.update_due = None;
                    self.pacing.request();
                }
            }
        }
    }

    fn draw(&mut self) {
        let (dashboard, now) = (&self.dashboard, now());
        self.terminal.tty.draw(self.has_colors, |buffer, _| dashboard.draw(now, buffer));
        let drawn = Instant::now();
        self.pacing.record(drawn);
        (self.last_draw, self.update_due) = (drawn, None);
    }
}

fn now() -> TsMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TsMs(nerve_types::millis(since))
}
