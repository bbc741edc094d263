//! The viewer's state: keys and a changed document in, what is to be shown out. It does nothing to the terminal it shows and reads no clock.

use std::ops::Range;
use std::time::Duration;

use nerve_term::keys::Input;

use crate::bindings::Bindings;
use crate::document::Document;
use crate::keys::{Code, Key, Operation};
use crate::search::{Count, Direction, Hunt, Pattern, Step};
use crate::viewport::Viewport;

/// Lines that are looked through between two keys.
pub const BUDGET: u64 = 20_000;
/// The longest text that is looked for, in characters.
const PATTERN: usize = 1000;
/// The largest number that is typed before a key.
const NUMBER: u64 = 1_000_000_000_000;

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A program that runs: keys are for it.
    Live,
    /// A recording.
    After,
}

/// An instruction for a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// The snapshot to branch from; `None` for the end of a recording that has none there.
    pub snapshot: Option<u64>,
    /// The line it is shown at.
    pub line: u64,
    /// What to tell the agent.
    pub text: String,
}

/// What somebody wants that the viewer itself cannot do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Leave.
    Quit,
    /// Leave a program that goes on.
    Detach,
    /// End the program.
    End,
    /// Something for the program.
    Input(Input),
    /// Something for the tool that is shown.
    ToTool(Input),
    /// Show this tool.
    Tool(String),
    /// This one is not to be listed any more.
    Dismiss(String),
    /// A text for the clipboard.
    Copy(String),
    /// Branch.
    Branch(Submission),
    /// To this moment of the recording.
    Seek(Duration),
    /// Play on, or stop.
    Play,
    /// So many seconds on in time; back, if negative.
    Skip(i64),
    /// Twice as fast, or half as fast.
    Speed {
        /// Which of both.
        faster: bool,
    },
}

/// What keys mean at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// What their bindings say.
    Scrolling,
    /// Text to look for is being typed.
    Typing {
        /// Where to look.
        direction: Direction,
        /// What was typed so far.
        text: String,
    },
    /// The help sheet is shown, from this row of it on.
    Help(u16),
}

/// A look for text that is under way, or what came of it.
#[derive(Debug, Clone)]
struct Search {
    pattern: Pattern,
    direction: Direction,
    hunt: Option<Hunt>,
    /// The line of the match that was gone to.
    found: Option<u64>,
    count: Option<Count>,
    counted: bool,
}

/// The viewer.
#[derive(Debug, Clone)]
pub struct Viewer {
    bindings: Bindings,
    viewport: Viewport,
    /// The column at the window's left.
    left: u16,
    /// Columns of the window.
    cols: u16,
    mode: Mode,
    /// A number typed before a key.
    number: Option<u64>,
    /// Esc was pressed once.
    leaving: bool,
    search: Option<Search>,
    /// Where the window stood before a text was typed.
    origin: Viewport,
    message: Option<String>,
}

impl Viewer {
    /// On nothing yet.
    pub fn new(bindings: Bindings) -> Viewer {
        let viewport = Viewport::new(1);
        Viewer {
            bindings,
            origin: viewport.clone(),
            viewport,
            left: 0,
            cols: 1,
            mode: Mode::Scrolling,
            number: None,
            leaving: false,
            search: None,
            message: None,
        }
    }

    /// The window's size, in what is left for lines.
    pub fn resize(&mut self, cols: u16, rows: u16) {
        self.cols = cols.max(1);
        self.viewport.set_rows(rows);
    }

    /// The document has changed.
    pub fn sees(&mut self, document: &Document<'_>) {
        self.viewport.set_lines(document.lines());
        self.left = self.left.min(self.furthest(document));
    }

    /// Which lines are in the window.
    pub fn viewport(&self) -> &Viewport {
        &self.viewport
    }

    /// The column at the window's left, 0-based.
    pub fn left(&self) -> u16 {
        self.left
    }

    /// What keys mean at the moment.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// Which key does what.
    pub fn bindings(&self) -> &Bindings {
        &self.bindings
    }

