//! `nerve replay`: selects how to play a recording.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result};
use nerve_engine::recordings;
use nerve_record::ahr::Reader;
use nerve_record::index::Position;
use nerve_record::library::RecordingInfo;
use nerve_record::playback::Playback;
use nerve_record::replay::TerminalReplay;
use nerve_tui::recording::replay::{PlaybackOptions, play};
use nerve_tui::recording::{EndReason, Pace, Player};
use nerve_tui::terminal;
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::{LineIndex, TerminalState};

use super::{
    Losses, code, export, find, load_meta, metadata, read_failure, size, stream, tui_failure, view,
    write_failure,
};
use crate::cmd::screen_support;
use crate::{out, settings};
use nerve_cli::recording::{ReplayArgs, StartPosition, ViewArgs};

/// Plays a recording and returns the exit code.
pub(crate) fn replay(args: &ReplayArgs) -> Result<u8> {
    if let Some(format) = args.format {
        return export::print_format(&find(&args.source)?, format);
    }
    if args.viewer {
        return view::view(&ViewArgs {
            source: args.source.clone(),
            gutter: None,
            at: None,
            task: false,
            no_colors: args.no_colors,
        });
    }
    let recording = find(&args.source)?;
    recordings::check(&recording)?;
    if args.print_meta {
        return metadata::print(&recording, args.json);
    }
    let has_colors = settings::has_colors(args.no_colors);
    let to_terminal = io::stdout().is_terminal() && !screen_support::is_dumb_terminal();
    if args.fast {
        return print_final_lines(&recording, has_colors && to_terminal);
    }
    let meta = load_meta(&recording);
    let mut losses = Losses::new(&recording);
    let mut playback = Playback::open(&recording, size(&meta)).map_err(read_failure)?;
    let start = playback.next_at().map_err(read_failure)?.unwrap_or_default();
    if let Some(from) = args.from {
        playback.seek(position(from, start)).map_err(read_failure)?;
    }
    let pace = Pace { speed: args.speed.0, idle: args.idle_limit.map(|limit| limit.0) };
    let mut player = Player::new(playback, start, pace).map_err(read_failure)?;
    let code = if to_terminal {
        let total = RecordingInfo::read(&recording).ok().and_then(|info| info.duration);
        play_in_terminal(&mut player, PlaybackOptions { start, total, has_colors })
    } else {
        stream::run(&mut player, has_colors)
    };
    player.playback().lost().iter().for_each(|lost| losses.add(lost));
    losses.add_contradictions(player.playback().contradictions());
    Ok(losses.report().max(code?))
}

/// Plays to the end or until the user quits. Prints the last screen at the end.
fn play_in_terminal(player: &mut Player, options: PlaybackOptions) -> Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let end = runtime.context("cannot start the runtime")?.block_on(play(player, &options));
    let end = end.map_err(tui_failure)?;
    if end == EndReason::Finished {
        let mut out = io::stdout().lock();
        let cols = terminal::window().unwrap_or(Size::new(80, 24)).cols;
        let result = last_screen(player.terminal(), options.has_colors, cols, &mut out);
        result.and_then(|()| out.flush()).map_err(write_failure)?;
    }
    Ok(code(end))
}

fn position(from: StartPosition, start: TsNs) -> Position {
    match from {
        StartPosition::Time(time) => Position::Time(start + time),
        StartPosition::Offset(offset) => Position::Offset(offset),
    }
}

fn print_final_lines(recording: &Path, has_colors: bool) -> Result<u8> {
    let mut reader = Reader::open(recording).map_err(read_failure)?;
    let mut losses = Losses::new(recording);
    let mut replay = TerminalReplay::new(size(&load_meta(recording)));
    replay.read_rest(&mut reader, |lost| losses.add(lost)).map_err(read_failure)?;
    let mut out = BufWriter::new(io::stdout().lock());
    losses.add_contradictions(reader.contradictions());
    let result = lines(&replay.terminal, has_colors, &mut out).and_then(|()| out.flush());
    let code = losses.report();
    result.map_err(write_failure)?;
    if replay.terminal.modes().alternate {
        drop(out);
        out::note("the recording ends on the alternate screen:");
        let mut out = BufWriter::new(io::stdout().lock());
        last_screen(&replay.terminal, has_colors, u16::MAX, &mut out)
            .and_then(|()| out.flush())
            .map_err(write_failure)?;
    }
    Ok(code)
}

/// Prints all lines up to the last non-empty one.
fn lines(terminal: &TerminalState, has_colors: bool, out: &mut impl Write) -> io::Result<()> {
    let text = |line: u64| terminal.line_text(LineIndex(line)).unwrap_or_default();
    let kept = terminal.first_kept_line().0..terminal.line_count();
    let end = kept.clone().rev().find(|line| !text(*line).is_empty()).map_or(kept.start, |line| line + 1);
    for line in kept.start..end {
        let content = if has_colors { terminal.line_content(LineIndex(line)) } else { Some(text(line)) };
        writeln!(out, "{}", content.unwrap_or_default())?;
    }
    Ok(())
}

/// Prints the screen up to the last non-empty row.
fn last_screen(
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
