//! The course of a turn: started, streamed, ended, logged, answered.

use std::sync::Arc;
use std::time::Duration;

use nerve_agent::driver::{AgentState, Outcome, Source, Span, SubmitError, TurnEnd};
use nerve_agent::parse::transcript::TranscriptTurn;
use nerve_agent::parse::{ParserKind, SectionKind, TurnText};
use nerve_api::event::EventKind;
use nerve_api::value::ResponseSource;
use nerve_host::backend::Backend;
use nerve_record::history::ResponseData;
use nerve_transcript::source::{DrawnAnswer, SentPrompt, TranscriptSource, is_shown};
use nerve_types::{TimeSpan, TsNs};
use nerve_vt::terminal::TerminalState;

use super::lost_rows::PromptLayout;
use super::queue::ActiveTurn;
use super::request::{Request, RequestedTurn};
use super::shadow_terminal::ShadowTerminal;
use super::{Actor, tail_of};
use crate::audit_log::FinishedPrompt;
use crate::error::{EngineError, ErrorKind};
use crate::response::{Response, truncate_text, truncate_to_limits};
use crate::stream::Stream;
use crate::terminal::screen_response::{
    add_ending, keep_text_before_error, note_hidden_start, response_from_screen,
};
use crate::terminal::turn_text::{remove_echo, shows_prompt_above, turn_lines};

/// Pause between two checks whether the transcript has the answer that the screen shows.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

impl<B: Backend> Actor<B> {
    /// Starts the next prompt if the node can take one. Prompts wait behind the dialog of another one's turn, whose caller is
    /// notified. Without a turn they fail: there may be no one to answer the dialog.
    pub(super) fn start_next_prompts(&mut self) {
        while !self.turns.queue.is_empty() && !self.lifecycle.is_replaying() {
            // The limits may have changed just before.
            self.check_budget();
            match self.state() {
                AgentState::Blocked { .. } | AgentState::Suspended { .. } => {
                    return self.fail_prompts_at_dialog();
                }
                AgentState::Exited(_) => return self.turns.queue.fail_all(&self.stopped_error()),
                AgentState::Ready if self.turns.active().is_none() => {}
                AgentState::Ready | AgentState::Starting | AgentState::Busy => return,
            }
            let now = self.clock.now();
            // Waiting prompts are started when the lease changes, and fail no later than their deadline.
            if !self.lease.acquire(now, || self.link.backend.lease(now)) {
                return;
            }
            let Some(prompt) = self.turns.queue.pop() else { return };
            self.begin_turn(prompt);
            // The program works on the prompt while the log is written.
            self.run_effects();
            self.log_preceding_screen();
        }
    }

    /// Logs the screen that preceded the prompt of a turn that just began.
    fn log_preceding_screen(&mut self) {
        let terminal = &self.terminal;
        if let Some(active) = self.turns.active_mut().filter(|active| active.preceding.is_none()) {
            active.preceding = self.spec.audit_log.capture_before_prompt(active.since, || tail_of(terminal));
        }
    }

    fn fail_prompts_at_dialog(&mut self) {
        if let Some(error) = self.budget_exceeded_error() {
            return self.turns.queue.fail_all(&error);
        }
        let has_turn = self.turns.active().is_some();
        if self.turns.queue.fails_at_dialog(has_turn) {
            let error = self.blocked_error();
            self.turns.queue.fail_at_dialog(has_turn, &error);
        }
    }

