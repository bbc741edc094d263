//! A viewer at work on the user's terminal: what it shows and when, what is typed into it, what goes on beside it. The same for a program
//! that runs and for a recording.

use anyhow::Context;
use nerve_term::event::Size;
use nerve_term::keys::Input;
use nerve_term::terminal::TerminalState;
use nerve_view::document::Document;
use nerve_view::draw::{Gutter, Layout, StatusInfo, draw};
use nerve_view::regions::{FrameContext, Regions};
use nerve_view::timeline::Timeline;
use nerve_view::viewer::{Effect, Mode, Source, Viewer};
use tokio::time::Instant;

use super::background::{Beside, Turn};
use crate::tty::pacing::{Pacing, until};
use crate::tty::signals::{Signalled, Signals};
use crate::tty::{Cursor, Tty, Typed};

/// The user's terminal, and the signals that come from there. Dropping it gives the terminal back.
pub(crate) struct Seat {
    pub(crate) tty: Tty,
    signals: Signals,
}

/// What is to be done at the user's terminal.
pub(crate) enum Heard {
    /// To leave: the signal's number.
    End(u8),
    /// To take this.
    Input(Input),
    /// To leave: nobody can type any more.
    Gone,
    /// To draw.
    Due,
}

/// What a recording has besides what is shown of it.
#[derive(Clone, Copy)]
pub(crate) struct Recorded<'a> {
    pub(crate) timeline: &'a Timeline,
    /// Its end, while another moment is shown.
    pub(crate) end: Option<&'a TerminalState>,
    /// All of it is read: what was written before the first line of its end is known.
    pub(crate) is_whole: bool,
}

/// See the module.
pub(crate) struct Showing {
    pub(crate) viewer: Viewer,
    pub(crate) beside: Beside,
    gutter: Gutter,
    coloured: bool,
    pub(crate) pacing: Pacing,
    regions: Regions,
    /// A search goes on: [`Showing::work`] is to be called as soon as nothing else is to be done.
    pub(crate) works: bool,
}

impl Seat {
    /// Takes the terminal.
    ///
    /// # Errors
    /// It is none, or gone; signals cannot be listened for.
    pub(crate) fn take() -> anyhow::Result<Seat> {
        // Heard before the terminal has to be given back.
        let signals = Signals::listen()?;
        Ok(Seat { tty: Tty::enter().context("cannot use the terminal")?, signals })
    }
}

impl Showing {
    /// Of nothing yet.
    pub(crate) fn new(viewer: Viewer, beside: Beside, gutter: Gutter, coloured: bool) -> Showing {
        let mut pacing = Pacing::default();
        pacing.change();
        Showing { viewer, beside, gutter, coloured, pacing, regions: Regions::default(), works: false }
    }

    /// Something else is to be seen than before.
    pub(crate) fn changed(&mut self) {
        self.pacing.change();
    }

    /// Something to be told, until the next key.
    pub(crate) fn tell(&mut self, message: &str) {
        self.viewer.show_message(message);
        self.changed();
    }

    /// Draws what there is to be seen; says how large the window is.
    pub(crate) fn draw(
        &mut self,
        tty: &mut Tty,
        terminal: &TerminalState,
        recorded: Option<Recorded<'_>>,
        facts: &StatusInfo,
    ) -> Size {
        let Showing { viewer, beside, gutter, coloured, regions, works, .. } = self;
        beside.keep(viewer);
        let source = viewer.source();
        let (timeline, end) = in_time(recorded);
        let document = known_to(recorded, document(source, terminal));
        let shown = beside.terminal(terminal);
        let tool = shown.map(Document::live);
        let mut window = Size::default();
        tty.draw(*coloured, |buffer, decorations| {
            window = Size::new(buffer.area.width, buffer.area.height);
            let layout = Layout::new(source, buffer.area, terminal.size(), *gutter);
            *regions = layout.regions(viewer, shown.map(TerminalState::size), facts.capabilities);
            viewer.set_regions(regions);
            viewer.update_document(&document);
            *works = viewer.advance_search(&document);
            if let Some(tool) = &tool {
                viewer.update_tool_document(tool);
                *works |= viewer.advance_tool_search(tool);
            }
            let frame = FrameContext {
                end: end.as_ref(),
                tool: tool.as_ref(),
                timeline,
                ..FrameContext::new(&document, *regions)
            };
            let drawn = draw(viewer, &frame, facts, &layout, buffer, decorations);
            let style = match viewer.mode() {
                Mode::Live => terminal.cursor_style(),
                Mode::Tool => shown.map_or(0, TerminalState::cursor_style),
                _ => 0,
            };
            drawn.cursor.map(|(col, row)| Cursor { col, row, style })
        });
        self.pacing.drew(Instant::now());
        window
    }

