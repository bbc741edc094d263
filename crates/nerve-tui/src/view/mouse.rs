//! Handles mouse input by the region under the pointer.

use ratatui::layout::Rect;

use crate::view::document::Document;
use crate::view::keys::{Button, Context, Input, Mouse, MouseAction, Wheel};
use crate::view::pager::Pager;
use crate::view::regions::{FrameContext, within};
use crate::view::task_entry::Target;
use crate::view::viewer::{Effect, Focus, Owner, PressedButton, Source, Viewer};
use crate::view::viewport::Row;

/// Lines per wheel step.
const STEP: i64 = 3;

impl Viewer {
    pub(crate) fn handle_mouse(&mut self, mouse: Mouse, frame: &FrameContext<'_>) -> Option<Effect> {
        if !matches!(mouse.action, MouseAction::Move(_) | MouseAction::Release(_)) {
            // A click cancels the confirmation: the next key must not answer it.
            self.take_transient_state();
        }
        if let Some(owner) = self.owner(mouse) {
            return match (owner, self.tools.shown(), frame.tool) {
                (Owner::Program, ..) => {
                    drag_input(mouse, frame.regions.lines, &self.pager, frame.document).map(Effect::Input)
                }
                (Owner::Tool, Some(shown), Some(tool)) => {
                    drag_input(mouse, frame.regions.tool, &shown.pager, tool).map(Effect::ToolInput)
                }
                (Owner::Tool | Owner::Viewer, ..) => None,
            };
        }
        let effect = self.handle_free_mouse(mouse, frame);
        if let MouseAction::Press(button) = mouse.action {
            let by = match &effect {
                Some(Effect::Input(_)) => Owner::Program,
                Some(Effect::ToolInput(_)) => Owner::Tool,
                _ => Owner::Viewer,
            };
            self.held = Some(PressedButton { button, by });
        }
        effect
    }

    /// Returns the owner of an event while a button is held.
    fn owner(&mut self, mouse: Mouse) -> Option<Owner> {
        let PressedButton { button, by } = self.held?;
        match mouse.action {
            MouseAction::Wheel(_) => None,
            MouseAction::Release(other) if other == button => {
                self.held = None;
                Some(by)
            }
            // The release was not reported.
            MouseAction::Move(None) => {
                self.held = None;
                None
            }
            MouseAction::Press(other) if other == button => {
                self.held = None;
                None
            }
            MouseAction::Press(_) | MouseAction::Release(_) | MouseAction::Move(Some(_)) => Some(by),
        }
    }

    /// Handles an event while no button is held.
    fn handle_free_mouse(&mut self, mouse: Mouse, frame: &FrameContext<'_>) -> Option<Effect> {
        if self.help.is_open() {
            if let Some((_, lines)) = wheel(mouse) {
                self.scroll_lines(lines);
            }
            return None;
        }
        if self.modal().is_some() {
            return self.handle_modal_mouse(mouse, frame);
        }
        if let Some(input) = self.to_program_input(mouse, frame) {
            return Some(Effect::Input(input));
        }
        match mouse.action {
            MouseAction::Wheel(Wheel::Left) => self.pager.columns.left = self.pager.left().saturating_sub(3),
            MouseAction::Wheel(Wheel::Right) => {
                let furthest = self.pager.max_left(frame.document);
                self.pager.columns.left = self.pager.left().saturating_add(3).min(furthest);
            }
            MouseAction::Wheel(_) => self.scroll_lines(wheel(mouse)?.1),
            MouseAction::Press(Button::Left) if self.pager.prompt.is_none() => {
                return self.handle_click(mouse, frame);
            }
            _ => {}
        }
        None
    }

    /// Scrolls by this many lines.
    pub(crate) fn scroll_lines(&mut self, lines: i64) {
        if self.help.scroll_lines(lines) {
            return;
        }
        if self.focus == Focus::Program && self.entry.target.is_none() {
            // Nothing is below a program's screen.
            if lines >= 0 {
                return;
            }
            self.focus = Focus::Lines;
        }
        self.pager.viewport.scroll(lines);
        // Scrolling to the end returns the keys to a running program.
        let is_scrolling = self.context() == Context::Scroll && self.pager.prompt.is_none();
        if self.source() == Source::Live && is_scrolling && lines > 0 && self.pager.viewport.is_at_end() {
            self.go_live();
        }
    }

