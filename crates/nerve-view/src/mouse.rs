//! What the mouse does, by what is under it.

use ratatui::layout::Rect;

use crate::document::Document;
use crate::keys::{Button, Context, Input, Mouse, MouseAct, Wheel};
use crate::pager::Pager;
use crate::regions::{FrameContext, within};
use crate::task_entry::Target;
use crate::tools::Modal;
use crate::viewer::{Effect, PendingKey, Source, Viewer};
use crate::viewport::Row;

/// Lines that a step of the wheel moves.
const STEP: i64 = 3;

/// A button that is held, and who was pressed: all until it is let go is for him, wherever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    button: Button,
    by: Owner,
}

/// Whose a press of a button is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Program,
    Tool,
    Viewer,
}

impl Viewer {
    pub(crate) fn handle_mouse(&mut self, mouse: Mouse, frame: &FrameContext<'_>) -> Option<Effect> {
        if !matches!(mouse.what, MouseAct::Move(_) | MouseAct::Release(_)) {
            self.clear_transient_state();
            // A question that was clicked away from is not answered by what is typed next.
            self.pending = PendingKey::None;
        }
        if let Some(owner) = self.owner(mouse) {
            let shown = self.modal.as_ref().and_then(|modal| modal.shown.as_ref());
            return match (owner, shown, frame.tool) {
                (Owner::Program, ..) => {
                    drag_input(mouse, frame.regions.lines, &self.pager, frame.document).map(Effect::Input)
                }
                (Owner::Tool, Some(shown), Some(tool)) => {
                    drag_input(mouse, frame.regions.tool, &shown.pager, tool).map(Effect::ToolInput)
                }
                (Owner::Tool | Owner::Viewer, ..) => None,
            };
        }
        let asked = self.handle_free_mouse(mouse, frame);
        if let MouseAct::Press(button) = mouse.what {
            let by = match &asked {
                Some(Effect::Input(_)) => Owner::Program,
                Some(Effect::ToolInput(_)) => Owner::Tool,
                _ => Owner::Viewer,
            };
            self.held = Some(Held { button, by });
        }
        asked
    }

    /// Who has what is done while a button is held.
    fn owner(&mut self, mouse: Mouse) -> Option<Owner> {
        let Held { button, by } = self.held?;
        match mouse.what {
            MouseAct::Wheel(_) => None,
            MouseAct::Release(other) if other == button => {
                self.held = None;
                Some(by)
            }
            // It was let go where nobody was told.
            MouseAct::Move(None) => {
                self.held = None;
                None
            }
            MouseAct::Press(other) if other == button => {
                self.held = None;
                None
            }
            MouseAct::Press(_) | MouseAct::Release(_) | MouseAct::Move(Some(_)) => Some(by),
        }
    }

    /// While no button is held.
    fn handle_free_mouse(&mut self, mouse: Mouse, frame: &FrameContext<'_>) -> Option<Effect> {
        if self.help.is_some() {
            if let Some((_, lines)) = wheel(mouse) {
                self.scroll_lines(lines);
            }
            return None;
        }
        if self.modal.is_some() {
            return self.handle_modal_mouse(mouse, frame);
        }
        if let Some(input) = self.to_program_input(mouse, frame) {
            return Some(Effect::Input(input));
        }
        match mouse.what {
            MouseAct::Wheel(Wheel::Left) => self.pager.left = self.pager.left.saturating_sub(3),
            MouseAct::Wheel(Wheel::Right) => {
                let furthest = self.pager.max_left(frame.document);
                self.pager.left = self.pager.left.saturating_add(3).min(furthest);
            }
            MouseAct::Wheel(_) => self.scroll_lines(wheel(mouse)?.1),
            MouseAct::Press(Button::Left) if self.pager.prompt.is_none() => {
                return self.handle_click(mouse, frame);
            }
            _ => {}
        }
        None
    }

    /// The wheel was turned by so many lines.
    pub(crate) fn scroll_lines(&mut self, lines: i64) {
        if let Some(row) = &mut self.help {
            let by = i16::try_from(lines).unwrap_or(0);
            *row = (*row).min(self.max_help_row).saturating_add_signed(by).min(self.max_help_row);
            return;
        }
        if self.is_live && self.entry.target.is_none() {
            // Below a program's screen there is nothing.
            if lines >= 0 {
                return;
            }
            self.is_live = false;
        }
        self.pager.viewport.scroll(lines);
        // Who scrolls back down to a program that runs wants to type.
        let is_scrolling = self.context() == Context::Scroll && self.pager.prompt.is_none();
        if self.source == Source::Live && is_scrolling && lines > 0 && self.pager.viewport.is_at_end() {
            self.go_live();
        }
    }

    /// As the program has it that runs in the window, if it is for it: what is over its screen, if it asked for the mouse, and the wheel of a
    /// full-screen program, which is cursor keys for it.
    fn to_program_input(&self, mouse: Mouse, frame: &FrameContext<'_>) -> Option<Input> {
        if self.context() != Context::Live || self.pager.prompt.is_some() {
            return None;
        }
        let modes = frame.document.modes();
        let is_wheel = matches!(mouse.what, MouseAct::Wheel(_));
        if modes.mouse.is_none() && !(is_wheel && modes.alternate) {
            return None;
        }
        to_program_coordinates(mouse, frame.regions.lines, &self.pager, frame.document)
    }

