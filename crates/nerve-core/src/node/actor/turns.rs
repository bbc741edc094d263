//! Turns: taken up, streamed, ended, logged, answered.

use nerve_record::history::ResponseData;
use nerve_term::driver::{AgentState, Outcome, Span, TurnEnd};
use nerve_term::event::TsNs;
use nerve_term::parse::{ParserKind, TurnText};
use nerve_term::profile::TranscriptKind;

use super::{Actor, Request, tail_of};
use crate::backend::{Backend, Lease};
use crate::command::{EventKind, Response};
use crate::error::{EngineError, ErrorKind};
use crate::node::journal::Sent;
use crate::node::queue::{Active, Waiting};
use crate::node::response::{fit, from_screen, note_hidden_beginning, turn_lines, without_echo};
use crate::node::stream::Stream;
use crate::node::transcript;

impl<B: Backend> Actor<B> {
    /// Gives the next prompt its turn if the node can take one. Prompts do not wait behind a dialog: nobody may be there to
    /// answer it.
    pub(super) fn take_up(&mut self) {
        while self.queue.len() > 0 && !self.catching_up {
            match self.driver.state() {
                AgentState::Blocked { .. } | AgentState::Suspended { .. } => {
                    let error = self.blocked_error();
                    return self.queue.fail_all(|| error.clone());
                }
                AgentState::Exited(_) => {
                    let error = self.stopped_error();
                    return self.queue.fail_all(|| error.clone());
                }
                AgentState::Ready if self.active.is_none() => {}
                AgentState::Ready | AgentState::Starting | AgentState::Busy => return,
            }
            if !self.may_type() {
                return;
            }
            let Some(waiting) = self.queue.pop() else { return };
            self.begin(waiting);
        }
    }

    /// Nobody else types into this terminal now. Who waits for that is told at the latest when the time of a prompt is over.
    fn may_type(&mut self) -> bool {
        let now = self.clock.now();
        if self.held_until.is_some_and(|until| until > now) {
            return false;
        }
        match self.backend.lease(now) {
            Lease::Free => {
                self.held_by = None;
                true
            }
            Lease::Pending => false,
            Lease::Held { by, until } => {
                (self.held_by, self.held_until) = (Some(by), Some(until));
                false
            }
        }
    }

    fn begin(&mut self, waiting: Waiting) {
        let now = self.clock.now();
        // The screen may have changed since the last look: a draft must not be typed into.
        self.look(now);
        if *self.driver.state() != AgentState::Ready {
            return self.queue.unpop(waiting);
        }
        let (modes, line) = (self.terminal.modes(), self.terminal.cursor_line().0);
        let Waiting { prompt, call, reply, deadline } = waiting;
        let number = match self.driver.submit(now, &prompt.text, modes, line) {
            Ok(number) => number,
            Err(refused) => {
                let error = EngineError::new(
                    ErrorKind::Blocked,
                    format!("node '{}': {refused}", self.spec.node.node),
                );
                let hint = "nothing was typed; finish or clear the draft first (`nerve server node write NODE --key C-u`)";
                let _ = reply.send(Err(self.with_screen(error.hint(hint))));
                return;
            }
        };
        self.turns = number;
        if let Some(proxy) = &self.spec.proxy {
            proxy.begin_turn(number, call.as_ref().and_then(|call| call.spend.clone()));
        }
        // Rows are the answer of a program that draws no composer and has no parser.
        let parser = prompt.parser.unwrap_or(self.spec.parser);
        let by_rows = parser == ParserKind::None && self.spec.profile.composer.is_none();
        let stream = prompt.stream.then(|| if by_rows { Stream::of_rows() } else { Stream::parsed() });
        let terminal = &self.terminal;
        let preceding = self.spec.journal.before_send(now, || tail_of(terminal));
        self.active = Some(Active {
            prompt,
            call,
            number,
            reply: Some(reply),
            deadline: Some(deadline),
            preceding,
            stream,
            stream_due: None,
            finishing: None,
            metered: self.spec.events.begin_turn(self.spec.kind),
        });
    }