    /// Something to be told, until the next key.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// What is looked for, to be lit.
    pub fn pattern(&self) -> Option<&Pattern> {
        self.search.as_ref().map(|search| &search.pattern)
    }

    /// The line of the match that was gone to.
    pub fn found(&self) -> Option<u64> {
        self.search.as_ref()?.found
    }

    /// The place of the match among all, 1-based if it is known already, and how many there are if all are counted.
    pub fn matches(&self) -> Option<(Option<u64>, Option<u64>)> {
        let search = self.search.as_ref()?;
        let count = search.count.as_ref()?;
        Some((count.place(), search.counted.then(|| count.total())))
    }

    // ---- Keys ----

    /// Takes a key.
    pub fn key(&mut self, key: Key, document: &Document<'_>) -> Option<Asked> {
        self.message = None;
        let leaving = std::mem::take(&mut self.leaving);
        match &self.mode {
            Mode::Typing { .. } => {
                self.typed(key, document);
                None
            }
            Mode::Help(_) => {
                self.leafed(key);
                None
            }
            Mode::Scrolling => self.bound(key, leaving, document),
        }
    }

    fn bound(&mut self, key: Key, leaving: bool, document: &Document<'_>) -> Option<Asked> {
        if key == Key::plain(Code::Esc) {
            if leaving {
                return Some(Asked::Quit);
            }
            self.leaving = true;
            self.number = None;
            self.search = None;
            self.message = Some("Esc once more to leave".to_string());
            return None;
        }
        if let Code::Char(digit @ '0'..='9') = key.code
            && !key.ctrl
            && !key.alt
        {
            let digit = u64::from(digit) - u64::from('0');
            self.number = Some((self.number.unwrap_or(0) * 10 + digit).min(NUMBER));
            return None;
        }
        let number = self.number.take();
        let operation = self.bindings.operation(key)?;
        self.operate(operation, number, document)
    }

    fn operate(
        &mut self,
        operation: Operation,
        number: Option<u64>,
        document: &Document<'_>,
    ) -> Option<Asked> {
        let rows = i64::from(self.viewport.height());
        let times = i64::try_from(number.unwrap_or(1)).unwrap_or(i64::MAX);
        let lines = |of: i64| of.max(1).saturating_mul(times);
        match operation {
            Operation::LineDown => self.viewport.scroll(lines(1)),
            Operation::LineUp => self.viewport.scroll(-lines(1)),
            Operation::HalfDown => self.viewport.scroll(lines(rows / 2)),
            Operation::HalfUp => self.viewport.scroll(-lines(rows / 2)),
            Operation::PageDown => self.viewport.scroll(lines(rows)),
            Operation::PageUp => self.viewport.scroll(-lines(rows)),
            Operation::Start | Operation::End => match (number, operation) {
                (Some(number), _) => self.viewport.go_to_line(self.numbered(number)),
                (None, Operation::Start) => self.viewport.go_to_start(),
                (None, _) => self.viewport.go_to_end(),
            },
            Operation::Follow => self.viewport.go_to_end(),
            Operation::Right => {
                let half = (self.cols / 2).max(1);
                self.left = self.left.saturating_add(half).min(self.furthest(document));
            }
            Operation::Left => self.left = self.left.saturating_sub((self.cols / 2).max(1)),
            Operation::SearchDown => self.type_text(Direction::Down),
            Operation::SearchUp => self.type_text(Direction::Up),
            Operation::Next => self.again(false, document),
            Operation::Previous => self.again(true, document),
            Operation::NextSnapshot => self.go_to_snapshot(Direction::Down, document),
            Operation::PreviousSnapshot => self.go_to_snapshot(Direction::Up, document),
            Operation::Help => self.mode = Mode::Help(0),
            Operation::Play => return self.in_time(Asked::Play),
            Operation::Back => return self.in_time(Asked::Skip(times.saturating_mul(-5))),
            Operation::On => return self.in_time(Asked::Skip(times.saturating_mul(5))),
            Operation::Faster => return Some(Asked::Speed { faster: true }),
            Operation::Slower => return Some(Asked::Speed { faster: false }),
            Operation::Quit => return Some(Asked::Quit),
        }
        None
    }

