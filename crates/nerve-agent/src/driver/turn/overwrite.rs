//! Detects that a line-based program erases its output, or writes above it.

use nerve_vt::terminal::MarkKind;

use crate::driver::Driver;

/// Loss of a line-based program's output. Later variants are more severe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Overwrite {
    /// The program erased this many rows, counted from the first row below the prompt. Rows beyond the wrapped echo are lost output.
    ErasedRows(u64),
    /// The program wrote text in the first row of the echo. It may have drawn its prompt again.
    Echo,
    /// The last row may be output, or a part of the program's prompt.
    AmbiguousRow,
    /// The program drew its next prompt over text in the last row of its output.
    LastRow,
    /// The program wrote text above its output, or erased a part of it.
    Output,
}

impl Driver {
    /// Records that the program erased the screen, which had text from `line` up to `end`. The turn's output begins at `line` or above it.
    pub(in crate::driver) fn on_screen_erased(&mut self, line: u64, end: u64) {
        let Some(start) = self.output_start() else { return };
        let Some(turn) = &mut self.turns.current else { return };
        let rows = end.saturating_sub(start);
        let is_output = turn.erased_line.is_some() && rows > 0;
        let loss = if is_output { Overwrite::Output } else { Overwrite::ErasedRows(rows) };
        turn.overwrite = turn.overwrite.max(Some(loss));
        turn.erased_line.get_or_insert(line);
    }

    /// Records that the program moved the cursor up and wrote text at `line`.
    pub(in crate::driver) fn on_redraw(&mut self, line: u64) {
        let Some(start) = self.output_start().filter(|start| line < *start) else { return };
        let is_marked = self.turns.current.as_ref().is_some_and(|turn| self.output_mark(turn).is_some());
        let Some(turn) = &mut self.turns.current else { return };
        let is_echo = !is_marked && turn.erased_line.is_none() && line + 1 == start;
        turn.overwrite = turn.overwrite.max(Some(if is_echo { Overwrite::Echo } else { Overwrite::Output }));
    }

    /// Records that the program's next prompt covers text in the row where its output ends.
    pub(in crate::driver) fn on_output_covered(&mut self) {
        if let (None, Some(turn)) = (&self.profile.composer, &mut self.turns.current) {
            turn.overwrite = turn.overwrite.max(Some(Overwrite::LastRow));
        }
    }

    /// Records that the last row of the output may be a part of the program's prompt.
    pub(super) fn on_ambiguous_row(&mut self) {
        if let Some(turn) = &mut self.turns.current {
            turn.overwrite = turn.overwrite.max(Some(Overwrite::AmbiguousRow));
        }
    }

    /// Returns the first line of the running turn's output. `None` unless a line-based program writes it, as far as marks show that.
    fn output_start(&self) -> Option<u64> {
        let turn = self.turns.current.as_ref().filter(|_| self.profile.composer.is_none())?;
        let last_mark = self.marks.last.as_ref().filter(|_| self.marks.marks_prompts());
        let is_output = last_mark.is_none_or(|mark| mark.kind == MarkKind::OutputStart);
        is_output.then(|| self.span_start(turn))
    }
}
