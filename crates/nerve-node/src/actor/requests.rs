//! Handles the requests of callers, one at a time.

use std::time::Duration;

use nerve_agent::driver::AgentState;
use nerve_api::reply::{NodeExplanation, NodeMetadata, RunningTurn};
use nerve_types::{Origin, TsNs};
use nerve_vt::keys::{paste, unescape};
use tokio::sync::oneshot;

use super::{Actor, AnswerReply, Call, Request, tail_of};
use crate::cancellation::cancelled;
use crate::command::{Choice, Response, StateName};
use crate::error::{EngineError, ErrorKind};
use crate::queue::{QueuedPrompt, Reply};
use crate::terminal::Prompt;
use nerve_host::backend::PaneError;
use nerve_host::backend::{Backend, BoxFuture};

impl<B: Backend> Actor<B> {
    pub(super) fn on_request(&mut self, request: Request) {
        let now = self.clock.now();
        match request {
            Request::Execute { prompt, call, reply } => self.execute(now, prompt, call, reply),
            Request::Cancel { ticket } => self.cancel(now, ticket),
            Request::Write { data, reply } => {
                let (bytes, text) = (data.len(), self.mask_hidden_input(&String::from_utf8_lossy(&data)));
                let line = self.terminal.cursor_line().0;
                let written =
                    self.guard_input(|actor| actor.type_bytes(now, &data, Origin::Api)).map(|()| bytes);
                if written.is_ok() {
                    self.driver.on_input(now, line, &data);
                    let terminal = &self.terminal;
                    self.spec.journal.log_write(now, &text, || tail_of(terminal));
                }
                let _ = reply.send(written);
            }
            Request::Run { command, reply } => {
                let _ = reply.send(self.run_command(now, &command));
            }
            Request::Read { lines, reply } => match self.backend.live_text(lines).filter(|_| self.open) {
                Some(fresh) => {
                    // Our copy may be outdated; it is the fallback if the owner of the pane does not answer.
                    let known = self.text(lines);
                    tokio::spawn(async move {
                        let _ = reply.send(fresh.await.unwrap_or(known));
                    });
                }
                None => drop(reply.send(self.text(lines))),
            },
            Request::Clear { reply } => {
                self.terminal.clear_scrollback();
                let _ = reply.send(());
            }
            Request::Interrupt { reply } => {
                let alive = self.guard_input(|actor| {
                    let line = actor.terminal.cursor_line().0;
                    actor.driver.interrupt(now, line);
                    true
                });
                if alive.is_ok() {
                    let terminal = &self.terminal;
                    self.spec.journal.log_interrupt(now, || tail_of(terminal));
                }
                let _ = reply.send(alive);
            }
            Request::Resize { size, reply } => {
                let requested = self.guard_input(|_| true).and_then(|()| {
                    let failed =
                        |error: std::io::Error| EngineError::new(ErrorKind::Internal, error.to_string());
                    self.backend.resize(now, size).map_err(failed)
                });
                match requested {
                    Ok(()) => self.resizing.push((size, reply)),
                    Err(error) => drop(reply.send(Err(error))),
                }
            }
            Request::Answer { choice, wait, timeout, reply } => {
                self.answer(now, &choice, wait, timeout, reply)
            }
            Request::Explain { reply } => {
                let _ = reply.send(self.explain());
            }
            Request::Focus { reply } => self.query_pane(self.backend.focus(), reply),
            Request::PaneInfo { reply } => self.query_pane(self.backend.pane_info(), reply),
            Request::Stop { reason, reply } => self.begin_stop(reason, Some(reply)),
            Request::Release { reply } => {
                let released = self.backend.release();
                self.done |= released;
                let _ = reply.send(released);
            }
            Request::Conversation { id } => self.set_conversation(id),
            Request::Finished { response } => self.finish(*response),
        }
    }