    /// Who goes through time wants to see what was written then: the end.
    fn in_time(&mut self, asked: Asked) -> Option<Asked> {
        self.viewport.go_to_end();
        Some(asked)
    }

    /// Turns the wheel: so many lines down; up, if negative.
    pub fn wheel(&mut self, lines: i64) {
        match &mut self.mode {
            Mode::Help(row) => *row = row.saturating_add_signed(i16::try_from(lines).unwrap_or(0)),
            _ => self.viewport.scroll(lines),
        }
    }

    /// The line that people call by this number: the first one ever is 1.
    fn numbered(&self, number: u64) -> u64 {
        number.saturating_sub(1).clamp(self.viewport.lines().start, self.viewport.lines().end)
    }

    /// The last column that can be at the window's left: what is right of it fills the window.
    fn furthest(&self, document: &Document<'_>) -> u16 {
        document.width().saturating_sub(self.cols)
    }

    fn go_to_snapshot(&mut self, direction: Direction, document: &Document<'_>) {
        let from = self.here();
        let found = match direction {
            Direction::Down => document.snapshot_after(from),
            Direction::Up => document.snapshot_before(from),
        };
        match found {
            Some(line) => self.go_to(line),
            None if document.snapshots() == 0 => self.tell("there are no snapshots"),
            None => self.tell(match direction {
                Direction::Down => "no snapshot below",
                Direction::Up => "no snapshot above",
            }),
        }
    }

    /// The line that steps from one thing to the next begin at: the one gone to as long as it is in the window, else the window's first.
    fn here(&self) -> u64 {
        let found = self.found().filter(|line| self.viewport.row_of(*line).is_some());
        found.unwrap_or_else(|| self.viewport.top_line())
    }

    fn go_to(&mut self, line: u64) {
        self.viewport.go_to_line(line);
        if let Some(search) = &mut self.search {
            search.found = None;
        }
    }

    fn tell(&mut self, message: &str) {
        self.message = Some(message.to_string());
    }

    fn leafed(&mut self, key: Key) {
        let Mode::Help(row) = &mut self.mode else { return };
        match self.bindings.operation(key) {
            Some(Operation::LineDown) => *row = row.saturating_add(1),
            Some(Operation::LineUp) => *row = row.saturating_sub(1),
            Some(Operation::PageDown | Operation::HalfDown) => {
                *row = row.saturating_add(self.viewport.height())
            }
            Some(Operation::PageUp | Operation::HalfUp) => *row = row.saturating_sub(self.viewport.height()),
            _ => self.mode = Mode::Scrolling,
        }
    }

    // ---- Searching ----

    fn type_text(&mut self, direction: Direction) {
        self.origin = self.viewport.clone();
        self.mode = Mode::Typing { direction, text: String::new() };
    }

    fn typed(&mut self, key: Key, document: &Document<'_>) {
        let Mode::Typing { direction, text } = &mut self.mode else { return };
        let direction = *direction;
        match key.code {
            Code::Esc => {
                self.stop_typing();
                return;
            }
            Code::Char('c' | 'g') if key.ctrl => {
                self.stop_typing();
                return;
            }
            Code::Enter => {
                self.enter(direction, document);
                return;
            }
            Code::Backspace if text.pop().is_none() => {
                self.stop_typing();
                return;
            }
            Code::Char('u') if key.ctrl => text.clear(),
            Code::Char(char) if !key.ctrl && !key.alt && text.chars().count() < PATTERN => text.push(char),
            Code::Backspace => {}
            _ => return,
        }
        // Always from where it began: what is typed wrong and taken back leads back.
        let text = text.clone();
        self.viewport = Viewport::clone(&self.origin);
        self.viewport.set_lines(document.lines());
        self.look_for(Pattern::new(&text), direction, document);
    }

