//! Pieces of a paragraph, and the runs of `*`, `_` and `~` in it that form pairs (CommonMark, "delimiter run").

/// Marks of delimiter runs.
const MARKS: [char; 3] = ['*', '_', '~'];

/// A part of a text. Together the pieces are the HTML of the text.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Text, not yet escaped.
    Text(String),
    /// Content of an element `code`, not yet escaped.
    Code(String),
    /// Tags.
    Tags(String),
    /// An address in the text: its text and where it leads.
    Address(String, String),
    Run(Run),
}

/// A delimiter run. Tags replace its marks in pairs.
#[derive(Debug)]
pub(crate) struct Run {
    mark: char,
    /// Marks that are still text.
    count: usize,
    /// Marks that there were at first.
    len: usize,
    pub(crate) can_open: bool,
    pub(crate) can_close: bool,
    /// End tags before the marks, and start tags after them.
    ends: String,
    starts: String,
}

impl Run {
    /// Creates a run of `len` marks between two characters; `None` stands for the beginning or the end of the text.
    pub(crate) fn new(mark: char, len: usize, before: Option<char>, after: Option<char>) -> Run {
        let is_space = |c: Option<char>| c.is_none_or(char::is_whitespace);
        let is_punctuation = |c: Option<char>| c.is_some_and(|c| !c.is_alphanumeric() && !c.is_whitespace());
        let begins =
            !is_space(after) && (!is_punctuation(after) || is_space(before) || is_punctuation(before));
        let ends = !is_space(before) && (!is_punctuation(before) || is_space(after) || is_punctuation(after));
        let (can_open, can_close) = match mark {
            '_' => (begins && (!ends || is_punctuation(before)), ends && (!begins || is_punctuation(after))),
            _ => (begins, ends),
        };
        Run { mark, count: len, len, can_open, can_close, ends: String::new(), starts: String::new() }
    }

    /// Returns the element of a pair, and how many marks it replaces on each side.
    fn element(&self, closer: &Run) -> Option<(&'static str, usize)> {
        let is_third = |run: &Run| run.len.is_multiple_of(3);
        let is_ambiguous = (self.can_close || closer.can_open)
            && (self.len + closer.len).is_multiple_of(3)
            && !(is_third(self) && is_third(closer));
        match self.mark {
            mark if mark != closer.mark => None,
            '~' => (self.len == 2 && closer.len == 2).then_some(("del", 2)),
            _ if is_ambiguous => None,
            _ if self.count >= 2 && closer.count >= 2 => Some(("strong", 2)),
            _ => Some(("em", 1)),
        }
    }

    /// Returns the tags and the marks that are left.
    pub(crate) fn to_html(&self) -> String {
        format!("{}{}{}", self.ends, self.marks(), self.starts)
    }

    /// Returns the marks that are text.
    pub(crate) fn marks(&self) -> String {
        String::from(self.mark).repeat(self.count)
    }

    /// Returns the index of runs whose fruitless searches have the same reason.
    fn kind(&self) -> usize {
        let mark = MARKS.iter().position(|mark| *mark == self.mark).unwrap_or_default();
        (mark * 2 + usize::from(self.can_open)) * 3 + self.len % 3
    }
}

/// Finds the pairs among the runs of some pieces. The remaining runs are text then.
pub(crate) fn match_runs(pieces: &mut [Piece]) {
    let mut openers: Vec<usize> = Vec::new();
    // Below these pieces there is no opener for a kind of closer.
    let mut bottoms = [0; MARKS.len() * 2 * 3];
    for at in 0..pieces.len() {
        let (before, rest) = pieces.split_at_mut(at);
        let Some(Piece::Run(closer)) = rest.first_mut() else { continue };
        while closer.can_close && closer.count > 0 {
            let bottom = bottoms[closer.kind()];
            let candidates = openers.iter().enumerate().rev();
            let found =
                candidates.take_while(|(_, piece)| **piece >= bottom).find_map(
                    |(index, piece)| match &before[*piece] {
                        Piece::Run(opener) => opener.element(closer).map(|element| (index, *piece, element)),
                        _ => None,
                    },
                );
            let Some((index, piece, (element, count))) = found else {
                bottoms[closer.kind()] = at;
                break;
            };
            openers.truncate(index + 1);
            if let Piece::Run(opener) = &mut before[piece] {
                opener.count -= count;
                opener.starts.insert_str(0, &format!("<{element}>"));
                if opener.count == 0 {
                    openers.pop();
                }
            }
            closer.count -= count;
            closer.ends.push_str(&format!("</{element}>"));
        }
        if closer.can_open && closer.count > 0 {
            openers.push(at);
        }
    }
    for piece in pieces {
        if let Piece::Run(run) = piece {
            (run.can_open, run.can_close) = (false, false);
        }
    }
}
