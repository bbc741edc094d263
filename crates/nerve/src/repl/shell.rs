//! The program: reads what is asked for, does it, and shows what happens meanwhile. One task does all of it, so nothing that is
//! shown gets between two other things.

use std::future::Future;

use anyhow::Result;
use nerve_client::{EventStream, NerveClient};
use nerve_core::session::DEFAULT;
use nerve_proto::{EventMessage, EventType};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::command::{Command, EventsArgs, Switch};
use super::draft::Draft;
use super::input::Input;
use super::interruption::{
    INTERRUPT_TIMEOUT, InterruptAction, Interruption, Signals, Terminated, abandoned, interrupted,
};
use super::name_lookup::{SharedState, with_state};
use super::parser::{Request, help, parse};
use super::runs::{RunEnd, Runs};
use super::screen::Screen;
use super::source::{Source, SourceEvent};
use super::started_nodes::StartedNodes;
use super::{event_format, help as overview};
use crate::cmd::node::Target;
use crate::exit::{DONE, FAILED, Failure, INTERRUPTED, USAGE};
use crate::out;

/// A REPL at work.
pub(super) struct Shell {
    pub(super) client: NerveClient,
    /// What the prompt and messages call the server; `None` in process.
    pub(super) server: Option<String>,
    pub(super) screen: Screen,
    pub(super) state: SharedState,
    pub(super) draft: Option<Draft>,
    pub(super) runs: Runs,
    pub(super) run_ends: mpsc::UnboundedReceiver<RunEnd>,
    pub(super) started: StartedNodes,
    /// A node whose changes are not told: the answer it gives is shown.
    pub(super) muted_node: Option<String>,
    events: Option<EventStream>,
    signals: Signals,
    /// The last source was left by a command.
    exited: bool,
}

/// How the REPL is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit {
    /// The exit code.
    pub(super) code: u8,
    /// What was started stays.
    pub(super) keep: bool,
}

/// After a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// The next one.
    Continue,
    /// It was the last one. What was started may stay.
    Leave { keep: bool },
}

impl Shell {
    /// # Errors
    /// Signals cannot be listened for.
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

