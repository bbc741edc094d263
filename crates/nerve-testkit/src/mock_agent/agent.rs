//! The agent as a state machine: input bytes and the time go in, output bytes and the next deadline come out. Uses no
//! terminal and no clock.

use std::collections::VecDeque;
use std::time::Duration;

use super::classic_renderer::ClassicRenderer;
use super::composer::{Composer, Draft};
use super::dialog::{Choice, Dialog, Question};
use super::full_screen_renderer::FullScreenRenderer;
use super::keys::{Decoder, Key};
use super::line::{Line, Style};
use super::options::MockAgentOptions;
use super::program::Program;
use super::scenario;
use super::screen::{Frame, Renderer, ScreenSize};
use super::transcript::Message;
use super::turn::{Outcome, Turn};

/// An ESC followed by nothing for this long is the Escape key.
const ESCAPE_ALONE: Duration = Duration::from_millis(40);
/// Unbracketed input of more bytes than this in one read is treated as a paste: its Enter is a line end.
const BURST: usize = 200;
/// Maximum number of queued prompts.
const QUEUE_LIMIT: usize = 64;

/// The current activity.
enum Phase {
    /// Never ready.
    Mute,
    /// Dialogs before the first prompt; the front one is shown.
    Starting(VecDeque<Dialog>),
    Idle,
    Busy(Turn),
    /// A turn waits for a permission; earlier keys than this time are ignored.
    Blocked(Dialog, Turn, Duration),
    Gone(i32),
}

/// The mock agent. Times are relative to its start.
pub struct Agent {
    options: MockAgentOptions,
    folder: String,
    size: ScreenSize,
    decoder: Decoder,
    escape_by: Option<Duration>,
    composer: Composer,
    screen: Box<dyn Renderer>,
    phase: Phase,
    queued: VecDeque<Draft>,
    /// Final lines for the next frame.
    settled: Vec<Line>,
    out: Vec<u8>,
    title: &'static str,
    exit_hint: bool,
    /// The draft contains a paste: the next Enter may be swallowed.
    pasted: bool,
    swallow: u32,
    reading: bool,
    allow_all: bool,
    /// The user's prompts in this conversation.
    past: Vec<String>,
    /// Text of the running turn's answer.
    answer: String,
    /// Messages of the conversation since the last [`Program::take_messages`].
    messages: Vec<Message>,
}

impl Agent {
    /// Starts an agent that claims to work in `folder`; its first output is available at once.
    pub fn new(options: MockAgentOptions, folder: &str, size: ScreenSize) -> Agent {
        let size = size.at_least_usable();
        let screen: Box<dyn Renderer> = match options.full_screen {
            true => Box::new(FullScreenRenderer::new(size)),
            false => Box::new(ClassicRenderer::new(size)),
        };
        let mut agent = Agent {
            folder: folder.to_owned(),
            size,
            decoder: Decoder::default(),
            escape_by: None,
            composer: Composer::default(),
            screen,
            phase: Phase::Idle,
            queued: VecDeque::new(),
            settled: Vec::new(),
            out: Vec::new(),
            title: "",
            exit_hint: false,
            pasted: false,
            swallow: options.swallow_enter,
            reading: true,
            allow_all: false,
            past: Vec::new(),
            answer: String::new(),
            messages: Vec::new(),
            options,
        };
        agent.start();
        agent
    }

    /// Continues a conversation with these earlier prompts.
    #[must_use]
    pub fn after(mut self, past: Vec<String>) -> Agent {
        self.past = past;
        self
    }
}

