//! `nerve replay`: selects how to play a recording.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use nerve_record::ahr::Reader;
use nerve_record::index::Position;
use nerve_record::playback::Playback;
use nerve_record::replay::TerminalReplay;
use nerve_types::TsNs;
use nerve_vt::terminal::{LineIndex, TerminalState};

use super::{Losses, find, load_meta, metadata, player, size, stream, unreadable, unwritten, view};
use crate::cli::recording::{ReplayArgs, StartPosition, ViewArgs};
use crate::cmd::full_screen;
use crate::exit::DONE;
use crate::out;

/// Plays a recording and returns the exit code.
pub(crate) fn replay(args: &ReplayArgs) -> Result<u8> {
    if args.viewer {
        return view(&ViewArgs { source: args.source.clone(), gutter: None, no_colors: args.no_colors });
    }
    let recording = find(&args.source)?;
    if args.print_meta {
        return metadata::print(&recording, args.json).map(|()| DONE);
    }
    let has_colors = !args.no_colors && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let to_terminal = io::stdout().is_terminal() && !full_screen::is_dumb();
    if args.fast {
        return fast(&recording, has_colors && to_terminal).map(|()| DONE);
    }
    let meta = load_meta(&recording);
    let mut losses = Losses::of(&recording);
    let mut play = Playback::open(&recording, size(&meta)).map_err(unreadable)?;
    let start = play.next_at().map_err(unreadable)?.unwrap_or_default();
    if let Some(from) = args.from {
        play.seek(position(from, start)).map_err(unreadable)?;
    }
    let pace = Pace { speed: args.speed.0, idle: args.idle_limit.map(|limit| limit.0) };
    let code = if to_terminal {
        let options = player::PlaybackOptions { start, pace, has_colors, recording: &recording };
        player::run(&mut play, &options)
    } else {
        stream::run(&mut play, pace, has_colors)
    };
    play.lost().iter().for_each(|lost| losses.note(lost));
    losses.report();
    code
}

fn position(from: StartPosition, start: TsNs) -> Position {
    match from {
        StartPosition::Time(time) => Position::Time(start + time),
        StartPosition::Offset(offset) => Position::Offset(offset),
    }
}

/// Maps recorded time to playback time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Playback speed factor.
    pub(super) speed: f64,
    /// Limit for pauses, in recorded time.
    pub(super) idle: Option<Duration>,
}

impl Pace {
    /// Returns the time to wait between two recorded times.
    pub(super) fn wait(&self, from: TsNs, to: TsNs) -> Duration {
        let gap = to.since(from);
        let gap = self.idle.map_or(gap, |idle| gap.min(idle));
        Duration::try_from_secs_f64(gap.as_secs_f64() / self.speed).unwrap_or(Duration::MAX)
    }
}

fn fast(recording: &Path, has_colors: bool) -> Result<()> {
    let mut reader = Reader::open(recording).map_err(unreadable)?;
    let mut losses = Losses::of(recording);
    let mut replay = TerminalReplay::new(size(&load_meta(recording)));
    replay.read_rest(&mut reader, |lost| losses.note(lost)).map_err(unreadable)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let printed = lines(&replay.terminal, has_colors, &mut out).and_then(|()| out.flush());
    losses.report();
    printed.map_err(unwritten)?;
    if replay.terminal.modes().alternate {
        drop(out);
        out::note("the recording ends on the alternate screen:");
        let mut out = BufWriter::new(io::stdout().lock());
        last_screen(&replay.terminal, has_colors, u16::MAX, &mut out)
            .and_then(|()| out.flush())
            .map_err(unwritten)?;
    }
    Ok(())
}

/// Prints all lines up to the last non-empty one.
fn lines(terminal: &TerminalState, has_colors: bool, out: &mut impl Write) -> io::Result<()> {
    let text = |line: u64| terminal.line_text(LineIndex(line)).unwrap_or_default();
    let kept = terminal.first_kept_line().0..terminal.line_count();
    let end = kept.clone().rev().find(|line| !text(*line).is_empty()).map_or(kept.start, |line| line + 1);
    for line in kept.start..end {
        let shown = if has_colors { terminal.line_content(LineIndex(line)) } else { Some(text(line)) };
        writeln!(out, "{}", shown.unwrap_or_default())?;
    }
    Ok(())
}

/// Prints the screen up to the last non-empty row.
pub(super) fn last_screen(
    terminal: &TerminalState,
    has_colors: bool,
    cols: u16,
    out: &mut impl Write,
) -> io::Result<()> {
    let screen = terminal.screen();
    let used = screen.rows.iter().rposition(|row| !row.text.is_empty()).map_or(0, |last| last + 1);
    for row in &screen.rows[..used] {
        if has_colors {
            writeln!(out, "{}", row.to_ansi(cols))?;
        } else {
            writeln!(out, "{}", row.to_text(cols))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_limit_applies_before_speed() {
        let at = |seconds: u64| TsNs(seconds * 1_000_000_000);
        let pace = Pace { speed: 2.0, idle: Some(Duration::from_secs(3)) };
        assert_eq!(pace.wait(at(1), at(3)), Duration::from_secs(1));
        assert_eq!(pace.wait(at(1), at(100)), Duration::from_millis(1500));
        assert_eq!(pace.wait(at(5), at(1)), Duration::ZERO, "the clock stepped back");
        let slow = Pace { speed: 0.5, idle: None };
        assert_eq!(slow.wait(at(0), at(3)), Duration::from_secs(6));
    }
}