    fn handle_click(&mut self, mouse: Mouse, frame: &FrameContext<'_>) -> Option<Effect> {
        let regions = &frame.regions;
        if let Some((col, _)) = within(regions.timeline, mouse.col, mouse.row) {
            return self.handle_timeline_click(col, frame);
        }
        let in_gutter = within(regions.gutter, mouse.col, mouse.row).map(|(_, row)| row);
        let in_lines = within(regions.lines, mouse.col, mouse.row);
        let row = in_gutter.or(in_lines.map(|(_, row)| row))?;
        let shown = self.pager.viewport.rows().nth(row.into())?;
        match (shown, in_lines) {
            // Within the border.
            (Row::Entry(inside), Some((col, _))) => {
                self.entry.click(inside.saturating_sub(1), col.saturating_sub(1));
            }
            (Row::Entry(_), None) => {}
            (Row::Line { number, .. }, _) => {
                // Who clicks at a window to type into it wants nothing else, unless there is a mark.
                let is_meant = in_gutter.is_some() || frame.document.has_snapshot(number);
                if self.context() != Context::Live || is_meant {
                    self.insert_at(number, frame);
                }
            }
            (Row::Blank, _) if self.context() != Context::Live => {
                if let Some(line) = self.pager.last_line() {
                    self.insert_at(line, frame);
                }
            }
            (Row::Blank, _) => {}
        }
        None
    }

    /// A click on a column of the timeline, 0-based. On the mark of a snapshot that has no line of its own it is that snapshot that is gone to.
    fn handle_timeline_click(&mut self, col: u16, frame: &FrameContext<'_>) -> Option<Effect> {
        let (timeline, width) = (frame.timeline?, frame.regions.timeline.width);
        let marked = timeline.snapshot_at(col, width);
        match marked.filter(|id| self.is_before_end(*id, frame.end_document())) {
            Some(id) if self.entry.target.is_some() => self.show_snapshot_with_entry(id),
            Some(id) => self.show_snapshot(id),
            None => {
                let to = timeline.time_at(col, width);
                // What stands at the end stays there.
                if self.entry.target != Some(Target::End) || to < timeline.of {
                    self.forget_snapshot();
                }
                self.pager.viewport.go_to_end();
                return Some(Effect::Seek(to));
            }
        }
        None
    }

    fn handle_modal_mouse(&mut self, mouse: Mouse, frame: &FrameContext<'_>) -> Option<Effect> {
        let context = self.context();
        let modal = self.modal.as_mut()?;
        if let (Some(Modal { shown: Some(shown), .. }), Some(tool)) = (Some(&*modal), frame.tool)
            && context == Context::Modal
            && tool.modes().mouse.is_some()
            && let Some(input) = to_program_coordinates(mouse, frame.regions.tool, &shown.pager, tool)
        {
            return Some(Effect::ToolInput(input));
        }
        if let Some((way, lines)) = wheel(mouse) {
            self.wheel_in_modal(way, lines);
            return None;
        }
        let is_press = mouse.what == MouseAct::Press(Button::Left);
        if is_press
            && context == Context::List
            && let Some((_, row)) = within(frame.regions.list, mouse.col, mouse.row)
        {
            let row = modal.first_row(frame.regions.list.height) + usize::from(row);
            if row < self.tools.listed().len() {
                modal.row = row;
                return self.open_selected_tool();
            }
        }
        None
    }
}

/// Which way the wheel was turned, and how many lines down that is.
fn wheel(mouse: Mouse) -> Option<(Wheel, i64)> {
    match mouse.what {
        MouseAct::Wheel(Wheel::Up) => Some((Wheel::Up, -STEP)),
        MouseAct::Wheel(Wheel::Down) => Some((Wheel::Down, STEP)),
        MouseAct::Wheel(way) => Some((way, 0)),
        _ => None,
    }
}

/// At the row and column of the screen that is under it, for the program whose screen it is; `None` beside that. A screen that has moved on since
/// it was drawn has under it what was seen there.
fn to_program_coordinates(mouse: Mouse, area: Rect, pager: &Pager, document: &Document<'_>) -> Option<Input> {
    let (col, row) = within(area, mouse.col, mouse.row)?;
    let row = pager.viewport.line_at(row)?.checked_sub(pager.screen_start?)?;
    let row = u16::try_from(row).ok().filter(|row| *row < document.height())?;
    let col = Some(col.saturating_add(pager.left)).filter(|col| *col < document.width())?;
    Some(Input::Mouse(Mouse { col, row, ..mouse }))
}

/// The same at the place of the screen that is nearest to it.
fn drag_input(mouse: Mouse, area: Rect, pager: &Pager, document: &Document<'_>) -> Option<Input> {
    let col = mouse.col.clamp(area.x, area.right().checked_sub(1)?.max(area.x)) - area.x;
    let row = mouse.row.clamp(area.y, area.bottom().checked_sub(1)?.max(area.y)) - area.y;
    let line = pager.viewport.line_at(row).or_else(|| pager.last_line())?;
    let row = u16::try_from(line.saturating_sub(pager.screen_start?)).unwrap_or(u16::MAX);
    let row = row.min(document.height().saturating_sub(1));
    let col = col.saturating_add(pager.left).min(document.width().saturating_sub(1));
    Some(Input::Mouse(Mouse { col, row, ..mouse }))
}
