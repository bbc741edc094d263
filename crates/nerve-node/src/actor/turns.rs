//! The course of a turn: started, streamed, ended, logged, answered.

use nerve_agent::driver::{AgentState, Outcome, Span, TurnEnd};
use nerve_agent::parse::{ParserKind, TurnText};
use nerve_agent::profile::TranscriptKind;
use nerve_api::value::ResponseSource;
use nerve_record::history::ResponseData;
use nerve_types::TsNs;

use super::{Actor, Request, tail_of};
use crate::command::{EventKind, Response};
use crate::error::{EngineError, ErrorKind};
use crate::journal::FinishedPrompt;
use crate::queue::{ActiveTurn, QueuedPrompt};
use crate::response::{note_hidden_start, remove_echo, response_from_screen, truncate_to_limits, turn_lines};
use crate::stream::Stream;
use crate::transcript;
use nerve_host::backend::{Backend, Lease};

impl<B: Backend> Actor<B> {
    /// Starts the next prompt if the node can take one. Prompts fail at a dialog, because there may be no one to answer it.
    pub(super) fn start_next_prompts(&mut self) {
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
            if !self.can_type() {
                return;
            }
            let Some(waiting) = self.queue.pop() else { return };
            self.begin_turn(waiting);
        }
    }

    /// Returns true if no one else holds the input lease. Waiters are notified no later than the prompt's deadline.
    fn can_type(&mut self) -> bool {
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

    fn begin_turn(&mut self, waiting: QueuedPrompt) {
        let now = self.clock.now();
        // The screen may have changed since the last observation, and text must not be appended to a draft.
        self.observe(now);
        if *self.driver.state() != AgentState::Ready {
            return self.queue.push_front(waiting);
        }
        let (modes, line) = (self.terminal.modes(), self.terminal.cursor_line().0);
        let QueuedPrompt { prompt, call, reply, deadline } = waiting;
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
            let spend = call.as_ref().and_then(|call| call.spend.clone());
            proxy.begin_turn(number, spend, prompt.trace.clone());
        }
        // Programs that draw no composer and have no parser answer in plain rows.
        let parser = prompt.parser.unwrap_or(self.spec.parser);
        let by_rows = parser == ParserKind::None && self.spec.profile.composer.is_none();
        let stream = prompt.stream.then(|| if by_rows { Stream::rows() } else { Stream::parsed() });
        let terminal = &self.terminal;
        let preceding = self.spec.journal.capture_before_prompt(now, || tail_of(terminal));
        self.active = Some(ActiveTurn {
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

    pub(super) fn on_turn_ended(&mut self, end: TurnEnd) {
        if let Some(proxy) = &self.spec.proxy {
            proxy.end_turn();
        }
        let Some(active) = &mut self.active else { return };
        active.deadline = None;
        active.stream_due = None;
        let stream = active.stream.take();
        let mut lines = turn_lines(&self.terminal, &end.span);
        if self.spec.profile.composer.is_none() {
            lines = remove_echo(lines, &active.prompt.text);
        }
        let parser = active.prompt.parser.unwrap_or(self.spec.parser);
        let parsed = nerve_agent::parse::parser(parser)
            .parse(&TurnText { prompt: &active.prompt.text, lines: &lines });
        let prompt = active.prompt.text.clone();
        if let Some(stream) = stream.filter(|_| matches!(end.outcome, Outcome::Done | Outcome::Interrupted)) {
            // The screen's wording, like the chunks published before; the transcript's may differ.
            let rest = stream.rest(&self.terminal, &end.span, &parsed.text());
            self.publish_chunks(end.number, rest);
        }
        let ready = *self.driver.state() == AgentState::Ready;
        let node = self.spec.node.node.as_str();
        let mut response = response_from_screen(node, parsed, &end, &lines, ready);
        if self.terminal.modes().alternate {
            note_hidden_start(&mut response, &prompt);
        }
        match end.outcome {
            Outcome::Done | Outcome::Interrupted => match self.transcript() {
                Some(source) => self.read_transcript(source, response),
                None => self.finish(response),
            },
            Outcome::NotDelivered => {
                let message = format!("node '{node}': the prompt was not delivered: {}", end.evidence);
                let mut error = EngineError::new(ErrorKind::Delivery, message);
                error.delivery = Some(end.delivery);
                let error =
                    self.with_screen(error.hint("check the screen; the text may still be in the composer"));
                self.fail_turn(response, error);
            }
            Outcome::Exited(exit) => {
                let how = self.end_reason.clone().unwrap_or_else(|| format!("its program ended with {exit}"));
                let message = format!("node '{node}': the turn was cut short: {how}");
                let mut error = EngineError::new(ErrorKind::Process, message);
                error.delivery = Some(end.delivery);
                let error = self.with_screen(error);
                self.fail_turn(response, error);
            }
        }
    }

    fn transcript(&self) -> Option<transcript::TranscriptSource> {
        let TranscriptKind::Claude = self.spec.profile.transcript?;
        let home = self.spec.program.env.get("HOME").map(Into::into).or_else(std::env::home_dir)?;
        let full_screen = self.terminal.modes().alternate;
        Some(transcript::TranscriptSource {
            file: self.transcript.clone(),
            home,
            pid: self.backend.pid()?,
            full_screen,
        })
    }

    /// Looks for the transcript of an agent whose hooks do not name it.
    pub(super) fn find_transcript(&self) {
        if self.transcript.is_none()
            && let (Some(source), Some(tail)) = (self.transcript(), self.reporter.transcript_tail())
        {
            tokio::task::spawn_blocking(move || source.report(&tail));
        }
    }

    /// Completes a response from the transcript, on a separate task: reading another program's files must not block the terminal.
    fn read_transcript(&mut self, source: transcript::TranscriptSource, mut response: Response) {
        let Some(active) = &mut self.active else { return };
        let prompt = active.prompt.text.clone();
        active.finishing = Some(Box::new(response.clone()));
        let (requests, tail, same) = (self.requests.clone(), self.reporter.transcript_tail(), source.clone());
        tokio::spawn(async move {
            if let Some(parsed) = source.turn(prompt, response.time.0).await {
                response.text = parsed.text();
                response.sections = parsed.sections;
                response.tokens = parsed.tokens.or(response.tokens);
                response.source = ResponseSource::Transcript;
                response.attributes.remove("truncated");
                truncate_to_limits(&mut response);
            }
            // Activities of the turn are reported before its answer.
            let report = tail.map(|tail| tokio::task::spawn_blocking(move || same.report(&tail)));
            if let Some(report) = report {
                let _ = report.await;
            }
            if let Some(requests) = requests.upgrade() {
                // A send error means that the node is gone and has answered with the screen's text.
                let _ = requests.send(Request::Finished { response: Box::new(response) }).await;
            }
        });
    }

    /// Answers with the screen's text if the node ends while a transcript is being read.
    pub(super) fn finish_from_screen(&mut self) {
        if let Some(mut response) = self.active.as_mut().and_then(|active| active.finishing.take()) {
            response.is_ready = false;
            self.finish(*response);
        }
    }

    pub(super) fn finish(&mut self, mut response: Response) {
        response.usage = self.spec.proxy.as_ref().and_then(|proxy| proxy.turn_usage(response.turn));
        self.log(&response, self.clock.now());
        let Some(mut active) = self.active.take() else { return };
        self.reporter.report_screen(self.clock.now(), response.turn, &response.sections);
        let (turn, sections, is_complete) = (response.turn, response.sections.len(), response.is_complete);
        self.spec
            .events
            .publish(Some(&self.spec.node), EventKind::OutputParsed { turn, sections, is_complete });
        active.answer(Ok(response));
    }

    fn fail_turn(&mut self, mut response: Response, error: EngineError) {
        response.usage = self.spec.proxy.as_ref().and_then(|proxy| proxy.turn_usage(response.turn));
        self.log(&response, self.clock.now());
        if let Some(mut active) = self.active.take() {
            active.answer(Err(error));
        }
    }

    fn log(&mut self, response: &Response, now: TsNs) {
        let Some(active) = self.active.as_ref().filter(|_| self.spec.journal.enabled()) else { return };
        let parser = active.prompt.parser.unwrap_or(self.spec.parser);
        let (time, terminal) = ((response.time.0, now), &self.terminal);
        let sent = FinishedPrompt { input: &active.prompt.text, preceding: active.preceding, time, parser };
        if active.prompt.stream {
            self.spec.journal.log_streamed_turn(&sent, || tail_of(terminal));
        } else {
            let data = ResponseData {
                sections: response.sections.clone(),
                tokens: response.tokens,
                is_complete: response.is_complete,
                is_ready: response.is_ready,
            };
            self.spec.journal.log_turn(&sent, data, || tail_of(terminal));
        }
    }

    /// Publishes what the answer has grown by since the last call.
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
            (
                nerve_agent::parse::parser(parser).parse(&TurnText { prompt, lines: &lines }).text(),
                lines.len(),
            )
        });
        if stream.poll_interval().is_zero() {
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
