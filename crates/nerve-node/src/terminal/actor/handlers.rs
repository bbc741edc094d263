//! Handles the requests of callers, one at a time.

use std::time::Duration;

use nerve_agent::driver::AgentState;
use nerve_api::reply::{NodeExplanation, NodeMetadata, RunningTurn};
use nerve_api::value::{BlockKind, NodeState};
use nerve_host::backend::{Backend, Lease};
use nerve_host::output_feed::WatchReply;
use nerve_types::{Origin, Size, TsNs};
use nerve_vt::keys::{paste, unescape};
use tokio::sync::oneshot;

use super::request::{DialogReply, Request, RequestedTurn, TurnReply};
use super::{Actor, tail_of};
use crate::cancellation::{INTERRUPT_TIMEOUT, cancelled_error};
use crate::client_origin::ClientOrigin;
use crate::dialog_answer::{DialogAnswer, check_dialog, dialog_id, no_dialog_error, resolve_choice};
use crate::dialog_policy::DialogPolicy;
use crate::error::{EngineError, ErrorKind};
use crate::prompt::check_prompt;
use crate::response::Response;

/// Limits of the scrollback in a dump for a client that shows the terminal.
const DUMP_ROWS: usize = 2000;
const DUMP_BYTES: usize = 512 << 10;
/// Time for the owner of the terminal to confirm a size.
const RESIZE_TIMEOUT: Duration = Duration::from_secs(10);

/// Creates the error of a resize that was not confirmed in time.
pub(super) fn resize_timeout_error(node: &str) -> EngineError {
    let message = format!("the terminal of node '{node}' did not confirm its size within {RESIZE_TIMEOUT:?}");
    EngineError::timeout(message).hint("its host may be stopped: `nerve host list`")
}

impl<B: Backend> Actor<B> {
    pub(super) fn on_request(&mut self, request: Request) {
        let now = self.clock.now();
        match request {
            Request::Execute(request) => self.execute(now, request),
            Request::Cancel { ticket, by } => self.cancel(now, ticket, &by),
            Request::Write { data, reply } => {
                let written = self.write(now, &data);
                self.respond(reply, written);
            }
            Request::Run { command, reply } => {
                let typed = self.run_command(now, &command);
                self.respond(reply, typed);
            }
            Request::TypeKeys { keys, reply } => {
                let typed = self.type_keys(now, &keys);
                self.respond(reply, typed);
            }
            Request::Watch { since, reply } if self.lifecycle.is_replaying() => self.feed.wait(since, reply),
            Request::Watch { since, reply } => self.watch(since, reply),
            Request::Read { lines, reply } => self.read(lines, reply),
            Request::Clear { reply } => {
                self.clear_scrollback();
                send(reply, ());
            }
            Request::Interrupt { reply } => self.interrupt(now, reply),
            Request::Resize { size, reply } => self.resize(now, size, reply),
            Request::Answer { answer, reply } => self.answer(now, &answer, reply),
            Request::Explain { reply } => send(reply, self.explain()),
            Request::Stop { reason, reply } => self.begin_stop(reason, Some(reply)),
            Request::Release { reply } => send(reply, self.release("the server was shut down")),
            Request::Conversation { id } => self.set_conversation(id),
            Request::TranscriptChecked { turn, written } => self.on_transcript_checked(now, turn, written),
            Request::Finished { response } => self.finish(*response),
        }
    }

    /// Answers a request after its effect on the status was published.
    fn respond<T>(&mut self, reply: oneshot::Sender<T>, value: T) {
        self.update_status();
        send(reply, value);
    }

    fn execute(&mut self, now: TsNs, mut request: RequestedTurn) {
        // The limits may have changed just before.
        self.check_budget();
        let prompt = &request.prompt;
        let error = if let Err(error) = check_prompt(&prompt.text) {
            error
        } else if !self.lifecycle.takes_requests() {
            self.stopped_error()
        } else if let Some(error) = self.budget_exceeded_error() {
            error
        } else if self.is_at_dialog() && prompt.at_dialog != DialogPolicy::Wait {
            self.blocked_error()
        } else if prompt.fail_if_busy && !self.turns.is_idle() {
            EngineError::busy(format!("node '{}' is running another turn", self.spec.node.node))
        } else {
            let timeout = prompt.timeout.unwrap_or(self.spec.response_timeout);
            request.deadline = Some(now + timeout);
            return self.turns.queue.push(request);
        };
        self.turns.queue.refuse(request, error);
    }

    /// Returns true if a dialog or a usage limit blocks the program.
    fn is_at_dialog(&self) -> bool {
        matches!(self.state(), AgentState::Blocked { .. } | AgentState::Suspended { .. })
    }

    /// Cancels a prompt. A running turn is interrupted and answered once the interrupt has taken effect; a queued prompt is
    /// removed. Other prompts are not affected.
    fn cancel(&mut self, now: TsNs, ticket: u64, by: &ClientOrigin) {
        if let Some(active) = self.turns.active().filter(|active| active.can_cancel(ticket)) {
            self.spec.audit_log.log_cancel(now, &active.request.prompt.text, by);
            self.interrupt_program(now);
        } else {
            if let Some(text) = self.turns.queue.text_of(ticket) {
                self.spec.audit_log.log_cancel(now, text, by);
            }
            self.turns.queue.cancel(ticket, cancelled_error);
        }
    }

