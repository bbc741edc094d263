//! The main loop: reads commands, executes them and shows events meanwhile. A single task does this, so outputs do not
//! interleave.

use std::future::Future;

use anyhow::Result;
use nerve_api::DEFAULT_SESSION;
use nerve_api::{EventMessage, EventType};
use nerve_client::{EventStream, NerveClient};
use nerve_commands::event_line;
use nerve_commands::failure::{DONE, FAILED, Failure, INTERRUPTED, USAGE};
use nerve_commands::node_command::CommandContext;
use nerve_commands::out;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::command::{Command, EventsArgs, Switch};
use super::draft::Draft;
use super::help as overview;
use super::input::Input;
use super::interruption::{
    INTERRUPT_TIMEOUT, InterruptAction, Interruption, Signals, TerminationError, abandoned_failure,
};
use super::name_lookup::SharedState;
use super::parser::{Request, help, parse, without_dag};
use super::runs::{RunEnd, Runs};
use super::screen::Screen;
use super::source::{Source, SourceEvent};
use super::started_nodes::StartedNodes;

/// A running REPL.
pub(super) struct Shell {
    pub(super) client: NerveClient,
    /// Server name for the prompt and messages. `None`: in-process server.
    pub(super) server: Option<String>,
    pub(super) screen: Screen,
    pub(super) state: SharedState,
    pub(super) draft: Option<Draft>,
    pub(super) runs: Runs,
    pub(super) run_ends: mpsc::UnboundedReceiver<RunEnd>,
    pub(super) started: StartedNodes,
    /// Node whose events are hidden while its answer is printed.
    pub(super) muted_node: Option<String>,
    events: Option<EventStream>,
    signals: Signals,
    /// A command ended the last source.
    exited: bool,
}

/// The end of the REPL: its exit code, and whether started nodes and runs stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit {
    /// Exit code.
    pub(super) code: u8,
    /// Keep started nodes and runs.
    pub(super) keep: bool,
}

/// Action after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// Read the next command.
    Continue,
    /// End the REPL, with or without keeping what was started.
    Exit { keep: bool },
}

impl Shell {
    /// Creates a REPL.
    ///
    /// # Errors
    /// The signal handlers cannot be installed.
    pub(super) fn new(
        client: NerveClient,
        server: Option<String>,
        screen: Screen,
        state: SharedState,
    ) -> Result<Shell> {
        let (runs, run_ends) = Runs::new();
        Ok(Shell {
            events: Some(client.events()),
            client,
            server,
            screen,
            state,
            draft: None,
            runs,
            run_ends,
            started: StartedNodes::default(),
            muted_node: None,
            signals: Signals::listen()?,
            exited: false,
        })
    }

    /// Executes commands from `source` until it ends or a command exits. With `keep_going` a script continues after errors.
    pub(super) async fn run(&mut self, source: &mut Source, keep_going: bool) -> Exit {
        let mut failed = false;
        let mut exit_pending = false;
        loop {
            source.start_edit(self.prompt());
            self.screen.set_editing(!source.is_script());
            let next = self.next_input(source).await;
            self.screen.set_editing(false);
            let exit = |code| Exit { code, keep: false };
            match next {
                None => return exit(INTERRUPTED),
                Some(SourceEvent::End) => return exit(if failed { FAILED } else { DONE }),
                Some(SourceEvent::Failed(reason)) => {
                    self.screen.failure(Failure::new(FAILED, reason), None);
                    return exit(FAILED);
                }
                Some(SourceEvent::Interrupted { .. }) if source.is_script() => return exit(INTERRUPTED),
                Some(SourceEvent::Interrupted { blank: true }) if exit_pending => return exit(DONE),
                Some(SourceEvent::Interrupted { blank }) => {
                    exit_pending = blank;
                    if blank {
                        self.screen.note(&self.exit_warning());
                    }
                }
                Some(SourceEvent::Inputs(inputs, location)) => {
                    exit_pending = false;
                    for input in inputs {
                        match self.perform(&input).await {
                            Ok(Flow::Continue) => {}
                            Ok(Flow::Exit { keep }) => {
                                self.exited = true;
                                return Exit { code: if failed { FAILED } else { DONE }, keep };
                            }
                            Err(error) => {
                                let code = self.report(error, location.as_deref());
                                if let Some(code) = exit_code_after(code, source.is_script(), keep_going) {
                                    return exit(code);
                                }
                                failed = source.is_script();
                                break;
                            }
                        }
                    }
                }
            }
        }
    }

