//! Switches from one program to another in the same terminal. Messages are printed when the terminal is restored.

use anyhow::Result;
use nerve_server::paths::ServerPaths;
use nerve_tui::live_viewer::{ExitReason, LiveSession, ViewerOptions};
use nerve_tui::mirror::{SizeRule, TerminalMirror};
use nerve_tui::terminal::{self, UserTerminal};
use nerve_tui::view::layout::Layout;

use super::attach_target::AttachTarget;
use super::background::{Background, UnfinishedJobs, ViewerExit};
use super::host_lookup::find_host;
use super::mirror::open_mirror;
use super::next_runs::{NextRuns, Run, next_run};
use super::{ViewerOutcome, exit_code, exit_message};
use crate::out;

/// A switch to another program: the target, the terminal to show it in, and the messages of the programs before it.
pub(crate) struct ProgramSwitch {
    user_terminal: UserTerminal,
    target: AttachTarget,
    options: ViewerOptions,
    messages: ExitMessages,
}

/// Messages to print at the end.
#[derive(Default)]
struct ExitMessages {
    faults: Vec<String>,
    notes: Vec<String>,
    unfinished: Vec<UnfinishedJobs>,
}

impl ExitMessages {
    async fn print(self) {
        self.faults.iter().for_each(out::warning);
        self.notes.iter().for_each(out::note);
        for unfinished in self.unfinished {
            unfinished.finish().await;
        }
    }
}

/// Shows a program until the user leaves or it ends. The terminal is restored unless the user switches to another
/// program.
pub(super) async fn show(
    mirror: TerminalMirror,
    options: ViewerOptions,
    user_terminal: UserTerminal,
) -> Result<ViewerOutcome> {
    show_runs(mirror, options, None, user_terminal).await
}

/// Like [`show`], and shows the next runs after the first.
pub(crate) async fn show_runs(
    mirror: TerminalMirror,
    options: ViewerOptions,
    next_runs: Option<NextRuns>,
    mut user_terminal: UserTerminal,
) -> Result<ViewerOutcome> {
    let mut background = Background::for_host(mirror.entry());
    let mut live = LiveSession::new(mirror, options);
    live.set_title(&mut user_terminal.tty);
    let exit = run(&mut live, &mut background, next_runs, &mut user_terminal).await;
    let (exit_reason, target) = match exit {
        ViewerExit::Left(exit_reason) => (exit_reason, None),
        ViewerExit::SwitchTo(target) => (live.exit_reason(), Some(target)),
    };
    let (last_lines, faults) = (live.last_lines(), live.take_faults());
    let interrupted = live.was_interrupted();
    let (mut mirror, options) = live.into_parts();
    let unfinished = background.into_unfinished();
    let Some(target) = target else {
        drop(user_terminal);
        mirror.flush().await;
        unfinished.finish().await;
        return Ok(ViewerOutcome { exit_reason, faults, last_lines, interrupted, switch_to: None });
    };
    mirror.flush().await;
    let mut switch_to = ProgramSwitch::new(user_terminal, target, options);
    switch_to.messages.faults = faults;
    switch_to.messages.unfinished.push(unfinished);
    Ok(ViewerOutcome {
        exit_reason,
        faults: Vec::new(),
        last_lines,
        interrupted,
        switch_to: Some(Box::new(switch_to)),
    })
}

/// Runs the viewer until the user leaves or the last run has ended.
async fn run(
    live: &mut LiveSession,
    background: &mut Background,
    mut next_runs: Option<NextRuns>,
    user_terminal: &mut UserTerminal,
) -> ViewerExit<ExitReason> {
    loop {
        let has_ended = live.has_ended();
        tokio::select! {
            request = live.next(user_terminal) => {
                let host = live.mirror.entry();
                if let Some(exit) = background.perform(request, &mut live.session, Some(host)) {
                    return exit;
                }
            }
            event = background.next() => {
                background.apply(event, live.session.viewer_mut());
                // Yields under a flood of events.
                tokio::task::yield_now().await;
            }
            run = next_run(&mut next_runs), if has_ended => match run {
                Ok(Run { mirror, name, notice }) => {
                    *background = Background::for_host(mirror.entry());
                    live.show_next_run(mirror, name, notice, &mut user_terminal.tty);
                }
                Err(error) => {
                    next_runs = None;
                    live.session.viewer_mut().show_message(&format!("{error:#}"));
                }
            },
        }
    }
}

impl ProgramSwitch {
    fn new(user_terminal: UserTerminal, target: AttachTarget, options: ViewerOptions) -> ProgramSwitch {
        ProgramSwitch { user_terminal, target, options, messages: ExitMessages::default() }
    }

    /// Switches from a recording.
    pub(crate) fn from_recording(
        user_terminal: UserTerminal,
        target: AttachTarget,
        options: ViewerOptions,
        unfinished: UnfinishedJobs,
    ) -> ProgramSwitch {
        let mut switch_to = ProgramSwitch::new(user_terminal, target, options);
        switch_to.messages.unfinished.push(unfinished);
        switch_to
    }

    /// Adds the message for leaving the previous program; `command` attaches to it again.
    #[must_use]
    pub(crate) fn after_leaving(mut self, reason: ExitReason, command: &str) -> ProgramSwitch {
        self.messages.notes.extend(exit_message(reason, command));
        self
    }

    /// Shows the target, and any further targets. Returns the exit code of `nerve attach`.
    ///
    /// # Errors
    /// The target is gone, or the terminal cannot be used.
    pub(crate) async fn run(self) -> Result<u8> {
        let ProgramSwitch { mut user_terminal, mut target, mut options, mut messages } = self;
        loop {
            // Resets the title and progress of the previous program.
            user_terminal.tty.title("");
            user_terminal.tty.progress(0, 0);
            options =
                ViewerOptions { name: target.target.clone(), read_only: false, notice: None, ..options };
            let mirror = open(&target, &options).await;
            let result = match mirror {
                Ok(mirror) => show(mirror, options.clone(), user_terminal).await,
                Err(error) => {
                    drop(user_terminal);
                    Err(error)
                }
            };
            let outcome = match result {
                Ok(outcome) => outcome,
                Err(error) => {
                    messages.print().await;
                    return Err(error);
                }
            };
            let switch_to = outcome.switch_to.map(|switch_to| *switch_to);
            messages.faults.extend(outcome.faults);
            messages.notes.extend(exit_message(outcome.exit_reason, &target.command()));
            let Some(switch_to) = switch_to else {
                messages.print().await;
                return Ok(exit_code(outcome.exit_reason));
            };
            messages.faults.extend(switch_to.messages.faults);
            messages.unfinished.extend(switch_to.messages.unfinished);
            (user_terminal, target, options) = (switch_to.user_terminal, switch_to.target, switch_to.options);
        }
    }
}

async fn open(target: &AttachTarget, options: &ViewerOptions) -> Result<TerminalMirror> {
    let entry = find_host(target).await?;
    let window = terminal::window().unwrap_or_default();
    let room = Layout::program_size(window.cols, window.rows, options.gutter);
    open_mirror(entry, &ServerPaths::from_env(), SizeRule::default(), Some(room))
}