    fn begin_turn(&mut self, request: RequestedTurn) {
        let now = self.clock.now();
        // The screen may have changed since the last observation, and text must not be appended to a draft.
        self.observe(now);
        if *self.driver.state() != AgentState::Ready {
            return self.turns.queue.push_front(request);
        }
        let (modes, line) = (self.terminal.modes(), self.cursor_line());
        let layout = PromptLayout::new(&self.terminal, &request.prompt.text);
        let shadow = self.copy_terminal(now, &layout);
        let number = match self.driver.submit(now, Arc::clone(&request.prompt.text), modes, line) {
            Ok(number) => number,
            Err(refused) => {
                let error = EngineError::new(
                    ErrorKind::Blocked,
                    format!("node '{}': {refused}", self.spec.node.node),
                );
                let error =
                    self.with_screen(error.hint(draft_hint(&refused, self.link.backend.is_foreign())));
                return self.turns.queue.refuse(request, error);
            }
        };
        let spend = request.call.as_ref().and_then(|call| call.spend.clone());
        match &self.spec.proxy {
            Some(proxy) => proxy.begin_turn(number, spend, request.prompt.trace.clone()),
            None => self.reporter.meter().begin(now, spend),
        }
        // Programs that draw no composer and have no parser answer in plain rows.
        let parser = request.prompt.parser.unwrap_or(self.spec.parser);
        let by_rows = parser == ParserKind::None && self.spec.profile.composer.is_none();
        let stream = request.prompt.stream.then(|| if by_rows { Stream::rows() } else { Stream::parsed() });
        self.turns.begin(ActiveTurn {
            request,
            number,
            since: now,
            parser,
            preceding: None,
            stream,
            stream_due: None,
            is_cleared: false,
            layout,
            is_reading_transcript: false,
            shadow,
            finishing: None,
            timer: self.spec.events.begin_turn(self.spec.kind.as_str()),
        });
    }

    /// Copies the terminal of a shell with text below its prompt.
    fn copy_terminal(&self, now: TsNs, layout: &PromptLayout) -> Option<ShadowTerminal> {
        let profile = &self.spec.profile;
        let is_shell = profile.composer.is_none() && profile.foreground;
        let is_exact = !self.link.backend.is_approximate() && !self.feed.ends_in_sequence();
        let is_needed = is_shell && is_exact && layout.is_above_text() && !self.terminal.modes().alternate;
        is_needed.then(|| ShadowTerminal::new(&self.terminal, now)).flatten()
    }

    /// Returns the terminal from which the running turn's output is read.
    pub(super) fn output_terminal(&self) -> &TerminalState {
        let shadow = self.turns.active().and_then(|active| active.shadow.as_ref());
        shadow.map_or(&self.terminal, ShadowTerminal::terminal)
    }

    /// Reads the transcript if the screen shows the end of an answer. Does not wait for a silence then: an agent may draw its last
    /// text long after the end.
    pub(super) fn check_transcript(&mut self) {
        let is_reading = self.turns.active().is_none_or(|active| active.is_reading_transcript);
        if is_reading || !self.driver.is_answer_unconfirmed() {
            return;
        }
        let Some(source) = self.transcript().filter(TranscriptSource::marks_ends) else { return };
        let (requests, screen) = (self.self_sender.clone(), self.partial_text());
        let Some(active) = self.turns.active_mut() else { return };
        active.is_reading_transcript = true;
        let (turn, prompt) = (active.number, active.sent_prompt());
        tokio::spawn(async move {
            let read = tokio::task::spawn_blocking(move || source.written_turn(&prompt, &screen));
            let written = read.await.ok().flatten();
            if let Some(requests) = requests.upgrade() {
                // A send error means that the node is gone.
                let _ = requests.send(Request::TranscriptChecked { turn, written }).await;
            }
        });
    }

    /// Ends the turn if the screen shows the answer in the transcript. Otherwise checks both again soon.
    pub(super) fn on_transcript_checked(&mut self, now: TsNs, turn: u64, written: Option<TranscriptTurn>) {
        let Some(active) = self.turns.active_mut().filter(|active| active.number == turn) else { return };
        active.is_reading_transcript = false;
        if !self.driver.is_answer_unconfirmed() {
            return;
        }
        if written.is_some_and(|written| is_shown(&written, &self.partial_text())) {
            self.driver.on_answer_written();
            self.observe(now);
        } else {
            self.observation.schedule(now + CHECK_INTERVAL);
        }
    }

