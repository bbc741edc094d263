//! Follows a run: shows its events, asks the user at its gates, and cancels it on Ctrl+C.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_api::reply::RunInfo;
use nerve_api::request::Subscribe;
use nerve_api::{EventKind, EventMessage};
use nerve_client::{ClientError, EventStream, NerveClient};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::graph_command;
use super::keyboard::{Keyboard, parse_answer, prompt};
use super::progress::Progress;
use super::screen::Screen;
use crate::failure::{Failure, INTERRUPTED};
use crate::out;

/// Redraw interval. Longer durations are shown in whole seconds.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);
/// Time that a cancelled run gets to end.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(15);
/// Time limit for the last events, which may arrive after the result.
const FINAL_EVENTS_TIMEOUT: Duration = Duration::from_millis(500);

/// Follows one run on the terminal.
pub struct RunFollower {
    client: NerveClient,
    /// Server name for command lines in messages.
    server: String,
    progress: Progress,
    screen: Screen,
    keyboard: Option<Keyboard>,
    events: EventStream,
    interrupts: Signal,
    /// Step of the gate whose question is on the terminal.
    asked_step: Option<String>,
    /// Ctrl+C cancels the run instead of only ending the display.
    owns_run: bool,
    /// Deadline of a cancelled run.
    cancel_deadline: Option<Instant>,
    /// Notified when the run has ended or its events stop.
    ended: Arc<Notify>,
}