    fn execute(&mut self, now: TsNs, prompt: Prompt, call: Option<Call>, reply: Reply) {
        let error = if prompt.text.is_empty() {
            EngineError::new(ErrorKind::InvalidRequest, "the prompt is empty").hint("give it some text")
        } else if self.concluded || self.stop.is_some() {
            self.stopped_error()
        } else if prompt.fail_if_busy && (self.active.is_some() || self.queue.len() > 0) {
            let message = format!("node '{}' is running another turn", self.spec.node.node);
            EngineError::new(ErrorKind::Busy, message)
        } else {
            let timeout = prompt.timeout.unwrap_or(self.spec.response_timeout);
            self.queue.push(QueuedPrompt { prompt, call, reply, deadline: now + timeout });
            return;
        };
        let _ = reply.send(Err(error));
    }

    /// Cancels a prompt. A running turn is interrupted and answered once the interrupt has taken effect; a queued prompt is
    /// removed. Other prompts are not affected.
    fn cancel(&mut self, now: TsNs, ticket: u64) {
        let is_it = |call: &Option<Call>| call.as_ref().is_some_and(|call| call.ticket == ticket);
        if self.active.as_ref().is_some_and(|active| is_it(&active.call) && active.finishing.is_none()) {
            let line = self.terminal.cursor_line().0;
            self.driver.interrupt(now, line);
            let terminal = &self.terminal;
            self.spec.journal.log_interrupt(now, || tail_of(terminal));
        } else {
            self.queue.remove(|waiting| is_it(&waiting.call), cancelled);
        }
    }

    /// Sends a request to the pane's multiplexer from a separate task, because multiplexers are slow.
    fn query_pane<T: Send + 'static>(
        &self,
        query: Option<BoxFuture<Result<T, PaneError>>>,
        reply: oneshot::Sender<Result<T, EngineError>>,
    ) {
        let node = self.spec.node.node.clone();
        let Some(query) = query.filter(|_| !self.concluded) else {
            let message = format!("node '{node}' is not in a pane");
            let error = EngineError::new(ErrorKind::InvalidRequest, message);
            let _ = reply.send(Err(error.hint("only the backends tmux and wezterm use panes")));
            return;
        };
        tokio::spawn(async move {
            let failed = |error| EngineError::new(ErrorKind::Process, format!("node '{node}': {error}"));
            let _ = reply.send(query.await.map_err(failed));
        });
    }

    /// Returns typed text as it may be logged: masked if the terminal hides its input, for example for a password.
    fn mask_hidden_input(&self, text: &str) -> String {
        let star = |c: char| if matches!(c, '\r' | '\n') { c } else { '*' };
        if self.backend.hides_input() { text.chars().map(star).collect() } else { text.to_string() }
    }

    fn run_command(&mut self, now: TsNs, command: &str) -> Result<(), EngineError> {
        let enter = unescape(&self.spec.profile.submit.enter).unwrap_or_else(|_| b"\r".to_vec());
        let modes = self.terminal.modes();
        let line = self.terminal.cursor_line().0;
        let mut bytes =
            if command.contains('\n') { paste(command, modes) } else { command.as_bytes().to_vec() };
        bytes.extend(enter);
        let text = self.mask_hidden_input(command);
        self.guard_input(|actor| actor.type_bytes(now, &bytes, Origin::Api))?;
        self.driver.on_input(now, line, &bytes);
        let terminal = &self.terminal;
        self.spec.journal.log_run(now, &text, || tail_of(terminal));
        Ok(())
    }

    fn answer(
        &mut self,
        now: TsNs,
        choice: &Choice,
        wait: bool,
        timeout: Option<Duration>,
        reply: AnswerReply,
    ) {
        let AgentState::Blocked { choices, .. } = self.driver.state().clone() else {
            let error = EngineError::new(
                ErrorKind::InvalidRequest,
                format!("node '{}' is not showing a dialog", self.spec.node.node),
            );
            let _ = reply.send(Err(error.hint("only a blocked node can be answered")));
            return;
        };
        let picked = match pick(choice, &choices) {
            Ok(picked) => picked,
            Err(message) => {
                let mut error = EngineError::new(ErrorKind::InvalidRequest, message);
                error.choices = choices.into();
                let _ = reply.send(Err(error));
                return;
            }
        };
        let refuse =
            if self.answering.is_some() {
                Some(EngineError::new(ErrorKind::Busy, "the dialog is being answered already"))
            } else if self.driver.answer(now, &choices, picked) {
                None
            } else {
                Some(self.with_screen(EngineError::new(
                    ErrorKind::Blocked,
                    "the dialog changed; nothing was typed",
                )))
            };
        if let Some(error) = refuse {
            let _ = reply.send(Err(error));
            return;
        }
        match self.active.as_mut().filter(|_| wait) {
            Some(active) => {
                active.deadline = Some(now + timeout.unwrap_or(self.spec.response_timeout));
                active.reply = Some(forward(reply));
            }
            None => self.answering = Some(reply),
        }
    }

    /// Replies to the caller that answered the dialog. `gone`: the dialog closed; otherwise no key had an effect on it.
    pub(super) fn on_dialog_answered(&mut self, gone: bool) {
        let error = self.with_screen(EngineError::new(
            ErrorKind::Blocked,
            "the dialog did not accept the answer and is still shown",
        ));
        match (gone, self.answering.take()) {
            (true, Some(reply)) => drop(reply.send(Ok(None))),
            (false, Some(reply)) => drop(reply.send(Err(error))),
            (false, None) => {
                if let Some(active) = &mut self.active {
                    active.answer(Err(error));
                }
            }
            (true, None) => {}
        }
    }

    /// Explains the state. The node adds its state and metadata.
    fn explain(&self) -> NodeExplanation {
        let evidence = self.driver.evidence();
        let choices = match self.driver.state() {
            AgentState::Blocked { choices, .. } => choices.clone(),
            _ => Vec::new(),
        };
        NodeExplanation {
            node_id: self.spec.node.node.clone(),
            state: StateName::default(),
            evidence: evidence.text.clone(),
            source: evidence.source,
            offset: evidence.offset,
            choices,
            screen: self.terminal.screen().text(),
            turn: self.driver.turn().map(|(turn, delivery)| RunningTurn { turn, delivery }),
            metadata: NodeMetadata::default(),
        }
    }
}