impl Program for Agent {
    fn take_messages(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.messages)
    }

    fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    fn deadline(&self) -> Option<Duration> {
        let turn = match &self.phase {
            Phase::Busy(turn) if turn.next < Duration::MAX => Some(turn.next),
            _ => None,
        };
        [turn, self.escape_by].into_iter().flatten().min()
    }

    fn wants_input(&self) -> bool {
        self.reading
    }

    fn exit_code(&self) -> Option<i32> {
        match self.phase {
            Phase::Gone(code) => Some(code),
            _ => None,
        }
    }

    fn input(&mut self, bytes: &[u8], now: Duration) {
        if now < self.options.slow_start {
            return;
        }
        let burst = bytes.len() > BURST && !bytes.contains(&0x1b);
        for key in self.decoder.feed(bytes) {
            let key = if burst && key == Key::Enter { Key::Newline } else { key };
            self.key(key, now);
        }
        self.escape_by = self.decoder.holds_escape().then(|| now + ESCAPE_ALONE);
        self.tick(now);
    }

    fn tick(&mut self, now: Duration) {
        if self.escape_by.is_some_and(|by| by <= now) {
            self.escape_by = None;
            if let Some(key) = self.decoder.escape_alone() {
                self.key(key, now);
            }
        }
        while let Phase::Busy(turn) = &mut self.phase {
            if turn.next > now {
                break;
            }
            let outcome = turn.step(now, self.size.cols, &mut self.settled);
            if self.take_outcome(outcome, now) {
                break;
            }
        }
        self.redraw();
    }

    fn resize(&mut self, size: ScreenSize) {
        let size = size.at_least_usable();
        if size != self.size {
            self.size = size;
            self.screen.resize(size);
            self.redraw();
        }
    }
}

impl Agent {
    fn start(&mut self) {
        if let Some(code) = self.options.exit_at_once {
            self.out.extend_from_slice(b"mock-agent: ends at once, as asked\r\n");
            self.phase = Phase::Gone(code);
            return;
        }
        self.screen.start(&mut self.out);
        // The queries that Claude Code sends: terminal version, keyboard protocol, device attributes.
        self.out.extend_from_slice(b"\x1b[?2004h\x1b[>0q\x1b[?u\x1b[c");
        let mut questions = VecDeque::new();
        if self.options.theme {
            questions.push_back(Dialog::new(Question::Theme));
        }
        if self.options.login {
            questions.push_back(Dialog::new(Question::Login));
        }
        if self.options.onboarding {
            questions.push_back(Dialog::new(Question::Trust { folder: self.folder.clone() }));
        }
        if self.options.never_ready {
            self.header();
            self.phase = Phase::Mute;
        } else {
            self.ask_or_begin(questions);
        }
        self.redraw();
    }

    fn ask_or_begin(&mut self, questions: VecDeque<Dialog>) {
        if questions.is_empty() {
            self.header();
            self.phase = Phase::Idle;
        } else {
            self.phase = Phase::Starting(questions);
        }
    }

    fn header(&mut self) {
        let version = concat!("v", env!("CARGO_PKG_VERSION"));
        let logo = |piece: &str| Line::default().put(Style::Accent, piece);
        self.settled.extend([
            logo(" ▛▀▀▀▜  ").put(Style::Bold, "Mock Agent").put(Style::Grey, &format!(" {version}")),
            logo(" ▌▝ ▘▐  ").put(Style::Grey, "Scripted answers · no network"),
            logo(" ▙▄▄▄▟  ").put(Style::Grey, &self.folder),
            Line::blank(),
        ]);
    }

    fn key(&mut self, key: Key, now: Duration) {
        if key == Key::Interrupt && self.options.ignore_interrupt {
            return;
        }
        let hinted = std::mem::take(&mut self.exit_hint);
        match &mut self.phase {
            Phase::Mute | Phase::Gone(_) => {}
            Phase::Starting(dialogs) => {
                if let Some(choice) = dialogs.front_mut().and_then(|dialog| dialog.key(&key)) {
                    self.answer_start(choice);
                }
            }
            Phase::Blocked(_, _, from) if now < *from => {}
            Phase::Blocked(dialog, ..) => {
                if let Some(choice) = dialog.key(&key) {
                    self.answer_permission(choice, now);
                }
            }
            Phase::Busy(turn) if matches!(key, Key::Escape | Key::Interrupt) => {
                if !turn.deaf && !self.options.ignore_interrupt {
                    self.interrupt();
                }
            }
            Phase::Idle if key == Key::Interrupt => self.interrupt_idle(hinted),
            Phase::Idle if key == Key::EndOfInput && self.composer.is_empty() => self.leave(0),
            Phase::Idle | Phase::Busy(_) => self.edit(key, now),
        }
    }