    /// Interrupts the program. The caller is answered once that took effect.
    fn interrupt(&mut self, now: TsNs, reply: oneshot::Sender<Result<(), EngineError>>) {
        if let Err(error) = self.check_open() {
            send(reply, Err(error));
            return;
        }
        let turn = self.turns.active().map(|active| active.number);
        self.interrupt_program(now);
        self.waiters.add_interrupt(turn, now + INTERRUPT_TIMEOUT, reply);
    }

    pub(super) fn interrupt_program(&mut self, now: TsNs) {
        self.driver.interrupt(now, self.cursor_line());
        let terminal = &self.terminal;
        self.spec.audit_log.log_interrupt(now, || tail_of(terminal));
    }

    fn write(&mut self, now: TsNs, data: &[u8]) -> Result<usize, EngineError> {
        let text = self.mask_hidden_input(&String::from_utf8_lossy(data));
        self.type_input(now, data)?;
        let terminal = &self.terminal;
        self.spec.audit_log.log_write(now, &text, || tail_of(terminal));
        Ok(data.len())
    }

    /// Types the keys of a person, who then holds the input lease. The recording contains the keys, the history does not. A
    /// multiplexer's lease that is not known yet refuses no keys. An approximate backend is not asked for its lease: it does not
    /// know the holder, and reads the pane for the next prompt.
    fn type_keys(&mut self, now: TsNs, keys: &[u8]) -> Result<(), EngineError> {
        if !self.link.backend.is_approximate()
            && let Lease::Held { by, .. } = self.link.backend.lease(now)
        {
            let message = format!("{by} is typing into node '{}'", self.spec.node.node);
            return Err(EngineError::busy(message).hint("try again after a pause of 2 seconds"));
        }
        self.type_as(now, keys, Origin::User)?;
        self.lease.hold(now);
        Ok(())
    }

    /// Subscribes a client to the output.
    fn watch(&self, since: Option<u64>, reply: WatchReply) {
        let dump = || self.terminal.dump_with_scrollback(DUMP_ROWS, DUMP_BYTES);
        send(reply, self.feed.subscribe(since, dump));
    }

    /// Subscribes the clients that waited for the end of the replay.
    pub(super) fn watch_waiting(&mut self) {
        for (since, reply) in self.feed.take_waiting() {
            self.watch(since, reply);
        }
    }

    fn run_command(&mut self, now: TsNs, command: &str) -> Result<(), EngineError> {
        let enter = unescape(&self.spec.profile.submit.enter).unwrap_or_else(|_| b"\r".to_vec());
        let modes = self.terminal.modes();
        let mut bytes =
            if command.contains('\n') { paste(command, modes) } else { command.as_bytes().to_vec() };
        bytes.extend(enter);
        let text = self.mask_hidden_input(command);
        self.type_input(now, &bytes)?;
        let terminal = &self.terminal;
        self.spec.audit_log.log_run(now, &text, || tail_of(terminal));
        Ok(())
    }

    /// Types a caller's input and tells the driver about it.
    fn type_input(&mut self, now: TsNs, bytes: &[u8]) -> Result<(), EngineError> {
        self.type_as(now, bytes, Origin::Api)
    }

    fn type_as(&mut self, now: TsNs, bytes: &[u8], origin: Origin) -> Result<(), EngineError> {
        self.check_open()?;
        let line = self.cursor_line();
        if !self.type_bytes(now, bytes, origin) {
            let queued = self.link.backend.queued_input();
            let node = &self.spec.node.node;
            let message = format!("node '{node}' is not reading its input: {queued} bytes are queued");
            return Err(EngineError::busy(message));
        }
        self.driver.on_input(now, line, bytes);
        Ok(())
    }

    /// Checks that the node is neither stopped nor being stopped.
    fn check_open(&self) -> Result<(), EngineError> {
        if self.lifecycle.takes_requests() { Ok(()) } else { Err(self.stopped_error()) }
    }

    /// Returns typed text as it may be logged: masked if the terminal hides its input, for example for a password.
    fn mask_hidden_input(&self, text: &str) -> String {
        let star = |c: char| if matches!(c, '\r' | '\n') { c } else { '*' };
        if self.link.backend.hides_input() { text.chars().map(star).collect() } else { text.to_string() }
    }

    fn read(&self, lines: Option<usize>, reply: oneshot::Sender<String>) {
        let text = self.terminal.tail(lines.unwrap_or(usize::MAX)).join("\n");
        match self.link.backend.live_text(lines).filter(|_| self.lifecycle.has_terminal()) {
            Some(live) => {
                // Our copy may be outdated; it is the fallback if the owner of the pane does not answer.
                tokio::spawn(async move {
                    send(reply, live.await.unwrap_or(text));
                });
            }
            None => send(reply, text),
        }
    }

