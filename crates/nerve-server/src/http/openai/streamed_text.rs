//! The part of an answer that was streamed, to find what is missing at the end. The parts come from the agent's screen, and the
//! complete answer usually from its own transcript.

use super::conversation::letters;

/// Maximum size of the letters that are kept, in bytes. A longer answer is not completed.
const MAX_LETTERS: usize = 4 << 20;
/// Number of letters at the end of an answer that must have been sent if its middle differs.
const END_LETTERS: usize = 40;

/// The text that was sent.
#[derive(Debug, Default)]
pub(super) struct StreamedText {
    /// Its letters and digits.
    letters: String,
    /// What follows the last of them.
    tail: String,
    is_cut: bool,
}

/// The part of the complete answer that was not sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rest<'a> {
    /// None.
    Nothing,
    /// It continues what was sent.
    Continuation(&'a str),
    /// It begins with a line of which another version was sent.
    Correction(&'a str),
}

impl StreamedText {
    /// Adds a part.
    pub(super) fn push(&mut self, part: &str) {
        match part.rfind(char::is_alphanumeric) {
            Some(at) => {
                let end = at + part[at..].chars().next().map_or(0, char::len_utf8);
                self.tail = part[end..].to_string();
            }
            None => self.tail.push_str(part),
        }
        self.is_cut |= self.letters.len() + part.len() > MAX_LETTERS || self.tail.len() > MAX_LETTERS;
        if self.is_cut {
            (self.letters, self.tail) = (String::new(), String::new());
        } else {
            self.letters.push_str(&letters(part));
        }
    }

    /// Returns the letters and digits that were sent; `None` if there are too many.
    pub(super) fn letters(&self) -> Option<&str> {
        (!self.is_cut).then_some(&*self.letters)
    }

    /// Returns what is missing of the complete answer.
    pub(super) fn rest<'a>(&self, text: &'a str) -> Rest<'a> {
        let text = text.trim_end();
        if self.is_cut || text.is_empty() {
            return Rest::Nothing;
        }
        let (mut sent, mut end) = (self.letters.chars(), 0);
        for (at, c) in text.char_indices().filter(|(_, c)| c.is_alphanumeric()) {
            match sent.next() {
                Some(same) if same == c => end = at + c.len_utf8(),
                Some(_) => return self.correction(text, at),
                None => {
                    return Rest::Continuation(text[end..].strip_prefix(&*self.tail).unwrap_or(&text[end..]));
                }
            }
        }
        match self.letters.is_empty() && self.tail.trim().is_empty() {
            true => Rest::Continuation(text),
            false => Rest::Nothing,
        }
    }

    /// Returns the answer from the line on that differs at `at`, unless its end was sent.
    fn correction<'a>(&self, text: &'a str, at: usize) -> Rest<'a> {
        let mut last: Vec<char> =
            text.chars().rev().filter(|c| c.is_alphanumeric()).take(END_LETTERS).collect();
        last.reverse();
        let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        match self.letters.ends_with(&last.into_iter().collect::<String>()) {
            true => Rest::Nothing,
            false => Rest::Correction(&text[line..]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest<'a>(parts: &[&str], text: &'a str) -> Rest<'a> {
        let mut sent = StreamedText::default();
        parts.iter().for_each(|part| sent.push(part));
        sent.rest(text)
    }

    #[test]
    fn missing_end_continues_the_answer() {
        assert_eq!(rest(&[], "Yes.\n"), Rest::Continuation("Yes."));
        assert_eq!(rest(&[], "…"), Rest::Continuation("…"));
        assert_eq!(
            rest(&["I will ", "look."], "I will look.\n\nIt is *one*."),
            Rest::Continuation("\n\nIt is *one*.")
        );
        assert_eq!(rest(&["I will look", ".", "\n\n"], "I will look.\n\nOne"), Rest::Continuation("One"));
        assert_eq!(rest(&["É"], "É é"), Rest::Continuation(" é"));
    }

    #[test]
    fn marks_alone_are_not_missing() {
        assert_eq!(rest(&["It is one"], "It is **one**.\n"), Rest::Nothing);
        assert_eq!(rest(&["It is one, or more"], "It is one"), Rest::Nothing);
        assert_eq!(rest(&["anything"], " \n"), Rest::Nothing);
    }

    #[test]
    fn line_that_differs_is_corrected_unless_the_end_was_sent() {
        assert_eq!(
            rest(&["I will look.\nBash(ls)"], "I will look.\nIt is one."),
            Rest::Correction("It is one.")
        );
        let end = "and so on to the very end of this rather long line of words.";
        assert_eq!(rest(&["See docs ", end], &format!("See [docs](http://x) {end}")), Rest::Nothing);
    }

    #[test]
    fn huge_answer_is_not_kept() {
        let mut sent = StreamedText::default();
        let part = "x".repeat(1 << 20);
        (0..5).for_each(|_| sent.push(&part));
        assert!(sent.letters.is_empty());
        assert_eq!(sent.rest("other"), Rest::Nothing);
    }
}
