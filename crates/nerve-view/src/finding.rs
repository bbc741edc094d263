//! Looking for text in a window: what is typed, what was found, which match of how many.

use std::ops::Range;

use crate::document::Document;
use crate::keys::{Code, Key};
use crate::pager::Pager;
use crate::search::{Count, Direction, Hunt, Pattern, Step};
use crate::viewport::Viewport;

/// Lines that are looked through between two keys.
pub const BUDGET: u64 = 20_000;
/// The longest text that is looked for, in characters.
const PATTERN: usize = 1000;
/// How many matches further one key goes.
const FURTHER: i64 = 1000;

/// Text to look for, as it is typed.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    /// Where to look.
    pub(crate) direction: Direction,
    /// What was typed so far.
    pub(crate) text: String,
    /// Where the window stood before.
    origin: Viewport,
    /// What was looked for before.
    last: Option<Search>,
}

/// A look for text that is under way, or what came of it.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    pattern: Pattern,
    direction: Direction,
    hunt: Option<Hunt>,
    /// Matches still to go on, and which way.
    further: (i64, Direction),
    /// The line of the match that was gone to.
    pub(crate) found: Option<u64>,
    /// The matches in lines that nothing can change any more, and with those that can.
    settled: Option<Count>,
    count: Option<Count>,
    counted: bool,
}

impl Prompt {
    /// Lines have other numbers.
    pub(crate) fn renumber(&mut self, by: i64) {
        self.origin.renumber(by);
        self.last.iter_mut().for_each(|last| last.renumber(by));
    }
}

impl Search {
    /// Lines have other numbers. What is under way is given up: there are others to look through.
    pub(crate) fn renumber(&mut self, by: i64) {
        self.found = self.found.map(|line| line.saturating_add_signed(by));
        (self.hunt, self.settled, self.count, self.counted) = (None, None, None, false);
    }

    /// Counts from here on.
    fn begin_count(&mut self, count: Count) {
        (self.settled, self.count, self.counted) = (Some(count.clone()), Some(count), false);
    }

    /// Counts in as many lines as there is time for; true while there are lines left. Where the first lines were forgotten it begins anew, and
    /// lines that can still change are counted each time.
    fn go_on_counting(&mut self, document: &Document<'_>) -> bool {
        let (lines, text) = (document.lines(), |line| document.text(line));
        let Some(settled) = &mut self.settled else { return false };
        if settled.start() != lines.start {
            *settled = Count::new(&lines, self.found);
            self.counted = false;
        }
        let changeless = lines.start..document.settled_end().clamp(lines.start, lines.end);
        let has_more = settled.step(&self.pattern, &changeless, BUDGET, text);
        let mut count = settled.clone();
        if !has_more {
            count.step(&self.pattern, &lines, u64::MAX, text);
        }
        self.count = Some(count);
        self.counted = !has_more;
        has_more
    }
}

impl Pager {
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

    /// A text is to be typed.
    pub(crate) fn type_text(&mut self, direction: Direction) {
        self.going();
        let (origin, last) = (self.viewport.clone(), self.search.take());
        self.prompt = Some(Prompt { direction, text: String::new(), origin, last });
    }

    /// Takes a key for the text; true if it asks for help: an empty text looked for upwards, with nothing looked for before.
    pub(crate) fn typed(&mut self, key: Key, document: &Document<'_>) -> bool {
        let Some(prompt) = &mut self.prompt else { return false };
        match key.code {
            Code::Esc => self.give_up(),
            Code::Char('c' | 'g') if key.ctrl => self.give_up(),
            Code::Char('m' | 'j') if key.ctrl => return self.enter(document),
            Code::Enter => return self.enter(document),
            Code::Backspace if prompt.text.is_empty() => self.give_up(),
            Code::Backspace => {
                prompt.text.pop();
                self.look_from_origin(document);
            }
            Code::Char('h') if key.ctrl => {
                prompt.text.pop();
                self.look_from_origin(document);
            }
            Code::Char('u') if key.ctrl => {
                prompt.text.clear();
                self.look_from_origin(document);
            }
            Code::Char(char) if !key.ctrl && !key.alt => self.typed_text(&char.to_string(), document),
            _ => {}
        }
        false
    }

    /// Takes more of the text: its first line.
    pub(crate) fn typed_text(&mut self, more: &str, document: &Document<'_>) {
        let Some(prompt) = &mut self.prompt else { return };
        let room = PATTERN.saturating_sub(prompt.text.chars().count());
        let line = more.lines().next().unwrap_or_default();
        prompt.text.extend(line.chars().filter(|char| !char.is_control()).take(room));
        self.look_from_origin(document);
    }