    /// Does what the source says, until it ends or says so. With `keep_going` errors of a script do not end it.
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
                Some(SourceEvent::Failed(why)) => {
                    self.screen.failure(Failure::new(FAILED, why), None);
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
                            Ok(Flow::Leave { keep }) => {
                                self.exited = true;
                                return Exit { code: if failed { FAILED } else { DONE }, keep };
                            }
                            Err(error) => {
                                let code = self.report(error, location.as_deref());
                                let stops = source.is_script() && (!keep_going || code == Some(INTERRUPTED));
                                match code {
                                    None => return exit(INTERRUPTED),
                                    Some(INTERRUPTED) if stops => return exit(INTERRUPTED),
                                    Some(_) if stops => return exit(FAILED),
                                    Some(_) => failed = source.is_script(),
                                }
                                break;
                            }
                        }
                    }
                }
            }
        }
    }

    /// A command messages to leave: nothing comes after it.
    pub(super) fn has_exited(&self) -> bool {
        self.exited
    }

    /// Says what a person sees first.
    pub(super) fn print_greeting(&mut self) {
        let nodes = match &self.server {
            Some(name) => format!("nodes of server '{name}'"),
            None => "nodes end with this process".to_string(),
        };
        self.screen.note(&format!("nerve {}: {nodes}; 'help' lists the commands", env!("CARGO_PKG_VERSION")));
    }

    /// Stops what was started here, says so, and gives the exit code: 1 where a script leaves runs behind that are not done.
    pub(super) async fn finish(mut self, exit: Exit) -> u8 {
        let script = !self.screen.is_interactive();
        if exit.keep {
            let (nodes, runs) = (self.started.len(), self.runs.active().len());
            if nodes + runs > 0 {
                self.screen.note("what was started here goes on");
            }
            return exit.code;
        }
        let unfinished = !self.runs.active().is_empty();
        let stopping = std::mem::take(&mut self.started).stop(&self.client, &self.runs);
        let messages = tokio::select! {
            messages = stopping => messages,
            _ = self.signals.interrupt.recv() => vec!["left at once; what was started may go on".to_string()],
        };
        for line in messages {
            self.screen.note(&line);
        }
        if script && unfinished && exit.code == DONE { FAILED } else { exit.code }
    }

    /// Waits for the next thing to do, and shows what happens. `None`: told to leave.
    async fn next_input(&mut self, source: &mut Source) -> Option<SourceEvent> {
        loop {
            tokio::select! {
                next = source.next() => return Some(next),
                event = next_event(&mut self.events) => self.on_event(&event),
                Some(ended) = self.run_ends.recv() => self.on_run_end(&ended),
                _ = self.signals.interrupt.recv() => return Some(SourceEvent::Interrupted { blank: true }),
                () = self.signals.termination.recv() => return None,
            }
        }
    }

    /// Does something and shows what happens meanwhile.
    ///
    /// # Errors
    /// Those of the work; exit code 130 when it was interrupted.
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
                // What happened before the end is shown before it.
                event = next_event(&mut self.events) => self.on_event(&event),
                done = &mut work => return done,
                Some(ended) = self.run_ends.recv() => self.on_run_end(&ended),
                _ = self.signals.interrupt.recv() => self.on_interrupt(interruption)?,
                () = self.signals.termination.recv() => return Err(Terminated.into()),
                () = sleep_until(deadline) => return Err(abandoned().into()),
            }
        }
    }

    /// The same with what only takes a moment.
    pub(super) async fn wait_briefly<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.wait(&mut Interruption::new(InterruptAction::Abandon), work).await
    }

    /// Waits until the server has begun with a run; gives the end of one that it has not. That takes a moment: Ctrl-C is for what
    /// comes then.
    pub(super) async fn wait_for_start(&mut self, run: &str) -> Result<Option<RunEnd>> {
        while !self.runs.has_started(run) && self.events.is_some() {
            tokio::select! {
                biased;
                event = next_event(&mut self.events) => self.on_event(&event),
                Some(ended) = self.run_ends.recv() => match ended.run == run {
                    true => {
                        self.runs.on_end(&ended);
                        return Ok(Some(ended));
                    }
                    false => self.on_run_end(&ended),
                },
                () = self.signals.termination.recv() => return Err(Terminated.into()),
            }
        }
        Ok(None)
    }

    /// Shows a run until it has ended or waits at a gate. Gives its end.
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
                Some(ended) = self.run_ends.recv() => {
                    if ended.run == run {
                        self.runs.on_end(&ended);
                        return interruption.resolve(Ok(Some(ended)));
                    }
                    self.on_run_end(&ended);
                }
                _ = self.signals.interrupt.recv() => self.on_interrupt(&mut interruption)?,
                () = self.signals.termination.recv() => return Err(Terminated.into()),
                () = sleep_until(deadline) => return Err(abandoned().into()),
            }
        }
    }

    /// Ctrl-C while something runs. A second one does not wait for its end.
    fn on_interrupt(&mut self, interruption: &mut Interruption) -> Result<(), Failure> {
        if interruption.deadline.is_some() {
            return Err(abandoned());
        }
        match &interruption.action {
            InterruptAction::Abandon => return Err(interrupted()),
            InterruptAction::Turn(node) => {
                self.screen.note(&format!("interrupting {node}; Ctrl-C again does not wait for it"));
                let node = self.client.node(node, self.session().as_deref());
                tokio::spawn(async move { tokio::time::timeout(INTERRUPT_TIMEOUT, node.interrupt()).await });
            }
            InterruptAction::Run(run) => {
                self.screen.note(&format!("cancelling run {run}; Ctrl-C again does not wait for it"));
                let (client, run) = (self.client.clone(), run.clone());
                tokio::spawn(async move {
                    tokio::time::timeout(INTERRUPT_TIMEOUT, client.cancel_run(&run)).await
                });
            }
        }
        interruption.deadline = Some(Instant::now() + INTERRUPT_TIMEOUT);
        Ok(())
    }

    /// Takes note of an event and tells of it.
    fn on_event(&mut self, event: &Option<EventMessage>) {
        let Some(event) = event else {
            self.events = None;
            let server =
                self.server.as_deref().map_or("the server".to_string(), |name| format!("server '{name}'"));
            return self.screen.note(&format!("{server} went away; 'exit' leaves"));
        };
        self.runs.on_event(event);
        let session = self.session();
        let here = event.session_id.as_deref().is_none_or(|of| of == session.as_deref().unwrap_or(DEFAULT))
            || event_format::run_id(event).is_some_and(|run| self.runs.is_active(run));
        let is_muted = event_format::run_id(event).is_none()
            && event.node_id.is_some()
            && event.node_id == self.muted_node;
        if here
            && !is_muted
            && let Some(line) = event_format::format_event(event)
        {
            self.screen.event(&line);
        }
    }

    /// A run has ended that nobody waits for.
    fn on_run_end(&mut self, ended: &RunEnd) {
        self.runs.on_end(ended);
        let why = match &ended.outcome {
            Ok(_) => "'result' shows what came of it".to_string(),
            Err(error) => error.to_string(),
        };
        self.screen.note(&format!("run {} has ended: {why}", ended.run));
    }

    async fn refresh_gates(&mut self, run: &str) {
        let reply = tokio::time::timeout(INTERRUPT_TIMEOUT, self.client.run_status(run, Some(0))).await;
        if let Ok(Ok(info)) = reply {
            self.runs.set_gates(run, info.gates.into_iter().map(|gate| gate.step_id));
        }
    }

    async fn perform(&mut self, input: &Input) -> Result<Flow> {
        let command = match parse(input)? {
            Request::Prompt { node, text } => {
                return self.prompt_node(&node, &text).await.map(|()| Flow::Continue);
            }
            Request::Help(text) => return out::line(text.trim_end()).map(|()| Flow::Continue),
            Request::Command(command) => *command,
        };
        match command {
            Command::Exit(args) if args.keep && self.server.is_none() => {
                let failure = Failure::new(USAGE, "nodes of this REPL run in this process: they cannot stay");
                return Err(failure.hint("'nerve server repl' has nodes that can").into());
            }
            Command::Exit(args) => return Ok(Flow::Leave { keep: args.keep }),
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

    /// Says what went wrong; gives the exit code of it. `None`: told to leave.
    fn report(&mut self, error: anyhow::Error, location: Option<&str>) -> Option<u8> {
        if error.is::<Terminated>() {
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

    /// The current session; `None` is the default one.
    pub(super) fn session(&self) -> Option<String> {
        with_state(&self.state, |state| state.session.clone())
    }

    /// The server and the session, for the commands of the program.
    pub(super) fn target(&self) -> Target {
        Target { client: self.client.clone(), session: self.session(), json: false }
    }

    fn prompt(&self) -> String {
        let server = self.server.as_deref().map(|name| format!("@{name}")).unwrap_or_default();
        let session = self.session().map(|name| format!("/{name}")).unwrap_or_default();
        format!("nerve{server}{session}> ")
    }

    /// What Ctrl-C at an empty prompt says.
    fn exit_warning(&self) -> String {
        let runs = self.runs.active();
        let nodes = self.started.len();
        match (nodes, runs.len()) {
            (0, 0) => "Ctrl-C again to leave".to_string(),
            (nodes, runs) => {
                let counts = [(nodes, "node"), (runs, "run")];
                let counts: Vec<String> = counts
                    .into_iter()
                    .filter(|(count, _)| *count > 0)
                    .map(|(count, thing)| event_format::pluralize(count as u64, thing))
                    .collect();
                format!("Ctrl-C again to leave; that stops {}", counts.join(" and "))
            }
        }
    }
}

/// The next event; never, once there are no more.
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