    pub(super) fn turn_ended(&mut self, end: TurnEnd) {
        if let Some(proxy) = &self.spec.proxy {
            proxy.end_turn();
        }
        let Some(active) = &mut self.active else { return };
        active.deadline = None;
        active.stream_due = None;
        let stream = active.stream.take();
        let mut lines = turn_lines(&self.terminal, &end.span);
        if self.spec.profile.composer.is_none() {
            lines = without_echo(lines, &active.prompt.text);
        }
        let parser = active.prompt.parser.unwrap_or(self.spec.parser);
        let parsed = parser.parser().parse(&TurnText { prompt: &active.prompt.text, lines: &lines });
        let prompt = active.prompt.text.clone();
        if let Some(stream) = stream.filter(|_| matches!(end.outcome, Outcome::Done | Outcome::Interrupted)) {
            // In the screen's words, as what was published before: the transcript may have others.
            let rest = stream.rest(&self.terminal, &end.span, &parsed.text());
            self.publish_chunks(end.number, rest);
        }
        let ready = *self.driver.state() == AgentState::Ready;
        let node = self.spec.node.node.as_str();
        let mut response = from_screen(node, parsed, &end, &lines, ready);
        if self.terminal.modes().alternate {
            note_hidden_beginning(&mut response, &prompt);
        }
        match end.outcome {
            Outcome::Done | Outcome::Interrupted => match self.transcript() {
                Some(source) => self.read_transcript(source, response),
                None => self.finish(response),
            },
            Outcome::NotDelivered => {
                let message = format!("node '{node}': the prompt did not arrive: {}", end.evidence);
                let mut error = EngineError::new(ErrorKind::Delivery, message);
                error.delivery = Some(end.delivery.as_str());
                let error = self
                    .with_screen(error.hint("look at the screen; the text may still stand in the composer"));
                self.fail_turn(response, error);
            }
            Outcome::Exited(exit) => {
                let how = self.end_reason.clone().unwrap_or_else(|| format!("its program ended with {exit}"));
                let message = format!("node '{node}': in the middle of the turn, {how}");
                let mut error = EngineError::new(ErrorKind::Process, message);
                error.delivery = Some(end.delivery.as_str());
                let error = self.with_screen(error);
                self.fail_turn(response, error);
            }
        }
    }

    fn transcript(&self) -> Option<transcript::Source> {
        let TranscriptKind::Claude = self.spec.profile.transcript?;
        let home = self.spec.program.env.get("HOME").map(Into::into).or_else(std::env::home_dir)?;
        let full_screen = self.terminal.modes().alternate;
        Some(transcript::Source {
            file: self.transcript.clone(),
            home,
            pid: self.backend.pid()?,
            full_screen,
        })
    }

    /// Agents whose hooks do not name their transcript say elsewhere which one it is.
    pub(super) fn find_transcript(&self) {
        if self.transcript.is_none()
            && let (Some(source), Some(tail)) = (self.transcript(), self.telling.tail())
        {
            tokio::task::spawn_blocking(move || source.tell(&tail));
        }
    }

    /// Off this task: reading another program's files must not hold up the terminal.
    fn read_transcript(&mut self, source: transcript::Source, mut response: Response) {
        let Some(active) = &mut self.active else { return };
        let prompt = active.prompt.text.clone();
        active.finishing = Some(Box::new(response.clone()));
        let (requests, tail, same) = (self.requests.clone(), self.telling.tail(), source.clone());
        tokio::spawn(async move {
            if let Some(parsed) = source.turn(prompt, response.time.0).await {
                response.text = parsed.text();
                response.sections = parsed.sections;
                response.tokens = parsed.tokens.or(response.tokens);
                response.source = "transcript";
                response.attributes.remove("truncated");
                fit(&mut response);
            }
            // What was done in the turn is told before its answer.
            let told = tail.map(|tail| tokio::task::spawn_blocking(move || same.tell(&tail)));
            if let Some(told) = told {
                let _ = told.await;
            }
            if let Some(requests) = requests.upgrade() {
                // The node is gone: it has answered with what the screen told.
                let _ = requests.send(Request::Finished { response: Box::new(response) }).await;
            }
        });
    }