    fn edit(&mut self, key: Key, now: Duration) {
        match key {
            Key::Text(text) => self.composer.type_text(&text),
            Key::Paste(text) => {
                self.composer.paste(&text, self.options.paste_chip);
                self.pasted = true;
            }
            Key::Newline => self.composer.type_text("\n"),
            Key::Backspace => self.composer.backspace(),
            Key::ClearDraft => self.composer.clear(),
            Key::Enter => self.enter(now),
            Key::Escape | Key::Interrupt | Key::EndOfInput | Key::Up | Key::Down => {}
        }
    }

    fn enter(&mut self, now: Duration) {
        if self.pasted && self.swallow > 0 {
            self.swallow -= 1;
        } else if self.composer.ends_with_backslash() {
            self.composer.backspace();
            self.composer.type_text("\n");
        } else if !self.composer.is_empty() {
            self.pasted = false;
            let draft = self.composer.take();
            match &self.phase {
                Phase::Busy(_) if self.queued.len() < QUEUE_LIMIT => self.queued.push_back(draft),
                Phase::Busy(_) => self.composer.put_back(draft),
                _ => self.submit(draft, now),
            }
        }
    }

    fn submit(&mut self, draft: Draft, now: Duration) {
        let prompt = draft.sent();
        match prompt.trim() {
            "" => self.phase = Phase::Idle,
            "/exit" | "/quit" => self.leave(0),
            _ => {
                let steps = match prompt.contains("RECALL") {
                    true => scenario::recall(&self.past, &self.options),
                    false => scenario::plan(&prompt, &self.options),
                };
                self.messages.push(Message::Prompt(prompt.clone()));
                self.past.push(prompt);
                self.answer = scenario::text(&steps);
                self.phase = Phase::Busy(Turn::new(draft, steps, self.size.cols, now));
                self.reading &= !self.options.stop_reading;
            }
        }
    }

    /// Returns true if the turn has to be continued later.
    fn take_outcome(&mut self, outcome: Outcome, now: Duration) -> bool {
        match outcome {
            Outcome::Continue => return false,
            Outcome::Draw => {}
            Outcome::Overwrite(updates) => {
                self.redraw();
                if let (Phase::Busy(turn), Some(last)) = (&mut self.phase, updates.last()) {
                    turn.overwritten(last.clone());
                }
                self.screen.overwrite(updates, &mut self.out);
            }
            Outcome::Ask { command } => self.ask(command, now),
            Outcome::Over => {
                self.phase = Phase::Idle;
                self.messages.push(Message::Answer(std::mem::take(&mut self.answer)));
                if let Some(draft) = self.queued.pop_front() {
                    self.submit(draft, now);
                }
            }
            Outcome::Exit { code, politely: true } => self.leave(code),
            Outcome::Exit { code, politely: false } => {
                self.redraw();
                self.phase = Phase::Gone(code);
            }
        }
        true
    }

    fn ask(&mut self, command: String, now: Duration) {
        let Phase::Busy(mut turn) = std::mem::replace(&mut self.phase, Phase::Idle) else { return };
        if self.allow_all {
            turn.granted(self.options.delay, now, self.size.cols);
            self.phase = Phase::Busy(turn);
        } else {
            let question = Question::Permission { command, folder: self.folder.clone() };
            self.phase = Phase::Blocked(Dialog::new(question), turn, now + self.options.dialog_grace);
        }
    }

    fn answer_permission(&mut self, choice: Choice, now: Duration) {
        let Phase::Blocked(_, mut turn, _) = std::mem::replace(&mut self.phase, Phase::Idle) else { return };
        match choice {
            Choice::Option(0..=2) => {
                self.allow_all |= choice != Choice::Option(0);
                turn.granted(self.options.delay, now, self.size.cols);
                self.phase = Phase::Busy(turn);
            }
            Choice::Option(_) | Choice::Cancel => turn.rejected(&mut self.settled),
        }
    }

    fn answer_start(&mut self, choice: Choice) {
        let Phase::Starting(mut dialogs) = std::mem::replace(&mut self.phase, Phase::Idle) else { return };
        let question = dialogs.pop_front().map(|dialog| dialog.question);
        let is_trust = matches!(question, Some(Question::Trust { .. }));
        if choice == Choice::Cancel || (is_trust && choice == Choice::Option(0)) {
            self.leave(1);
        } else {
            self.ask_or_begin(dialogs);
        }
    }