    /// Answers the caller of a turn that has ended: with the response from the transcript or the screen, or with an error.
    pub(super) fn on_turn_ended(&mut self, end: TurnEnd) {
        if let Some(proxy) = &self.spec.proxy {
            proxy.end_turn();
        }
        self.reporter.meter().end(end.time.end);
        self.meter_work();
        let Some(active) = self.turns.active_mut() else { return };
        active.request.deadline = None;
        active.stream_due = None;
        let (stream, parser, shadow) = (active.stream.take(), active.parser, active.shadow.take());
        let shadow = shadow.as_ref().map(ShadowTerminal::terminal);
        let terminal = shadow.unwrap_or(&self.terminal);
        let prompt = Arc::clone(&active.request.prompt.text);
        let mut lines = turn_lines(terminal, &end.span);
        if self.spec.profile.composer.is_none() && end.span.has_echo {
            lines = remove_echo(lines, &prompt, |before| self.driver.is_any_prompt(before));
        }
        let parsed = nerve_agent::parse::parser(parser).parse(&TurnText { prompt: &prompt, lines: &lines });
        let has_answer = !matches!(end.outcome, Outcome::NotDelivered | Outcome::Exited(_));
        if let Some(stream) = stream.filter(|_| has_answer) {
            // The screen's wording, like the chunks published before; the transcript's may differ.
            let rest = stream.rest(terminal, &end.span, &parsed.text());
            self.publish_chunks(end.number, rest);
        }
        let is_ready = *self.driver.state() == AgentState::Ready;
        let is_agent = self.spec.profile.composer.is_some();
        let node = self.spec.node.node.as_str();
        let mut response = response_from_screen(node, parsed, &end, &lines, is_agent, is_ready);
        if self.terminal.modes().alternate {
            note_hidden_start(&mut response, &prompt);
        }
        if let Some(reason) = self.missing_text_reason(&end, &response, shadow) {
            response.missing_text = Some(reason.to_string());
        }
        match (self.end_error(&end), self.transcript()) {
            (Some(error), _) => self.fail_turn(response, error),
            (None, Some(source)) => self.read_transcript(source, response, end.outcome),
            (None, None) => self.finish(response),
        }
    }