/// Resolves a choice to its index, or to `None` for cancelling the dialog.
fn pick(choice: &Choice, choices: &[String]) -> Result<Option<usize>, String> {
    let offered = || {
        choices.iter().enumerate().map(|(at, c)| format!("{}. {c}", at + 1)).collect::<Vec<_>>().join(", ")
    };
    match choice {
        Choice::Cancel => Ok(None),
        Choice::Number(number) if (1..=choices.len()).contains(number) => Ok(Some(number - 1)),
        Choice::Number(number) => Err(format!("no choice {number}: {}", offered())),
        Choice::Label(label) => {
            let label = label.to_lowercase();
            let exact = choices.iter().position(|choice| choice.to_lowercase() == label);
            let fits: Vec<usize> =
                (0..choices.len()).filter(|at| choices[*at].to_lowercase().contains(&label)).collect();
            match (exact, fits.as_slice()) {
                (Some(at), _) => Ok(Some(at)),
                (None, [at]) => Ok(Some(*at)),
                (None, []) => Err(format!("no choice contains '{label}': {}", offered())),
                (None, _) => Err(format!("'{label}' matches several choices: {}", offered())),
            }
        }
    }
}

/// Creates a turn reply that forwards its result to the reply of a dialog.
fn forward(reply: AnswerReply) -> Reply {
    let (sender, receiver) = oneshot::channel::<Result<Response, EngineError>>();
    tokio::spawn(async move {
        if let Ok(answer) = receiver.await {
            let _ = reply.send(answer.map(Some));
        }
    });
    sender
}