    /// Always from where it began: what is typed wrong and taken back leads back.
    fn look_from_origin(&mut self, document: &Document<'_>) {
        let Some(prompt) = &self.prompt else { return };
        let (direction, pattern) = (prompt.direction, Pattern::new(&prompt.text));
        self.viewport.go_back(&prompt.origin);
        self.viewport.set_lines(document.lines());
        self.look_for(pattern, direction, document);
    }

    fn give_up(&mut self) {
        self.search = None;
        if let Some(prompt) = self.prompt.take() {
            self.viewport.go_back(&prompt.origin);
        }
    }

    fn enter(&mut self, document: &Document<'_>) -> bool {
        let Some(Prompt { direction, text, last, .. }) = self.prompt.take() else { return false };
        if text.is_empty() {
            // As in less: the last one once more, this way now.
            let Some(search) = last else { return direction == Direction::Up };
            self.search = Some(Search { direction, ..search });
            self.again(false, 1, document);
        } else if self.search.as_ref().is_some_and(|search| search.counted && search.found.is_none()) {
            self.message = Some(nowhere(&text));
        }
        false
    }

    fn look_for(&mut self, pattern: Option<Pattern>, direction: Direction, document: &Document<'_>) {
        let Some(pattern) = pattern else {
            self.search = None;
            return;
        };
        // From where one is: what is in the window is seen whichever way it is looked through.
        let from = match direction {
            Direction::Down => self.viewport.top_line(),
            Direction::Up => self.last_line().unwrap_or_else(|| self.viewport.top_line()),
        };
        let hunt = Some(Hunt::new(direction, from, &document.lines()));
        let further = (0, direction);
        let (found, settled, count) = (None, None, None);
        self.search =
            Some(Search { pattern, direction, hunt, further, found, settled, count, counted: false });
        self.work(document);
    }

    /// The next match, or with `other_way` the one before; `times` of them.
    pub(crate) fn again(&mut self, other_way: bool, times: i64, document: &Document<'_>) {
        self.going();
        let from = self.here();
        let Some(search) = &mut self.search else {
            self.tell("nothing was looked for yet");
            return;
        };
        let direction = if other_way { search.direction.turned() } else { search.direction };
        search.further = (times.clamp(1, FURTHER) - 1, direction);
        search.go_on(from, direction, &document.lines());
        self.work(document);
    }

    /// Goes on with what takes long, a bounded piece of it; true while there is more to do.
    pub(crate) fn work(&mut self, document: &Document<'_>) -> bool {
        let lines = document.lines();
        let Some(search) = &mut self.search else { return false };
        let Some(hunt) = &mut search.hunt else {
            return search.go_on_counting(document);
        };
        match hunt.step(&search.pattern, &lines, BUDGET, |line| document.text(line)) {
            Step::More => {}
            Step::Found { line, wrapped } => {
                search.hunt = None;
                search.found = Some(line);
                let (further, direction) = search.further;
                if further > 0 {
                    search.further.0 -= 1;
                    search.go_on(line, direction, &lines);
                } else {
                    search.begin_count(Count::new(&lines, Some(line)));
                    self.viewport.show(line);
                    self.show_columns(line, document);
                }
                if wrapped {
                    self.tell("around the end");
                }
            }
            Step::Nowhere => {
                let message = nowhere(search.pattern.text());
                (search.hunt, search.found) = (None, None);
                let end = document.settled_end().clamp(lines.start, lines.end);
                search.begin_count(Count::none(lines.start, end));
                search.counted = true;
                self.message = Some(message);
                return false;
            }
        }
        true
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

impl Search {
    /// Hunts on from a line: behind it, if it is the one that was found last.
    fn go_on(&mut self, from: u64, direction: Direction, lines: &Range<u64>) {
        let next = match (self.found, direction) {
            (None, _) => from,
            (Some(_), Direction::Down) if from + 1 < lines.end => from + 1,
            (Some(_), Direction::Up) if from > lines.start => from - 1,
            (Some(_), Direction::Down) => lines.start,
            (Some(_), Direction::Up) => lines.end.saturating_sub(1),
        };
        self.hunt = Some(Hunt::new(direction, next, lines));
    }
}

fn nowhere(text: &str) -> String {
    let shown: String = text.chars().take(40).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("'{shown}{more}' is nowhere")
}
