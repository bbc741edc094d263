//! Follows the agent: its state, its hooks, its conversation and its transcript.

use nerve_agent::driver::AgentState;
use nerve_api::event::EventKind;
use nerve_host::backend::Backend;
use nerve_transcript::TranscriptSource;
use nerve_transcript::session_files::SessionFiles;
use nerve_types::activity::TsMs;

use super::Actor;
use super::queue::ActiveTurn;
use super::request::Request;
use crate::dialog_policy::DialogPolicy;
use crate::hooks::HookMessage;

impl<B: Backend> Actor<B> {
    pub(super) fn on_hook(&mut self, message: HookMessage) {
        let now = self.clock.now();
        self.driver.on_hook(now, message.hook);
        if let Some(transcript) = message.transcript {
            self.reporter.follow_transcript(transcript.clone());
            self.link.remember_transcript(transcript);
        }
        if let Some(id) = message.conversation_id {
            self.set_conversation(id);
        }
        self.observe(now);
    }

    pub(super) fn on_state_changed(&mut self) {
        let state = self.state().clone();
        self.reporter.report_state(self.clock.now(), &state);
        self.has_worked |= *self.driver.state() == AgentState::Busy && self.has_been_ready;
        self.update_status();
        let evidence = self.driver.evidence();
        let evidence = format!("{}: {}", evidence.source.as_str(), evidence.text);
        let event = match self.driver.state().clone() {
            AgentState::Starting | AgentState::Exited(_) => return,
            AgentState::Ready => {
                self.has_been_ready = true;
                self.look_up_conversation();
                self.link.remember_ready(self.terminal.offset());
                // Published with the status: a node with a turn or prompts is not ready, or a limit is reached.
                return;
            }
            AgentState::Busy => {
                self.find_transcript();
                EventKind::NodeBusy { evidence }
            }
            AgentState::Blocked { kind, choices } => {
                self.fail_blocked_turn();
                // Keys that are typed from here on may answer this dialog.
                self.link.confirm_memory();
                EventKind::NodeBlocked { kind, choices, evidence }
            }
            AgentState::Suspended { until } => {
                self.fail_blocked_turn();
                self.link.confirm_memory();
                EventKind::NodeSuspended { until_at: until.map(TsMs::from), evidence }
            }
        };
        self.publish(event);
    }

    /// Answers the caller of the active turn because the agent is blocked, unless it waits for the turn's outcome. A turn whose
    /// transcript is being read has its answer already.
    fn fail_blocked_turn(&mut self) {
        let error = self.blocked_error();
        let waits = |active: &&mut ActiveTurn| active.request.prompt.at_dialog == DialogPolicy::Wait;
        let is_over = |active: &&mut ActiveTurn| active.finishing.is_some();
        if let Some(active) = self.turns.active_mut().filter(|active| !waits(active) && !is_over(active)) {
            active.answer(Err(error));
        }
    }

    /// Remembers the id of the agent's current conversation.
    pub(super) fn set_conversation(&mut self, id: String) {
        if self.spec.profile.session.as_ref().is_some_and(|session_args| session_args.is_id(&id)) {
            self.link.remember_conversation_id(id);
        }
    }

    /// Looks up the agent's conversation id in its session files, on a blocking thread.
    fn look_up_conversation(&self) {
        let (Some(session_args), Some(pid)) = (self.spec.profile.session.clone(), self.link.backend.pid())
        else {
            return;
        };
        let Some(session_files) = SessionFiles::for_env(&self.spec.program.env) else { return };
        let (has_source, requests) = (session_args.id_source.is_some(), self.self_sender.clone());
        // The ends of our own turns reveal the id, too, and more reliably.
        let is_unknown = self.link.conversation_id().is_none() && self.turns.count() == 0;
        let source = self.transcript().filter(|_| !has_source && is_unknown && self.has_worked);
        if !has_source && source.is_none() {
            return;
        }
        let started = self.started;
        tokio::spawn(async move {
            let lookup = tokio::task::spawn_blocking(move || match source {
                Some(source) => source.only_conversation(started)?.conversation_id(),
                None => session_files.current_id(&session_args, pid).ok()?,
            });
            if let (Ok(Some(id)), Some(requests)) = (lookup.await, requests.upgrade()) {
                // A send error means that the node is gone and the id is no longer needed.
                let _ = requests.send(Request::Conversation { id }).await;
            }
        });
    }

    /// Returns where to read the agent's transcript.
    pub(super) fn transcript(&self) -> Option<TranscriptSource> {
        let kind = self.spec.profile.transcript?;
        Some(TranscriptSource {
            kind,
            file: self.link.transcript().map(Into::into),
            session_files: SessionFiles::for_env(&self.spec.program.env)?,
            conversation_id: self.link.conversation_id().cloned(),
            pid: self.link.backend.pid()?,
            last: self.reporter.transcript_tail().and_then(|tail| tail.location()),
        })
    }

    /// Looks for the transcript of an agent whose hooks do not name it.
    fn find_transcript(&self) {
        if self.link.transcript().is_none()
            && let (Some(source), Some(tail)) = (self.transcript(), self.reporter.transcript_tail())
        {
            let prompt = self.turns.active().map(ActiveTurn::sent_prompt);
            tokio::task::spawn_blocking(move || tail.begin_turn(source, prompt));
        }
    }
}
