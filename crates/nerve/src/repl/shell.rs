//! The program: reads what is asked for, does it, and shows what happens meanwhile. One task does all of it, so nothing that is
//! shown gets between two other things.

use std::future::Future;

use anyhow::Result;
use nerve_client::{EventStream, NerveClient};
use nerve_core::session::DEFAULT;
use nerve_proto::{EventMessage, EventType};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::command::{Command, EventsLine, Switch};
use super::draft::Draft;
use super::input::Input;
use super::interruption::{
    INTERRUPT_PATIENCE, Interrupt, Interruption, Signals, ToldToLeave, interrupted, not_waited_for,
};
use super::name_lookup::{SharedScene, with_scene};
use super::parser::{Asked, help, understand};
use super::runs::{Ended, Runs};
use super::screen::Screen;
use super::source::{Next, Source};
use super::started_nodes::Started;
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
    pub(super) scene: SharedScene,
    pub(super) draft: Option<Draft>,
    pub(super) runs: Runs,
    pub(super) ends: mpsc::UnboundedReceiver<Ended>,
    pub(super) started: Started,
    /// A node whose changes are not told: the answer it gives is shown.
    pub(super) watched: Option<String>,
    events: Option<EventStream>,
    signals: Signals,
    /// The last source was left by a command.
    left: bool,
}

/// How the REPL is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leave {
    /// The exit code.
    pub(super) code: u8,
    /// What was started stays.
    pub(super) keep: bool,
}