    /// Translates an event for the running program; `None` if the program should not get it. It gets requested events on
    /// its screen, and in a full-screen program the wheel, as cursor keys.
    fn to_program_input(&self, mouse: Mouse, frame: &FrameContext<'_>) -> Option<Input> {
        if self.context() != Context::Live || self.pager.prompt.is_some() {
            return None;
        }
        let modes = frame.document.modes();
        let is_wheel = matches!(mouse.action, MouseAction::Wheel(_));
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
        let target = self.pager.viewport.rows().nth(row.into())?;
        match (target, in_lines) {
            // Coordinates within the border.
            (Row::Entry(inside), Some((col, _))) => {
                self.entry.click(inside.saturating_sub(1), col.saturating_sub(1));
            }
            (Row::Entry(_), None) => {}
            (Row::Line { number, .. }, _) => {
                // A click into a live window opens the task entry only at a snapshot mark.
                let is_mark = in_gutter.is_some() || frame.document.has_snapshot(number);
                if self.context() != Context::Live || is_mark {
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

    /// Handles a click on a column of the timeline, 0-based. A mark without a line of its own leads to its
    /// snapshot.
    fn handle_timeline_click(&mut self, col: u16, frame: &FrameContext<'_>) -> Option<Effect> {
        let (timeline, width) = (frame.timeline?, frame.regions.timeline.width);
        let marked = timeline.snapshot_at(col, width);
        match marked.filter(|id| self.is_before_end(*id, frame.end_document())) {
            Some(id) if self.entry.target.is_some() => self.show_snapshot_with_entry(id),
            Some(id) => self.show_snapshot(id),
            None => {
                let to = timeline.time_at(col, width);
                // A task entry at the end stays there.
                if self.entry.target != Some(Target::End) || to < timeline.duration {
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
        if let (Some(shown), Some(tool)) = (self.tools.shown(), frame.tool)
            && context == Context::Modal
            && tool.modes().mouse.is_some()
            && let Some(input) = to_program_coordinates(mouse, frame.regions.tool, &shown.pager, tool)
        {
            return Some(Effect::ToolInput(input));
        }
        if let Some((way, lines)) = wheel(mouse) {
            self.tools.wheel(way, lines);
            return None;
        }
        let is_press = mouse.action == MouseAction::Press(Button::Left);
        if is_press
            && context == Context::List
            && let Some((_, row)) = within(frame.regions.list, mouse.col, mouse.row)
            && self.tools.select(usize::from(row), frame.regions.list.height)
        {
            return self.open_selected_tool();
        }
        None
    }
}

/// Returns the direction of a wheel event and the lines to scroll down.
fn wheel(mouse: Mouse) -> Option<(Wheel, i64)> {
    match mouse.action {
        MouseAction::Wheel(Wheel::Up) => Some((Wheel::Up, -STEP)),
        MouseAction::Wheel(Wheel::Down) => Some((Wheel::Down, STEP)),
        MouseAction::Wheel(way) => Some((way, 0)),
        _ => None,
    }
}

/// Translates a position to the program's screen, as it was when last drawn; `None` outside.
fn to_program_coordinates(mouse: Mouse, area: Rect, pager: &Pager, document: &Document<'_>) -> Option<Input> {
    let (col, row) = within(area, mouse.col, mouse.row)?;
    let row = pager.viewport.line_at(row)?.checked_sub(pager.screen_start?)?;
    let row = u16::try_from(row).ok().filter(|row| *row < document.height())?;
    let col = Some(col.saturating_add(pager.left())).filter(|col| *col < document.width())?;
    Some(Input::Mouse(Mouse { col, row, ..mouse }))
}

/// Translates a position to the nearest position of the program's screen.
fn drag_input(mouse: Mouse, area: Rect, pager: &Pager, document: &Document<'_>) -> Option<Input> {
    let col = mouse.col.clamp(area.x, area.right().checked_sub(1)?.max(area.x)) - area.x;
    let row = mouse.row.clamp(area.y, area.bottom().checked_sub(1)?.max(area.y)) - area.y;
    let line = pager.viewport.line_at(row).or_else(|| pager.last_line())?;
    let row = u16::try_from(line.saturating_sub(pager.screen_start?)).unwrap_or(u16::MAX);
    let row = row.min(document.height().saturating_sub(1));
    let col = col.saturating_add(pager.left()).min(document.width().saturating_sub(1));
    Some(Input::Mouse(Mouse { col, row, ..mouse }))
}