    /// Returns true if a command ended the REPL.
    pub(super) fn has_exited(&self) -> bool {
        self.exited
    }

    /// Prints the greeting of an interactive REPL.
    pub(super) fn print_greeting(&mut self) {
        let nodes = match &self.server {
            Some(name) => format!("nodes of server '{name}'"),
            None => "nodes end with this process".to_string(),
        };
        self.screen.note(&format!("nerve {}: {nodes}; 'help' lists the commands", env!("CARGO_PKG_VERSION")));
    }

    /// Stops what was started here and returns the exit code: 1 if a script ends before its runs.
    pub(super) async fn finish(mut self, exit: Exit) -> u8 {
        let is_script = !self.screen.is_interactive();
        if exit.keep {
            let (nodes, runs) = (self.started.len(), self.runs.active().len());
            if nodes + runs > 0 {
                self.screen.note("started nodes and runs keep running");
            }
            return exit.code;
        }
        let unfinished = !self.runs.active().is_empty();
        let stop = std::mem::take(&mut self.started).stop(&self.client, &self.runs);
        let messages = tokio::select! {
            messages = stop => messages,
            _ = self.signals.interrupt.recv() => vec!["exited immediately; started nodes and runs may still be running".to_string()],
        };
        for line in messages {
            self.screen.note(&line);
        }
        if is_script && unfinished && exit.code == DONE { FAILED } else { exit.code }
    }

    /// Waits for the next input and shows events. Returns `None` on a termination signal.
    async fn next_input(&mut self, source: &mut Source) -> Option<SourceEvent> {
        loop {
            tokio::select! {
                next = source.next() => return Some(next),
                event = next_event(&mut self.events) => self.on_event(&event),
                Some(run_end) = self.run_ends.recv() => self.on_run_end(&run_end),
                _ = self.signals.interrupt.recv() => return Some(SourceEvent::Interrupted { blank: true }),
                () = self.signals.termination.recv() => return None,
            }
        }
    }

    /// Executes `work` and shows events meanwhile.
    ///
    /// # Errors
    /// Those of `work`; exit code 130 if it was interrupted.
    pub(super) async fn wait<T>(
        &mut self,
        interruption: &mut Interruption,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        tokio::pin!(work);
        loop {
            let deadline = interruption.deadline;
            tokio::select! {
                biased;
                // Shows earlier events before the result.
                event = next_event(&mut self.events) => self.on_event(&event),
                done = &mut work => return done,
                Some(run_end) = self.run_ends.recv() => self.on_run_end(&run_end),
                _ = self.signals.interrupt.recv() => self.on_interrupt(interruption)?,
                () = self.signals.termination.recv() => return Err(TerminationError.into()),
                () = sleep_until(deadline) => return Err(abandoned_failure().into()),
            }
        }
    }