impl RunFollower {
    /// Subscribes to the run's events. The run need not exist yet. If `owns_run`, Ctrl+C cancels the run instead of only
    /// ending the display.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn new(
        client: &NerveClient,
        server: &str,
        progress: Progress,
        owns_run: bool,
    ) -> Result<RunFollower> {
        let interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl+C")?;
        let filter = Subscribe { run_id: Some(progress.run.clone()), ..Subscribe::default() };
        let events = client.subscribe(&filter).await?;
        let screen = Screen::new();
        let keyboard = screen.is_live().then(Keyboard::new).flatten();
        let (asked_step, cancel_deadline, ended) = (None, None, Arc::default());
        Ok(RunFollower {
            client: client.clone(),
            server: server.to_string(),
            progress,
            screen,
            keyboard,
            events,
            interrupts,
            asked_step,
            owns_run,
            cancel_deadline,
            ended,
        })
    }

    /// Returns true if progress is drawn as rows on a terminal.
    pub fn is_live(&self) -> bool {
        self.screen.is_live()
    }

    /// Returns the run id.
    pub fn run(&self) -> &str {
        &self.progress.run
    }

    /// Returns the step that failed first.
    pub fn first_failed_step(&self) -> Option<String> {
        self.progress.first_failure().map(|row| row.step.clone())
    }

    /// Shows progress until `work` is done.
    ///
    /// # Errors
    /// Exit code 130 if Ctrl+C ended the display before the run. The inner result is that of `work`.
    pub async fn follow_until<T>(
        &mut self,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<Result<T, ClientError>> {
        tokio::pin!(work);
        let mut ticks = interval(DRAW_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_subscribed = true;
        let outcome = loop {
            let deadline = self.cancel_deadline.unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                _ = self.interrupts.recv() => self.on_interrupt()?,
                outcome = &mut work => break outcome,
                event = self.events.next(), if is_subscribed => match event {
                    Some(event) => self.on_event(&event).await,
                    None => {
                        is_subscribed = false;
                        self.ended.notify_one();
                    }
                },
                line = next_line(&mut self.keyboard) => self.on_answer(line).await,
                () = sleep_until(deadline), if self.cancel_deadline.is_some() => return Err(self.interrupt_failure().into()),
                _ = ticks.tick() => self.draw(),
            }
        };
        if is_subscribed && !matches!(outcome, Err(ClientError::Closed(_))) {
            // The result has arrived; missing events do not matter.
            let _ = timeout(FINAL_EVENTS_TIMEOUT, self.last_events()).await;
        }
        self.stop_asking();
        self.screen.draw(&self.progress);
        self.screen.leave();
        Ok(outcome)
    }

    /// Shows progress until the run has ended, for a run started by another client.
    ///
    /// # Errors
    /// See [`RunFollower::follow_until`]; also if the connection is closed.
    pub async fn follow_to_end(&mut self) -> Result<()> {
        let ended = Arc::clone(&self.ended);
        let work = async move {
            ended.notified().await;
            Ok(())
        };
        self.follow_until(work).await??;
        if self.progress.status.is_some() { Ok(()) } else { Err(ClientError::closed().into()) }
    }

    /// Fetches the state of the run, after missed or dropped events.
    ///
    /// # Errors
    /// The run does not exist, or the connection is closed.
    pub async fn catch_up(&mut self) -> Result<RunInfo, ClientError> {
        let info = self.client.run_status(&self.progress.run, None).await?;
        self.progress.catch_up(&info);
        if self.progress.status.is_some() {
            self.ended.notify_one();
        }
        self.ask_next_gate();
        Ok(info)
    }

    async fn on_event(&mut self, event: &EventMessage) {
        self.progress.apply(event);
        let details = event.details();
        let step = details.as_ref().and_then(EventKind::step).unwrap_or_default();
        match &details {
            // On failure the display stays as it is.
            Some(EventKind::EventsDropped { .. }) => drop(self.catch_up().await),
            Some(EventKind::GraphCompleted { .. }) => self.ended.notify_one(),
            // Ctrl+C was pressed before the run started.
            Some(EventKind::GraphStarted { .. }) if self.cancel_deadline.is_some() => self.cancel(),
            Some(EventKind::GateAnswered { choice, by, .. }) if self.asked_step.as_deref() == Some(step) => {
                self.stop_asking();
                out::note(format_args!("{step} was answered by {by}: {}", out::preview(choice, 200)));
            }
            Some(EventKind::GateAsked { .. }) if self.screen.is_live() && self.keyboard.is_none() => {
                self.screen.draw(&self.progress);
                self.screen.leave();
                out::note(format_args!("{step} asks; answer with '{}'", self.answer_command(step)));
            }
            _ => {}
        }
        let command = self.answer_command(step);
        self.screen.print_event(event, &command);
        self.ask_next_gate();
    }

    async fn last_events(&mut self) {
        while self.progress.status.is_none() {
            match self.events.next().await {
                Some(event) => self.on_event(&event).await,
                None => return,
            }
        }
    }

    /// Draws the rows unless a question is on the terminal.
    fn draw(&mut self) {
        if self.asked_step.is_none() {
            self.screen.draw(&self.progress);
        }
    }

    /// Asks the question of the next open gate.
    fn ask_next_gate(&mut self) {
        if self.asked_step.is_some() {
            return;
        }
        if let (Some(keyboard), Some(gate)) = (&mut self.keyboard, self.progress.gates.first()) {
            self.screen.draw(&self.progress);
            self.screen.leave();
            keyboard.ask(gate);
            self.asked_step = Some(gate.step_id.clone());
        }
    }

    /// Handles a typed line, or the end of input.
    async fn on_answer(&mut self, line: Option<String>) {
        let Some(step) = self.asked_step.clone() else { return };
        let Some(gate) = self.progress.gates.iter().find(|gate| gate.step_id == step).cloned() else {
            return;
        };
        let Some(line) = line else {
            self.keyboard = None;
            self.asked_step = None;
            out::note(format_args!("\n{step} waits; answer with '{}'", self.answer_command(&step)));
            return;
        };
        let Some(choice) = parse_answer(&line, &gate) else { return prompt(&gate) };
        match self.client.answer_gate(&self.progress.run, Some(&step), &choice).await {
            Ok(_) => {
                self.progress.gates.retain(|gate| gate.step_id != step);
                self.asked_step = None;
                self.ask_next_gate();
            }
            Err(ClientError::Server(error)) => {
                out::note(out::sanitize(&error.to_string()));
                prompt(&gate);
            }
            // `work` reports the closed connection.
            Err(_) => self.asked_step = None,
        }
    }

    /// Ends the line with the answer prompt.
    fn stop_asking(&mut self) {
        if self.asked_step.take().is_some() {
            out::note("");
        }
    }

    /// Handles Ctrl+C.
    fn on_interrupt(&mut self) -> Result<()> {
        self.stop_asking();
        if !self.owns_run || self.cancel_deadline.is_some() {
            return Err(self.interrupt_failure().into());
        }
        self.screen.erase();
        out::note(format_args!(
            "cancelling run '{}'; press Ctrl+C again to exit immediately",
            self.progress.run
        ));
        self.cancel_deadline = Some(Instant::now() + CANCEL_TIMEOUT);
        self.keyboard = None;
        self.cancel();
        Ok(())
    }

    fn cancel(&self) {
        let (client, run) = (self.client.clone(), self.progress.run.clone());
        // Success shows in the run's end.
        tokio::spawn(async move { client.cancel_run(&run).await });
    }

    /// Returns the error for a run that continues or was not waited for.
    fn interrupt_failure(&self) -> Failure {
        let run = &self.progress.run;
        let status = graph_command(&self.server, &format!("status {run}"));
        if self.cancel_deadline.is_some() {
            let message = format!("interrupted; run '{run}' is being cancelled");
            return Failure::new(INTERRUPTED, message).hint(format!("show its state with '{status}'"));
        }
        let cancel = graph_command(&self.server, &format!("cancel {run}"));
        Failure::new(INTERRUPTED, format!("interrupted; run '{run}' continues"))
            .hint(format!("follow it with '{status} --watch', cancel it with '{cancel}'"))
    }

    fn answer_command(&self, step: &str) -> String {
        let step = shell_words::quote(step);
        graph_command(&self.server, &format!("answer {} --step {step} CHOICE", self.progress.run))
    }
}

async fn next_line(keyboard: &mut Option<Keyboard>) -> Option<String> {
    match keyboard {
        Some(keyboard) => keyboard.line().await,
        None => std::future::pending().await,
    }
}