    /// Takes what somebody does; what comes of it that the viewer cannot do.
    pub(crate) fn input(
        &mut self,
        input: Input,
        terminal: &TerminalState,
        recorded: Option<Recorded<'_>>,
    ) -> Option<Effect> {
        let before = self.viewer.status_line();
        let document = known_to(recorded, document(self.viewer.source(), terminal));
        let tool = self.beside.terminal(terminal).map(Document::live);
        let (timeline, end) = in_time(recorded);
        let frame = FrameContext {
            end: end.as_ref(),
            tool: tool.as_ref(),
            timeline,
            ..FrameContext::new(&document, self.regions)
        };
        let asked = self.viewer.input(input, &frame);
        // What is passed on changes nothing here but what was told: its echo is to be drawn at once.
        if !matches!(asked, Some(Effect::Input(_))) || self.viewer.status_line() != before {
            self.pacing.change();
        }
        asked
    }

    /// Does what is the same wherever it is asked; gives back the rest.
    pub(crate) fn done(&mut self, asked: Effect, tty: &mut Tty) -> Option<Effect> {
        match asked {
            Effect::Copy(text) => {
                tty.copy(&text);
                self.viewer.show_message("copied");
            }
            Effect::Redraw => tty.redraw(),
            Effect::ShowTool(id) => self.beside.show(id),
            // It is off the list already, which is nobody else's.
            Effect::DismissTool(_) => {}
            Effect::Branch(submission) => self.beside.branch(submission, &mut self.viewer),
            other => return Some(other),
        }
        None
    }

    /// Something has happened beside it.
    pub(crate) fn turned(&mut self, turn: Turn) {
        self.beside.apply(turn, &mut self.viewer);
        self.changed();
    }

    /// Goes on with a search, a piece of it.
    pub(crate) fn work(&mut self, terminal: &TerminalState) {
        self.works = self.viewer.advance_search(&document(self.viewer.source(), terminal));
        if let Some(tool) = self.beside.terminal(terminal) {
            self.works |= self.viewer.advance_tool_search(&Document::live(tool));
        }
        self.changed();
    }
}

/// What is to be done next at the terminal. May be dropped and called again.
pub(crate) async fn heard(pacing: &mut Pacing, seat: &mut Seat) -> Heard {
    loop {
        let now = Instant::now();
        let frame = pacing.due(now);
        let is_due = frame.is_some_and(|due| due <= now);
        if is_due && seat.tty.is_free() {
            return Heard::Due;
        }
        tokio::select! {
            biased;
            signalled = seat.signals.next() => match signalled {
                Signalled::End(number) => return Heard::End(number),
                Signalled::Size => pacing.change(),
            },
            typed = seat.tty.next(is_due) => match typed {
                Typed::Input(input) => return Heard::Input(input),
                Typed::Gone => return Heard::Gone,
                Typed::Changed => pacing.change(),
                Typed::Free => {}
            },
            () = until(frame), if !is_due => {}
        }
    }
}

fn document(source: Source, terminal: &TerminalState) -> Document<'_> {
    match source {
        Source::Live => Document::live(terminal),
        Source::Recording => Document::recorded(terminal),
    }
}

fn in_time(recorded: Option<Recorded<'_>>) -> (Option<&Timeline>, Option<Document<'_>>) {
    let Some(recorded) = recorded else { return (None, None) };
    let end = recorded.end.map(Document::recorded).map(|end| match recorded.is_whole {
        true => end,
        false => end.loading_earlier(),
    });
    (Some(recorded.timeline), end)
}

/// What is shown, which is the end unless that is elsewhere.
fn known_to<'a>(recorded: Option<Recorded<'_>>, document: Document<'a>) -> Document<'a> {
    match recorded {
        Some(Recorded { end: None, is_whole: false, .. }) => document.loading_earlier(),
        _ => document,
    }
}