/// After a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// The next one.
    GoOn,
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
        scene: SharedScene,
    ) -> Result<Shell> {
        let (runs, ends) = Runs::new();
        Ok(Shell {
            events: Some(client.events()),
            client,
            server,
            screen,
            scene,
            draft: None,
            runs,
            ends,
            started: Started::default(),
            watched: None,
            signals: Signals::listen()?,
            left: false,
        })
    }

    /// Does what the source says, until it ends or says so. With `keep_going` errors of a script do not end it.
    pub(super) async fn run(&mut self, source: &mut Source, keep_going: bool) -> Leave {
        let mut failed = false;
        let mut last_chance = false;
        loop {
            source.ask(self.prompt());
            self.screen.set_editing(!source.is_script());
            let next = self.next(source).await;
            self.screen.set_editing(false);
            let leave = |code| Leave { code, keep: false };
            match next {
                None => return leave(INTERRUPTED),
                Some(Next::End) => return leave(if failed { FAILED } else { DONE }),
                Some(Next::Failed(why)) => {
                    self.screen.failure(Failure::new(FAILED, why), None);
                    return leave(FAILED);
                }
                Some(Next::Interrupted { .. }) if source.is_script() => return leave(INTERRUPTED),
                Some(Next::Interrupted { blank: true }) if last_chance => return leave(DONE),
                Some(Next::Interrupted { blank }) => {
                    last_chance = blank;
                    if blank {
                        self.screen.note(&self.before_leaving());
                    }
                }
                Some(Next::Inputs(inputs, place)) => {
                    last_chance = false;
                    for input in inputs {
                        match self.perform(&input).await {
                            Ok(Then::GoOn) => {}
                            Ok(Then::Leave { keep }) => {
                                self.left = true;
                                return Leave { code: if failed { FAILED } else { DONE }, keep };
                            }
                            Err(error) => {
                                let told = self.report(error, place.as_deref());
                                let ends = source.is_script() && (!keep_going || told == Some(INTERRUPTED));
                                match told {
                                    None => return leave(INTERRUPTED),
                                    Some(INTERRUPTED) if ends => return leave(INTERRUPTED),
                                    Some(_) if ends => return leave(FAILED),
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

    /// A command said to leave: nothing comes after it.
    pub(super) fn was_left(&self) -> bool {
        self.left
    }

    /// Says what a person sees first.
    pub(super) fn greet(&mut self) {
        let nodes = match &self.server {
            Some(name) => format!("nodes of server '{name}'"),
            None => "nodes end with this process".to_string(),
        };
        self.screen.note(&format!("nerve {}: {nodes}; 'help' lists the commands", env!("CARGO_PKG_VERSION")));
    }

    /// Stops what was started here, says so, and gives the exit code: 1 where a script leaves runs behind that are not done.
    pub(super) async fn leave(mut self, how: Leave) -> u8 {
        let script = !self.screen.is_interactive();
        if how.keep {
            let (nodes, runs) = (self.started.len(), self.runs.going_on().len());
            if nodes + runs > 0 {
                self.screen.note("what was started here goes on");
            }
            return how.code;
        }
        let unfinished = !self.runs.going_on().is_empty();
        let stopping = std::mem::take(&mut self.started).stop(&self.client, &self.runs);
        let said = tokio::select! {
            said = stopping => said,
            _ = self.signals.interrupt.recv() => vec!["left at once; what was started may go on".to_string()],
        };
        for line in said {
            self.screen.note(&line);
        }
        if script && unfinished && how.code == DONE { FAILED } else { how.code }
    }

    /// Waits for the next thing to do, and shows what happens. `None`: told to leave.
    async fn next(&mut self, source: &mut Source) -> Option<Next> {
        loop {
            tokio::select! {
                next = source.next() => return Some(next),
                event = next_event(&mut self.events) => self.heed(&event),
                Some(ended) = self.ends.recv() => self.told_end(&ended),
                _ = self.signals.interrupt.recv() => return Some(Next::Interrupted { blank: true }),
                () = self.signals.leaving.told() => return None,
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
                event = next_event(&mut self.events) => self.heed(&event),
                done = &mut work => return done,
                Some(ended) = self.ends.recv() => self.told_end(&ended),
                _ = self.signals.interrupt.recv() => self.interrupt(interruption)?,
                () = self.signals.leaving.told() => return Err(ToldToLeave.into()),
                () = at(deadline) => return Err(not_waited_for().into()),
            }
        }
    }

    /// The same with what only takes a moment.
    pub(super) async fn briefly<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.wait(&mut Interruption::of(Interrupt::GiveUp), work).await
    }

    /// Waits until the server has begun with a run; gives the end of one that it has not. That takes a moment: Ctrl-C is for what
    /// comes then.
    pub(super) async fn until_begun(&mut self, run: &str) -> Result<Option<Ended>> {
        while !self.runs.is_known(run) && self.events.is_some() {
            tokio::select! {
                biased;
                event = next_event(&mut self.events) => self.heed(&event),
                Some(ended) = self.ends.recv() => match ended.run == run {
                    true => {
                        self.runs.end(&ended);
                        return Ok(Some(ended));
                    }
                    false => self.told_end(&ended),
                },
                () = self.signals.leaving.told() => return Err(ToldToLeave.into()),
            }
        }
        Ok(None)
    }

    /// Shows a run until it has ended or waits at a gate. Gives its end.
    pub(super) async fn until_end(&mut self, run: &str) -> Result<Option<Ended>> {
        let mut interruption = Interruption::of(Interrupt::Run(run.to_string()));
        loop {
            if self.runs.waits(run) {
                return Ok(None);
            }
            let deadline = interruption.deadline;
            tokio::select! {
                biased;
                event = next_event(&mut self.events) => {
                    self.heed(&event);
                    if event.and_then(|event| event.kind()) == Some(EventType::EventsDropped) {
                        self.look_at_gates(run).await;
                    }
                }
                Some(ended) = self.ends.recv() => {
                    if ended.run == run {
                        self.runs.end(&ended);
                        return interruption.judge(Ok(Some(ended)));
                    }
                    self.told_end(&ended);
                }
                _ = self.signals.interrupt.recv() => self.interrupt(&mut interruption)?,
                () = self.signals.leaving.told() => return Err(ToldToLeave.into()),
                () = at(deadline) => return Err(not_waited_for().into()),
            }
        }
    }

    /// Ctrl-C while something runs. A second one does not wait for its end.
    fn interrupt(&mut self, interruption: &mut Interruption) -> Result<(), Failure> {
        if interruption.deadline.is_some() {
            return Err(not_waited_for());
        }
        match &interruption.what {
            Interrupt::GiveUp => return Err(interrupted()),
            Interrupt::Turn(node) => {
                self.screen.note(&format!("interrupting {node}; Ctrl-C again does not wait for it"));
                let node = self.client.node(node, self.session().as_deref());
                tokio::spawn(async move { tokio::time::timeout(INTERRUPT_PATIENCE, node.interrupt()).await });
            }
            Interrupt::Run(run) => {
                self.screen.note(&format!("cancelling run {run}; Ctrl-C again does not wait for it"));
                let (client, run) = (self.client.clone(), run.clone());
                tokio::spawn(async move {
                    tokio::time::timeout(INTERRUPT_PATIENCE, client.cancel_run(&run)).await
                });
            }
        }
        interruption.deadline = Some(Instant::now() + INTERRUPT_PATIENCE);
        Ok(())
    }

    /// Takes note of an event and tells of it.
    fn heed(&mut self, event: &Option<EventMessage>) {
        let Some(event) = event else {
            self.events = None;
            let server =
                self.server.as_deref().map_or("the server".to_string(), |name| format!("server '{name}'"));
            return self.screen.note(&format!("{server} went away; 'exit' leaves"));
        };
        self.runs.heed(event);
        let session = self.session();
        let here = event.session_id.as_deref().is_none_or(|of| of == session.as_deref().unwrap_or(DEFAULT))
            || event_format::run_of(event).is_some_and(|run| self.runs.has(run));
        let watched =
            event_format::run_of(event).is_none() && event.node_id.is_some() && event.node_id == self.watched;
        if here
            && !watched
            && let Some(line) = event_format::line(event)
        {
            self.screen.event(&line);
        }
    }

    /// A run has ended that nobody waits for.
    fn told_end(&mut self, ended: &Ended) {
        self.runs.end(ended);
        let why = match &ended.outcome {
            Ok(_) => "'result' shows what came of it".to_string(),
            Err(error) => error.to_string(),
        };
        self.screen.note(&format!("run {} has ended: {why}", ended.run));
    }

    async fn look_at_gates(&mut self, run: &str) {
        let asked = tokio::time::timeout(INTERRUPT_PATIENCE, self.client.run_status(run, Some(0))).await;
        if let Ok(Ok(info)) = asked {
            self.runs.set_gates(run, info.gates.into_iter().map(|gate| gate.step_id));
        }
    }

    async fn perform(&mut self, input: &Input) -> Result<Then> {
        let command = match understand(input)? {
            Asked::Prompt { node, text } => return self.prompt_node(&node, &text).await.map(|()| Then::GoOn),
            Asked::Help(text) => return out::line(text.trim_end()).map(|()| Then::GoOn),
            Asked::Command(command) => *command,
        };
        match command {
            Command::Exit(line) if line.keep && self.server.is_none() => {
                let failure = Failure::new(USAGE, "nodes of this REPL run in this process: they cannot stay");
                return Err(failure.hint("'nerve server repl' has nodes that can").into());
            }
            Command::Exit(line) => return Ok(Then::Leave { keep: line.keep }),
            Command::Help(line) if line.command.is_empty() => out::line(overview::TEXT)?,
            Command::Help(line) => out::line(help(&line.command)?.trim_end())?,
            Command::Events(line) => self.switch_events(&line)?,
            Command::Session(line) => self.go_to_session(line.name).await?,
            Command::Sessions => self.list_sessions().await?,
            Command::Graph(line) => self.graph(line).await?,
            Command::Plan(line) => self.plan(line).await?,
            Command::Step(line) => self.step(line)?,
            Command::Chain(line) => self.chain(&line.steps)?,
            Command::Gate(line) => self.answer_gate(line).await?,
            Command::Runs => self.list_runs().await?,
            Command::Follow(line) => self.follow(line.run).await?,
            Command::Result(line) => self.print_result(line.step.as_deref())?,
            of_a_node => self.node_command(of_a_node).await?,
        }
        Ok(Then::GoOn)
    }

    /// Says what went wrong; gives the exit code of it. `None`: told to leave.
    fn report(&mut self, error: anyhow::Error, place: Option<&str>) -> Option<u8> {
        if error.is::<ToldToLeave>() {
            return None;
        }
        let failure = Failure::from_error(&error);
        let code = failure.code;
        self.screen.failure(failure, place);
        Some(code)
    }

    fn switch_events(&mut self, line: &EventsLine) -> Result<()> {
        match line.switch {
            Some(switch) => self.screen.show_events(switch == Switch::On),
            None => out::line(if self.screen.shows_events() { "on" } else { "off" })?,
        }
        Ok(())
    }

    /// The current session; `None` is the default one.
    pub(super) fn session(&self) -> Option<String> {
        with_scene(&self.scene, |scene| scene.session.clone())
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
    fn before_leaving(&self) -> String {
        let runs = self.runs.going_on();
        let nodes = self.started.len();
        match (nodes, runs.len()) {
            (0, 0) => "Ctrl-C again to leave".to_string(),
            (nodes, runs) => {
                let counts = [(nodes, "node"), (runs, "run")];
                let told: Vec<String> = counts
                    .into_iter()
                    .filter(|(count, _)| *count > 0)
                    .map(|(count, thing)| event_format::counted(count as u64, thing))
                    .collect();
                format!("Ctrl-C again to leave; that stops {}", told.join(" and "))
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

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