    /// Like [`Shell::wait`] for short work, which Ctrl-C abandons.
    pub(super) async fn wait_briefly<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.wait(&mut Interruption::new(InterruptAction::Abandon), work).await
    }

    /// Waits until the server has started a run. Returns the end of a run that failed to start. Ctrl-C is not handled here, but
    /// by the wait that follows.
    pub(super) async fn wait_for_start(&mut self, run: &str) -> Result<Option<RunEnd>> {
        while !self.runs.has_started(run) && self.events.is_some() {
            tokio::select! {
                biased;
                event = next_event(&mut self.events) => self.on_event(&event),
                Some(run_end) = self.run_ends.recv() => match run_end.run == run {
                    true => {
                        self.runs.on_end(&run_end);
                        return Ok(Some(run_end));
                    }
                    false => self.on_run_end(&run_end),
                },
                () = self.signals.termination.recv() => return Err(TerminationError.into()),
            }
        }
        Ok(None)
    }

    /// Shows a run until it ends or waits at a gate. Returns its end.
    pub(super) async fn wait_for_end(&mut self, run: &str) -> Result<Option<RunEnd>> {
        let mut interruption = Interruption::new(InterruptAction::Run(run.to_string()));
        loop {
            if self.runs.is_waiting(run) {
                return Ok(None);
            }
            let deadline = interruption.deadline;
            tokio::select! {
                biased;
                event = next_event(&mut self.events) => {
                    self.on_event(&event);
                    if event.and_then(|event| event.kind()) == Some(EventType::EventsDropped) {
                        self.refresh_gates(run).await;
                    }
                }
                Some(run_end) = self.run_ends.recv() => {
                    if run_end.run == run {
                        self.runs.on_end(&run_end);
                        return interruption.resolve(Ok(Some(run_end)));
                    }
                    self.on_run_end(&run_end);
                }
                _ = self.signals.interrupt.recv() => self.on_interrupt(&mut interruption)?,
                () = self.signals.termination.recv() => return Err(TerminationError.into()),
                () = sleep_until(deadline) => return Err(abandoned_failure().into()),
            }
        }
    }

    /// Handles Ctrl-C during a command. The second one abandons it.
    fn on_interrupt(&mut self, interruption: &mut Interruption) -> Result<(), Failure> {
        if interruption.deadline.is_some() {
            return Err(abandoned_failure());
        }
        match &interruption.action {
            InterruptAction::Abandon => return Err(Failure::interrupted()),
            InterruptAction::Turn(node) => {
                self.screen.note(&format!("interrupting {node}; press Ctrl-C again to stop waiting"));
                let node = self.client.node(node, self.session().as_deref());
                tokio::spawn(async move { tokio::time::timeout(INTERRUPT_TIMEOUT, node.interrupt()).await });
            }
            InterruptAction::Run(run) => {
                self.screen.note(&format!("cancelling run {run}; press Ctrl-C again to stop waiting"));
                let (client, run) = (self.client.clone(), run.clone());
                tokio::spawn(async move {
                    tokio::time::timeout(INTERRUPT_TIMEOUT, client.cancel_run(&run)).await
                });
            }
        }
        interruption.deadline = Some(Instant::now() + INTERRUPT_TIMEOUT);
        Ok(())
    }

    /// Handles and shows an event. `None`: the server has closed the connection.
    fn on_event(&mut self, event: &Option<EventMessage>) {
        let Some(event) = event else {
            self.events = None;
            let server =
                self.server.as_deref().map_or("the server".to_string(), |name| format!("server '{name}'"));
            return self.screen.note(&format!("{server} closed the connection; 'exit' ends the REPL"));
        };
        self.runs.on_event(event);
        let session = self.session();
        let is_relevant =
            event.session_id.as_deref().is_none_or(|id| id == session.as_deref().unwrap_or(DEFAULT_SESSION))
                || event_line::run_id(event).is_some_and(|run| self.runs.is_active(run));
        let is_muted = event_line::run_id(event).is_none()
            && event.node_id.is_some()
            && event.node_id == self.muted_node;
        if is_relevant
            && !is_muted
            && let Some(line) = event_line::format_event(event)
        {
            self.screen.event(&line);
        }
    }

    /// Reports the end of a run in the background.
    fn on_run_end(&mut self, run_end: &RunEnd) {
        self.runs.on_end(run_end);
        let detail = match &run_end.outcome {
            Ok(_) => "'result' shows its results".to_string(),
            Err(error) => error.to_string(),
        };
        self.screen.note(&format!("run {} has ended: {detail}", run_end.run));
    }

    async fn refresh_gates(&mut self, run: &str) {
        let reply = tokio::time::timeout(INTERRUPT_TIMEOUT, self.client.run_status(run, Some(0))).await;
        if let Ok(Ok(info)) = reply {
            self.runs.set_gates(run, info.gates.into_iter().map(|gate| gate.step_id));
        }
    }

    async fn perform(&mut self, input: &Input) -> Result<Flow> {
        let modern = without_dag(input);
        if modern.is_some() {
            self.screen.note("warning: 'dag' is deprecated, use 'graph'");
        }
        let command = match parse(modern.as_ref().unwrap_or(input))? {
            Request::Prompt { node, text } => {
                return self.prompt_node(&node, &text).await.map(|()| Flow::Continue);
            }
            Request::Help(text) => return out::line(text.trim_end()).map(|()| Flow::Continue),
            Request::Command(command) => *command,
        };
        match command {
            Command::Exit(args) if args.keep && self.server.is_none() => {
                let failure =
                    Failure::new(USAGE, "--keep needs a server: nodes of this REPL run in its own process");
                return Err(failure.hint("use 'nerve server repl'").into());
            }
            Command::Exit(args) => return Ok(Flow::Exit { keep: args.keep }),
            Command::Help(args) if args.command.is_empty() => out::line(overview::TEXT)?,
            Command::Help(args) => out::line(help(&args.command)?.trim_end())?,
            Command::Events(args) => self.switch_events(&args)?,
            Command::Session(args) => self.switch_session(args.name).await?,
            Command::Sessions => self.list_sessions().await?,
            Command::Graph(args) => self.graph(args).await?,
            Command::Draft(args) => self.draft_command(args).await?,
            Command::Step(args) => self.step(args)?,
            Command::Chain(args) => self.chain(&args.steps)?,
            Command::Gate(args) => self.answer_gate(args).await?,
            Command::Runs => self.list_runs().await?,
            Command::Follow(args) => self.follow(args.run).await?,
            Command::Result(args) => self.print_result(args.step.as_deref())?,
            command => self.node_command(command).await?,
        }
        Ok(Flow::Continue)
    }

    /// Prints an error and returns its exit code. Returns `None` for a termination signal.
    fn report(&mut self, error: anyhow::Error, location: Option<&str>) -> Option<u8> {
        if error.is::<TerminationError>() {
            return None;
        }
        let failure = Failure::from_error(&error);
        let code = failure.code;
        self.screen.failure(failure, location);
        Some(code)
    }

    fn switch_events(&mut self, args: &EventsArgs) -> Result<()> {
        match args.switch {
            Some(switch) => self.screen.show_events(switch == Switch::On),
            None => out::line(if self.screen.shows_events() { "on" } else { "off" })?,
        }
        Ok(())
    }

    /// Returns the current session. `None`: the default session.
    pub(super) fn session(&self) -> Option<String> {
        self.state.lock().session.clone()
    }

    /// Returns server and session for commands shared with the command line.
    pub(super) fn command_context(&self) -> CommandContext {
        CommandContext { client: self.client.clone(), session: self.session(), json: false }
    }

    fn prompt(&self) -> String {
        let server = self.server.as_deref().map(|name| format!("@{name}")).unwrap_or_default();
        let session = self.session().map(|name| format!("/{name}")).unwrap_or_default();
        format!("nerve{server}{session}> ")
    }

    /// Returns the message for Ctrl-C at an empty prompt.
    fn exit_warning(&self) -> String {
        let runs = self.runs.active();
        let nodes = self.started.len();
        match (nodes, runs.len()) {
            (0, 0) => "press Ctrl-C again to exit".to_string(),
            (nodes, runs) => {
                let counts = [(nodes, "node"), (runs, "run")];
                let counts: Vec<String> = counts
                    .into_iter()
                    .filter(|(count, _)| *count > 0)
                    .map(|(count, thing)| event_line::pluralize(count as u64, thing))
                    .collect();
                format!("press Ctrl-C again to exit; this stops {}", counts.join(" and "))
            }
        }
    }
}

/// Returns the next event, and `None` at the end of the stream. Without a stream, waits forever.
async fn next_event(events: &mut Option<EventStream>) -> Option<EventMessage> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Returns the exit code of a REPL that ends because a command failed with `code`, `None` for a termination signal. Returns
/// `None` if the REPL continues.
fn exit_code_after(code: Option<u8>, is_script: bool, keep_going: bool) -> Option<u8> {
    match code {
        None => Some(INTERRUPTED),
        Some(INTERRUPTED) if is_script => Some(INTERRUPTED),
        Some(_) if is_script && !keep_going => Some(FAILED),
        Some(_) => None,
    }
}
