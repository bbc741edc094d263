//! Looking for text in a window: what was found, which match of how many.

use std::ops::Range;

use crate::document::Document;
use crate::filter::Filter;
use crate::pager::Pager;
use crate::search::{Count, Direction, Hunt, Pattern, Step};

/// Lines that are looked through between two keys.
pub const BUDGET: u64 = 20_000;
/// How many matches further one key goes.
pub(crate) const FURTHER: i64 = 1000;

/// A look for text that is under way, or what came of it.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    pub(crate) pattern: Pattern,
    /// Its matches are lit.
    is_lit: bool,
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

impl Search {
    /// Lines have other numbers. What is under way is given up: there are others to look through.
    pub(crate) fn renumber(&mut self, by: i64) {
        self.found = self.found.map(|line| line.saturating_add_signed(by));
        self.recount();
    }

    /// Other lines are to be looked through.
    pub(crate) fn recount(&mut self) {
        (self.hunt, self.settled, self.count, self.counted) = (None, None, None, false);
    }

    /// The same for what was looked for before, this way.
    pub(crate) fn towards(self, direction: Direction) -> Search {
        Search { direction, ..self }
    }

    /// That line has it, and is gone to.
    pub(crate) fn go_to(&mut self, line: u64) {
        (self.is_lit, self.found) = (true, Some(line));
        self.recount();
    }

    /// It was looked for everywhere, and is not there.
    pub(crate) fn is_nowhere(&self) -> bool {
        self.hunt.is_none() && self.counted && self.count.as_ref().is_none_or(|count| count.total() == 0)
    }

    /// Counts from here on.
    fn begin_count(&mut self, count: Count) {
        (self.settled, self.count, self.counted) = (Some(count.clone()), Some(count), false);
    }

    /// Counts in as many lines as there is time for; true while there are lines left. Where the first lines were forgotten it begins anew, and
    /// lines that can still change are counted each time. At an earlier moment of a recording, where fewer lines cannot, it begins anew too.
    fn go_on_counting(&mut self, document: &Document<'_>, filter: Option<&Filter>) -> bool {
        let (lines, text) = (document.lines(), |line| text(document, filter, line));
        let changeless = lines.start..document.settled_end().clamp(lines.start, lines.end);
        let settled = self.settled.get_or_insert_with(|| Count::new(&lines, self.found));
        if settled.start() != lines.start || settled.next() > changeless.end {
            *settled = Count::new(&lines, self.found);
            self.counted = false;
        }
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
        self.lit().map(|search| &search.pattern)
    }

    /// What is looked for, unless its matches are not to be seen.
    fn lit(&self) -> Option<&Search> {
        self.search.as_ref().filter(|search| search.is_lit)
    }

    /// The line of the match that was gone to.
    pub fn found(&self) -> Option<u64> {
        self.lit()?.found
    }

    /// The place of the match among all, 1-based if it is known already, and how many there are if all are counted.
    pub fn matches(&self) -> Option<(Option<u64>, Option<u64>)> {
        let search = self.lit()?;
        let count = search.count.as_ref()?;
        Some((count.place(), search.counted.then(|| count.total())))
    }

    /// Matches are not lit any more; they are when they are gone to again, or with `turns` now if they are not.
    pub(crate) fn unlight(&mut self, turns: bool) {
        if let Some(search) = &mut self.search {
            search.is_lit = turns && !search.is_lit;
            search.found = None;
        }
    }

    /// Other lines are shown, of another moment: none of them was gone to, and their matches are to be counted.
    pub(crate) fn forget_found(&mut self) {
        if let Some(search) = &mut self.search {
            search.found = None;
            search.recount();
        }
    }

    pub(crate) fn look_for(&mut self, direction: Direction, document: &Document<'_>) {
        let Some(prompt) = &self.prompt else { return };
        let Some(pattern) = prompt.pattern() else {
            self.search = None;
            return;
        };
        let lines = document.lines();
        // From where one is: what is in the window is seen whichever way it is looked through.
        let from = match (direction, prompt.from_far) {
            (Direction::Down, true) => lines.start,
            (Direction::Up, true) => lines.end,
            (Direction::Down, false) => self.viewport.top_line(),
            (Direction::Up, false) => self.last_line().unwrap_or_else(|| self.viewport.top_line()),
        };
        let hunt = (!prompt.keeps).then(|| Hunt::new(direction, from, &lines));
        let further = (prompt.times - 1, direction);
        let mut search = Search {
            pattern,
            is_lit: true,
            direction,
            hunt,
            further,
            found: None,
            settled: None,
            count: None,
            counted: false,
        };
        if prompt.keeps {
            search.begin_count(Count::new(&lines, None));
        }
        self.search = Some(search);
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
        search.is_lit = true;
        search.further = (times.clamp(1, FURTHER) - 1, direction);
        search.go_on(from, direction, &document.lines());
        self.work(document);
    }

    /// Goes on with what takes long, a bounded piece of it; true while there is more to do.
    pub(crate) fn work(&mut self, document: &Document<'_>) -> bool {
        if self.sift(document) {
            return true;
        }
        let lines = document.lines();
        let filter = self.filter.as_ref();
        let Some(search) = &mut self.search else { return false };
        let Some(hunt) = &mut search.hunt else {
            return search.go_on_counting(document, filter);
        };
        match hunt.step(&search.pattern, &lines, BUDGET, |line| text(document, filter, line)) {
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
                    // What is written meanwhile must not take it away. Who gives up what he types goes back to where he was, and along again.
                    self.viewport.stay();
                    self.show_columns(line, document);
                }
                if wrapped {
                    self.tell("around the end");
                }
            }
            Step::Nowhere => {
                let message = nowhere(&search.pattern);
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

/// The text of a line that is to be seen.
fn text(document: &Document<'_>, filter: Option<&Filter>, line: u64) -> Option<String> {
    document.text(line).filter(|text| filter.is_none_or(|filter| filter.lets_through(text)))
}

pub(crate) fn nowhere(pattern: &Pattern) -> String {
    let text = short(pattern.text());
    match pattern.fault() {
        None => format!("'{text}' is nowhere"),
        Some(fault) => format!("'{text}' is nowhere as it stands, and no regular expression: {fault}"),
    }
}

/// The begin of a text, for a sentence.
pub(crate) fn short(text: &str) -> String {
    let shown: String = text.chars().take(40).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown}{more}")
}