    /// The node ends while a transcript is awaited: the screen's words are the answer.
    pub(super) fn finish_as_shown(&mut self) {
        if let Some(mut response) = self.active.as_mut().and_then(|active| active.finishing.take()) {
            response.is_ready = false;
            self.finish(*response);
        }
    }

    pub(super) fn finish(&mut self, mut response: Response) {
        response.usage = self.spec.proxy.as_ref().and_then(|proxy| proxy.used_in_turn(response.turn));
        self.log(&response, self.clock.now());
        let Some(mut active) = self.active.take() else { return };
        self.telling.shown(self.clock.now(), response.turn, &response.sections);
        let (turn, sections, is_complete) = (response.turn, response.sections.len(), response.is_complete);
        self.spec
            .events
            .publish(Some(&self.spec.node), EventKind::OutputParsed { turn, sections, is_complete });
        active.answer(Ok(response));
    }

    fn fail_turn(&mut self, mut response: Response, error: EngineError) {
        response.usage = self.spec.proxy.as_ref().and_then(|proxy| proxy.used_in_turn(response.turn));
        self.log(&response, self.clock.now());
        if let Some(mut active) = self.active.take() {
            active.answer(Err(error));
        }
    }

    fn log(&mut self, response: &Response, now: TsNs) {
        let Some(active) = self.active.as_ref().filter(|_| self.spec.journal.enabled()) else { return };
        let parser = active.prompt.parser.unwrap_or(self.spec.parser);
        let (time, terminal) = ((response.time.0, now), &self.terminal);
        let sent = Sent { input: &active.prompt.text, preceding: active.preceding, time, parser };
        if active.prompt.stream {
            self.spec.journal.streamed(&sent, || tail_of(terminal));
        } else {
            let data = ResponseData {
                sections: response.sections.clone(),
                tokens: response.tokens,
                is_complete: response.is_complete,
                is_ready: response.is_ready,
            };
            self.spec.journal.sent(&sent, data, || tail_of(terminal));
        }
    }

    /// Publishes what the answer has grown by.
    pub(super) fn stream(&mut self) {
        let Some(active) = &mut self.active else { return };
        active.stream_due = None;
        let (Some(stream), Some(start)) = (&mut active.stream, self.driver.turn_start_line()) else { return };
        let terminal = &self.terminal;
        let parser = active.prompt.parser.unwrap_or(self.spec.parser);
        let prompt = &active.prompt.text;
        let chunks = stream.grow(terminal, start, || {
            let span = Span { bytes: (0, 0), lines: (start, u64::MAX), last_col: None };
            let lines = turn_lines(terminal, &span);
            (parser.parser().parse(&TurnText { prompt, lines: &lines }).text(), lines.len())
        });
        if stream.every().is_zero() {
            active.stream_due = Some(self.clock.now());
        }
        let turn = active.number;
        self.publish_chunks(turn, chunks);
    }

    fn publish_chunks(&self, turn: u64, chunks: Vec<String>) {
        let sink = self.active.as_ref().and_then(|active| active.call.as_ref()?.chunks.as_ref());
        let tag = self.active.as_ref().and_then(|active| active.prompt.tag);
        for chunk in chunks {
            if let Some(sink) = sink {
                sink(&chunk);
            }
            self.spec.events.publish(Some(&self.spec.node), EventKind::OutputChunk { turn, tag, chunk });
        }
    }
}