    /// Clears the scrollback. Rows of the turn in progress are then missing from its answer.
    fn clear_scrollback(&mut self) {
        self.terminal.clear_scrollback();
        let start = self.driver.turn_start_line().filter(|_| !self.terminal.modes().alternate);
        if let (Some(active), Some(start)) = (self.turns.active_mut(), start) {
            active.is_cleared |= start < self.terminal.first_kept_line().0;
        }
    }

    fn resize(&mut self, now: TsNs, size: Size, reply: oneshot::Sender<Result<(), EngineError>>) {
        let failed = |error: std::io::Error| EngineError::internal(error.to_string());
        let requested = self.check_open().and_then(|()| self.link.backend.resize(now, size).map_err(failed));
        match requested {
            Ok(()) => self.waiters.add_resize(size, now + RESIZE_TIMEOUT, reply),
            Err(error) => send(reply, Err(error)),
        }
    }

    fn answer(&mut self, now: TsNs, answer: &DialogAnswer, reply: DialogReply) {
        let AgentState::Blocked { kind, choices } = self.state().clone() else {
            send(reply, Err(no_dialog_error(&self.spec.node.node)));
            return;
        };
        if let (BlockKind::Budget, Some(error)) = (kind, self.budget_exceeded_error()) {
            send(reply, Err(error));
            return;
        }
        let checked = check_dialog(&self.spec.node, answer, &self.dialog_id(), &choices);
        let picked = match checked.and_then(|()| resolve_choice(&answer.choice, &choices)) {
            Ok(picked) => picked,
            Err(error) => {
                send(reply, Err(error));
                return;
            }
        };
        let choice = picked.and_then(|picked| choices.get(picked)).map(String::as_str);
        let refusal = if kind == BlockKind::Budget {
            self.spec.audit_log.log_dialog(now, kind.as_str(), choice, &answer.origin);
            self.answer_budget(picked);
            return self.respond(reply, Ok(None));
        } else if self.waiters.has_dialog() {
            EngineError::busy("the dialog is being answered already")
        } else if !self.driver.answer(now, &choices, picked) {
            self.with_screen(EngineError::new(ErrorKind::Blocked, "the dialog changed; nothing was typed"))
        } else {
            self.spec.audit_log.log_dialog(now, kind.as_str(), choice, &answer.origin);
            return match self.turns.active_mut().filter(|_| answer.wait) {
                Some(active) => {
                    active.request.deadline =
                        Some(now + answer.timeout.unwrap_or(self.spec.response_timeout));
                    active.request.reply = Some(forward(reply, active.request.reply.take()));
                }
                None => self.waiters.add_dialog(reply),
            };
        };
        send(reply, Err(refusal));
    }

    /// Replies to the caller that answered the dialog. `is_closed`: whether the dialog closed; otherwise no key had an effect on it.
    pub(super) fn on_dialog_answered(&mut self, is_closed: bool) {
        // Published first, because the caller may read the status at once.
        self.publish_status();
        let error = self.with_screen(EngineError::new(
            ErrorKind::Blocked,
            "the dialog did not accept the answer and is still shown",
        ));
        match (is_closed, self.waiters.take_dialog()) {
            (true, Some(reply)) => send(reply, Ok(None)),
            (false, Some(reply)) => send(reply, Err(error)),
            (false, None) => {
                if let Some(active) = self.turns.active_mut() {
                    active.answer(Err(error));
                }
            }
            (true, None) => {}
        }
    }

    /// Returns the id of the open dialog.
    fn dialog_id(&self) -> String {
        match (self.state(), self.reached_limit()) {
            (AgentState::Blocked { kind: BlockKind::Budget, .. }, Some(reached)) => reached.dialog_id(),
            _ => dialog_id(self.driver.blocking_dialog()),
        }
    }

    /// Returns the explanation of the state. The caller fills in the node's state and metadata.
    fn explain(&self) -> NodeExplanation {
        let evidence = self.evidence();
        let (choices, dialog_id) = match self.state() {
            AgentState::Blocked { choices, .. } => (choices.clone(), Some(self.dialog_id())),
            _ => (Vec::new(), None),
        };
        NodeExplanation {
            node_id: self.spec.node.node.clone(),
            state: NodeState::default(),
            evidence: evidence.text.clone(),
            source: evidence.source,
            offset: evidence.offset,
            choices,
            dialog_id,
            screen: self.terminal.screen().text(),
            turn: self.driver.turn().map(|(turn, delivery)| RunningTurn { turn, delivery }),
            metadata: NodeMetadata::default(),
        }
    }
}

/// Replies to a caller. Fails only if the caller has left.
fn send<T>(reply: oneshot::Sender<T>, value: T) {
    let _ = reply.send(value);
}

/// Creates a turn reply that forwards its result to the reply of a dialog, and to the caller that still waits for the turn.
fn forward(reply: DialogReply, caller: Option<TurnReply>) -> TurnReply {
    let (sender, receiver) = oneshot::channel::<Result<Response, EngineError>>();
    tokio::spawn(async move {
        if let Ok(answer) = receiver.await {
            if let Some(caller) = caller {
                send(caller, answer.clone());
            }
            send(reply, answer.map(Some));
        }
    });
    sender
}