    /// Returns why the rows of a finished turn may lack text. The first reason that applies is the one to report.
    /// `shadow` is the copy of the terminal from which the rows were read, if it had one.
    fn missing_text_reason(
        &self,
        end: &TurnEnd,
        response: &Response,
        shadow: Option<&TerminalState>,
    ) -> Option<&'static str> {
        let active = self.turns.active()?;
        if active.is_cleared {
            return Some("the buffer was cleared during the turn");
        }
        let prompt = &*active.request.prompt.text;
        if let Some(reason) = self.find_lost_rows(end, prompt, &active.layout, shadow) {
            return Some(reason);
        }
        let is_polled = self.link.backend.is_approximate();
        if is_polled || (self.link.backend.is_foreign() && end.span.has_echo) {
            let is_above = || shows_prompt_above(&self.terminal, end.span.lines.start, prompt);
            if !response.is_agent && !is_above() {
                return Some("the pane does not show the prompt above it any more");
            }
            if is_polled && response.text.trim().is_empty() {
                return Some("the pane shows nothing new, which is no proof of no output");
            }
        }
        let is_skipped = self.skipped_to.is_some_and(|skipped_to| skipped_to > end.span.bytes.start);
        is_skipped.then_some("a part of the program's output was lost")
    }

    /// Returns the error of a turn that ended without an answer.
    fn end_error(&self, end: &TurnEnd) -> Option<EngineError> {
        let node = &self.spec.node.node;
        let error = match end.outcome {
            Outcome::Done | Outcome::Unconfirmed | Outcome::Interrupted => return None,
            Outcome::NotDelivered => {
                let message = format!("node '{node}': the prompt was not delivered: {}", end.evidence);
                EngineError::new(ErrorKind::Delivery, message)
                    .hint("check the screen; the text may still be in the composer")
            }
            Outcome::Exited(exit) => {
                let how = match self.lifecycle.end_reason() {
                    Some(reason) => reason.clone(),
                    None => format!("its program ended with {exit}"),
                };
                EngineError::process(format!("node '{node}': the turn was cut short: {how}"))
            }
        };
        Some(self.with_screen(EngineError { delivery: Some(end.delivery), ..error }))
    }

    /// Completes a response from the transcript, on a separate task: reading another program's files must not block the terminal.
    fn read_transcript(&mut self, source: TranscriptSource, mut response: Response, outcome: Outcome) {
        let Some(active) = self.turns.active_mut() else { return };
        let prompt = SentPrompt { since: response.time.start, ..active.sent_prompt() };
        let ends_with_text =
            response.sections.last().is_some_and(|section| section.kind == SectionKind::Text);
        let drawn = DrawnAnswer {
            text: response.text.as_str().into(),
            ends_with_text: ends_with_text && outcome != Outcome::Interrupted,
            is_end_certain: self.driver.evidence().source == Source::Hook,
            is_first: response.turn == 1,
        };
        active.finishing = Some(Box::new(response.clone()));
        let (requests, tail, same) =
            (self.self_sender.clone(), self.reporter.transcript_tail(), source.clone());
        // Without another source, the file with the turn tells which conversation the program has.
        let learns_id =
            self.spec.profile.session.as_ref().is_some_and(|session_args| session_args.id_source.is_none());
        tokio::spawn(async move {
            let (parsed, found) = source.turn(prompt, drawn).await.unzip();
            response.tokens = parsed.as_ref().and_then(|parsed| parsed.tokens).or(response.tokens);
            if let Some(parsed) = parsed.as_ref().filter(|parsed| parsed.is_truncated) {
                add_ending(&mut response.sections, parsed.sections.clone());
            }
            if let Some(mut parsed) = parsed.filter(|parsed| !parsed.is_truncated) {
                keep_text_before_error(&mut parsed.sections, &response.sections);
                response.text = parsed.text();
                response.sections = parsed.sections;
                response.source = ResponseSource::Transcript;
                // The file of a turn that continues may end with a text, too.
                if outcome != Outcome::Unconfirmed {
                    response.is_complete |= parsed.is_complete && !response.is_interrupted();
                    response.missing_text = None;
                }
                response.attributes.remove("truncated");
                truncate_to_limits(&mut response);
            }
            if let (true, Some(found), Some(requests)) = (learns_id, found.clone(), requests.upgrade()) {
                let id = tokio::task::spawn_blocking(move || found.conversation_id()).await;
                if let Ok(Some(id)) = id {
                    // A send error means that the node is gone and the id is no longer needed.
                    let _ = requests.send(Request::Conversation { id }).await;
                }
            }
            // Activities of the turn are reported before its answer.
            let report = tail.map(|tail| tokio::task::spawn_blocking(move || tail.end_turn(&same, found)));
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
        if let Some(mut response) = self.turns.active_mut().and_then(|active| active.finishing.take()) {
            response.is_ready = false;
            self.finish(*response);
        }
    }

    pub(super) fn finish(&mut self, mut response: Response) {
        self.reporter.meter().record_answer(response.tokens);
        if let Some(error) = self.interrupted_error(&response) {
            return self.fail_turn(response, error);
        }
        response.usage = self.spec.proxy.as_ref().and_then(|proxy| proxy.turn_usage(response.turn));
        self.log(response_data(&response), self.clock.now());
        let Some(mut active) = self.turns.end(&response.text) else { return };
        self.reporter.report_screen(self.clock.now(), response.turn, &response.sections);
        let (turn, sections, is_complete) = (response.turn, response.sections.len(), response.is_complete);
        self.publish(EventKind::OutputParsed { turn, sections, is_complete });
        // Published first, because the caller may read the status at once.
        self.publish_status();
        active.answer(Ok(response));
    }

    fn fail_turn(&mut self, mut response: Response, error: EngineError) {
        let error = error.with_text(&response.text);
        response.usage = self.spec.proxy.as_ref().and_then(|proxy| proxy.turn_usage(response.turn));
        self.log(response_data(&response), self.clock.now());
        if let Some(mut active) = self.turns.end(&response.text) {
            self.publish_status();
            active.answer(Err(error));
        }
    }

    /// Logs the turn in progress with its answer.
    pub(super) fn log(&mut self, response: ResponseData, now: TsNs) {
        let Some(active) = self.turns.active().filter(|_| self.spec.audit_log.is_enabled()) else { return };
        let terminal = &self.terminal;
        let sent = FinishedPrompt {
            input: &active.request.prompt.text,
            preceding: active.preceding,
            time: TimeSpan { start: active.since, end: now },
            parser: active.parser,
            usage: None,
        };
        if active.request.prompt.stream {
            self.spec.audit_log.log_streamed_turn(&sent, || tail_of(terminal));
        } else {
            self.spec.audit_log.log_turn(&sent, response, || tail_of(terminal));
        }
    }

    /// Logs the prompts that failed before they were typed.
    pub(super) fn log_unsent(&mut self) {
        let now = self.clock.now();
        for prompt in self.turns.queue.take_unsent() {
            self.spec.audit_log.log_unsent(now, &prompt.text, &prompt.reason, &prompt.origin);
        }
    }

    /// Returns the answer of the turn in progress as far as the screen shows it.
    pub(super) fn partial_text(&self) -> String {
        let (Some(active), Some(start)) = (self.turns.active(), self.driver.turn_start_line()) else {
            return String::new();
        };
        let (prompt, lines) = (&*active.request.prompt.text, lines_from(self.output_terminal(), start));
        let text =
            nerve_agent::parse::parser(active.parser).parse(&TurnText { prompt, lines: &lines }).text();
        truncate_text(text)
    }

    /// Publishes the text added to the answer since the last call.
    pub(super) fn stream(&mut self) {
        let Some(active) = self.turns.active_mut() else { return };
        active.stream_due = None;
        let (Some(stream), Some(start)) = (&mut active.stream, self.driver.turn_start_line()) else { return };
        let terminal = active.shadow.as_ref().map_or(&self.terminal, ShadowTerminal::terminal);
        let parser = active.parser;
        let prompt = &active.request.prompt.text;
        let chunks = stream.grow(terminal, start, || {
            let lines = lines_from(terminal, start);
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
        let active = self.turns.active();
        let sink = active.and_then(|active| active.request.call.as_ref()?.chunks.as_ref());
        let tag = active.and_then(|active| active.request.prompt.tag);
        for chunk in chunks {
            if let Some(sink) = sink {
                sink(&chunk);
            }
            self.publish(EventKind::OutputChunk { turn, chunk, request_id: None, tag });
        }
    }
}

/// Returns the advice for a refused prompt. In a foreign program, an unknown prompt may look like a draft; after Enter the program
/// draws the next one.
fn draft_hint(refused: &SubmitError, is_foreign: bool) -> &'static str {
    match refused {
        SubmitError::Line(_) if is_foreign => {
            "nothing was typed; finish or clear the draft first (`nerve node write NODE --key C-u`); \
             if this is the program's prompt, press Enter there once (`nerve node write NODE --key enter`)"
        }
        _ => "nothing was typed; finish or clear the draft first (`nerve node write NODE --key C-u`)",
    }
}

/// Returns the lines of a turn that has not ended.
fn lines_from(terminal: &TerminalState, start: u64) -> Vec<String> {
    turn_lines(terminal, &Span { bytes: 0..0, lines: start..u64::MAX, last_col: None, has_echo: true })
}

fn response_data(response: &Response) -> ResponseData {
    ResponseData {
        sections: response.sections.clone(),
        tokens: response.tokens,
        is_complete: response.is_complete,
        is_ready: response.is_ready,
    }
}
