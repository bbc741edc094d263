//! Detects text that is written over other text of its row, as by a prompt after a carriage return.

use std::ops::Range;

use alacritty_terminal::term::cell::Cell;

/// The text written last on the main screen, and the line where it covers other text.
#[derive(Debug, Default)]
pub(super) struct Overprint {
    run: Option<TextRun>,
    covered: Option<CoveredLine>,
}

/// Text written in one line from left to right.
#[derive(Debug)]
struct TextRun {
    line: u64,
    cols: Range<usize>,
    covers_text: bool,
}

#[derive(Debug, Clone, Copy)]
struct CoveredLine {
    line: u64,
    /// A mark and blanks up to the last column cover the text: a shell is about to write its prompt there.
    is_filled: bool,
}

impl Overprint {
    /// Returns the line where text was written over other text and not replaced since.
    pub(super) fn covered_line(&self) -> Option<u64> {
        self.covered.map(|covered| covered.line)
    }

    /// Ends the run: further text in its line is not a part of it.
    pub(super) fn end_run(&mut self) {
        self.run = None;
    }

    /// Adds text to the run, or begins another one.
    #[inline]
    pub(super) fn add_text(&mut self, line: u64, cols: Range<usize>) {
        match &mut self.run {
            Some(run) if run.line == line && run.cols.end <= cols.start => run.cols.end = cols.end,
            _ => {
                self.run = Some(TextRun { line, cols, covers_text: false });
                self.covered = self.covered.filter(|covered| covered.is_filled || covered.line != line);
            }
        }
    }

    /// Compares characters that are about to be written to a row, from column `col` on, with the text there.
    pub(super) fn compare_text(
        &mut self,
        cells: &[Cell],
        col: usize,
        mut chars: impl Iterator<Item = char> + Clone,
    ) {
        let Some(run) = &mut self.run else { return };
        let mut pairs = cells[col..].iter().zip(chars.clone());
        run.covers_text |= pairs.any(|(cell, c)| cell.c != ' ' && cell.c != c);
        if !run.covers_text {
            return;
        }
        // zsh (PROMPT_SP) and fish end each output so: after an incomplete line, the blanks wrap into the next row.
        let is_filled = run.cols.end >= cells.len()
            && cells[run.cols.start].c != ' '
            && cells[..col].iter().skip(run.cols.start + 1).all(|cell| cell.c == ' ')
            && chars.all(|c| c == ' ');
        let was_filled = self.covered.is_some_and(|covered| covered.is_filled && covered.line == run.line);
        self.covered = Some(CoveredLine { line: run.line, is_filled: is_filled || was_filled });
    }
}