    fn interrupt(&mut self) {
        let Phase::Busy(turn) = std::mem::replace(&mut self.phase, Phase::Idle) else { return };
        for draft in self.queued.drain(..).rev() {
            self.composer.put_back(draft);
        }
        if let Some(prompt) = turn.interrupted(&mut self.settled) {
            self.composer.put_back(prompt);
        }
    }

    fn interrupt_idle(&mut self, hinted: bool) {
        if !self.composer.is_empty() {
            self.composer.clear();
        } else if hinted {
            self.leave(0);
        } else {
            self.exit_hint = true;
        }
    }

    /// Restores the terminal and ends.
    fn leave(&mut self, code: i32) {
        self.redraw();
        self.screen.finish(&mut self.out);
        self.out.extend_from_slice(b"\x1b[?2004l");
        if self.options.title {
            self.out.extend_from_slice(b"\x1b]0;\x07");
        }
        self.phase = Phase::Gone(code);
    }

    fn redraw(&mut self) {
        if matches!(self.phase, Phase::Gone(_)) {
            return;
        }
        self.set_title();
        let (bottom, cursor) = self.bottom();
        let pending = match &self.phase {
            Phase::Busy(turn) | Phase::Blocked(_, turn, _) => turn.pending.clone(),
            _ => Vec::new(),
        };
        let frame = Frame { settled: std::mem::take(&mut self.settled), pending, bottom, cursor };
        self.screen.draw(frame, &mut self.out);
    }

    fn set_title(&mut self) {
        let title = match self.phase {
            Phase::Busy(_) => "◐ Mock Agent",
            _ => "✳ Mock Agent",
        };
        if self.options.title && title != self.title {
            self.out.extend_from_slice(format!("\x1b]0;{title}\x07").as_bytes());
            self.title = title;
        }
    }

    fn bottom(&self) -> (Vec<Line>, (usize, usize)) {
        let dialog = match &self.phase {
            Phase::Starting(dialogs) => dialogs.front(),
            Phase::Blocked(dialog, ..) => Some(dialog),
            Phase::Mute => return (vec![Line::grey("Starting…")], (0, 0)),
            _ => None,
        };
        if let Some(dialog) = dialog {
            let lines = dialog.lines(self.size.cols);
            let cursor = (lines.len() - 1, 0);
            return (lines, cursor);
        }
        let mut lines = vec![Line::blank()];
        lines.extend(self.spinner());
        lines.push(Line::rule('─', self.size.cols));
        let (composer, (row, column)) = self.composer.lines(self.size.cols, (self.size.rows / 2).max(1));
        let cursor = (lines.len() + row, column);
        lines.extend(composer);
        lines.push(Line::rule('─', self.size.cols));
        lines.push(Line::grey(self.footer()));
        (lines, cursor)
    }

    fn spinner(&self) -> Vec<Line> {
        let Phase::Busy(turn) = &self.phase else { return Vec::new() };
        let queued = self.queued.iter().map(|draft| {
            let shown = draft.shown().replace('\n', " ");
            Line::grey(&format!("  {}", shown.chars().take(self.size.cols / 2).collect::<String>()))
        });
        let spinner = turn.spinner.map(|text| {
            let line = Line::default().put(Style::Accent, "✶ Pondering…");
            let line = if text.is_empty() { line } else { line.put(Style::Grey, &format!(" ({text})")) };
            [line, Line::blank()]
        });
        spinner.into_iter().flatten().chain(queued).collect()
    }

    fn footer(&self) -> &'static str {
        match &self.phase {
            Phase::Busy(_) => "  ⏸ manual mode on · esc to interrupt",
            _ if self.exit_hint => "  Press Ctrl-C again to exit",
            _ if self.composer.has_chip() => "  paste again to expand",
            _ if !self.composer.is_empty() => "  ⏸ manual mode on",
            _ => "  ⏸ manual mode on · ? for shortcuts",
        }
    }
}