    fn stop_typing(&mut self) {
        self.mode = Mode::Scrolling;
        self.search = None;
        let lines = self.viewport.lines();
        self.viewport = Viewport::clone(&self.origin);
        self.viewport.set_lines(lines);
    }

    fn enter(&mut self, direction: Direction, document: &Document<'_>) {
        let Mode::Typing { text, .. } = std::mem::replace(&mut self.mode, Mode::Scrolling) else { return };
        if text.is_empty() {
            match self.search.take() {
                // As in less: the last one once more, this way now.
                Some(search) => {
                    self.search = Some(Search { direction, ..search });
                    self.again(false, document);
                }
                None if direction == Direction::Up => self.mode = Mode::Help(0),
                None => {}
            }
        } else if self.search.as_ref().is_some_and(|search| search.counted && search.found.is_none()) {
            self.message = Some(nowhere(&text));
        }
    }

    fn look_for(&mut self, pattern: Option<Pattern>, direction: Direction, document: &Document<'_>) {
        let Some(pattern) = pattern else {
            self.search = None;
            return;
        };
        let hunt = Some(Hunt::new(direction, self.viewport.top_line(), &document.lines()));
        self.search = Some(Search { pattern, direction, hunt, found: None, count: None, counted: false });
        self.work(document);
    }

    /// The next match, or with `other_way` the one before.
    fn again(&mut self, other_way: bool, document: &Document<'_>) {
        let (from, lines) = (self.here(), document.lines());
        let Some(search) = &mut self.search else {
            self.tell("nothing was looked for yet");
            return;
        };
        let direction = if other_way { search.direction.turned() } else { search.direction };
        let next = match (search.found, direction) {
            (None, _) => from,
            (Some(_), Direction::Down) if from + 1 < lines.end => from + 1,
            (Some(_), Direction::Up) if from > lines.start => from - 1,
            (Some(_), Direction::Down) => lines.start,
            (Some(_), Direction::Up) => lines.end.saturating_sub(1),
        };
        search.hunt = Some(Hunt::new(direction, next, &lines));
        self.work(document);
    }

    /// Goes on with what takes long, a bounded piece of it; true while there is more to do.
    pub fn work(&mut self, document: &Document<'_>) -> bool {
        let lines = document.lines();
        let Some(search) = &mut self.search else { return false };
        if let Some(hunt) = &mut search.hunt {
            match hunt.step(&search.pattern, &lines, BUDGET, |line| document.text(line)) {
                Step::More => return true,
                Step::Found { line, wrapped } => {
                    search.hunt = None;
                    search.found = Some(line);
                    (search.count, search.counted) = (Some(Count::new(&lines, Some(line))), false);
                    self.viewport.show(line);
                    self.show_columns(line, document);
                    if wrapped {
                        self.tell("around the end");
                    }
                }
                Step::Nowhere => {
                    let message = nowhere(search.pattern.text());
                    (search.hunt, search.found) = (None, None);
                    (search.count, search.counted) = (Some(Count::new(&(0..0), None)), true);
                    self.message = Some(message);
                    return false;
                }
            }
            return true;
        }
        match &mut search.count {
            Some(count) if !search.counted => {
                search.counted = !count.step(&search.pattern, &lines, BUDGET, |line| document.text(line));
                !search.counted
            }
            _ => false,
        }
    }

    /// Moves the window sideways if a line's first match is not in it.
    fn show_columns(&mut self, line: u64, document: &Document<'_>) {
        let Some(pattern) = self.pattern() else { return };
        let Some(text) = document.text(line) else { return };
        let Some(Range { start, end }) = pattern.columns(&text).into_iter().next() else { return };
        if start < self.left || end > self.left.saturating_add(self.cols) {
            self.left = start.saturating_sub(self.cols / 4).min(self.furthest(document));
        }
    }
}

fn nowhere(text: &str) -> String {
    let shown: String = text.chars().take(40).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("'{shown}{more}' is nowhere")
}
