//! Shell integration marks (OSC 133).

use nerve_vt::terminal::{Mark, MarkKind};

/// The latest marks of each kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks {
    pub(super) last: Option<Mark>,
    pub(super) prompt: Option<Mark>,
    pub(super) output: Option<Mark>,
    /// After `output`, the shell drew a prompt and ran another command.
    pub(super) has_later_prompt: bool,
    pub(super) end: Option<Mark>,
}

impl Marks {
    /// Records a mark. With `keeps_output`, an earlier start of output stays the latest one.
    pub(super) fn record(&mut self, mark: &Mark, keeps_output: bool) {
        match mark.kind {
            MarkKind::OutputStart if keeps_output => {
                let first = self.output.as_ref().map(|mark| mark.offset);
                self.has_later_prompt |= self.prompt.as_ref().map(|mark| mark.offset) > first;
            }
            MarkKind::OutputStart => {
                self.has_later_prompt = false;
                self.output = Some(mark.clone());
            }
            MarkKind::CommandEnd(_) => self.end = Some(mark.clone()),
            MarkKind::PromptStart => self.prompt = Some(mark.clone()),
            MarkKind::CommandStart | MarkKind::Continuation => {}
        }
        self.last = Some(mark.clone());
    }

    /// Returns true if a command started its output after `offset`.
    pub(super) fn has_output_after(&self, offset: u64) -> bool {
        self.output.as_ref().is_some_and(|mark| mark.offset > offset)
    }

    /// Returns true if the shell marks its prompts or the ends of its commands, not only their beginning.
    pub(super) fn marks_prompts(&self) -> bool {
        self.prompt.is_some() || self.end.is_some()
    }
}
