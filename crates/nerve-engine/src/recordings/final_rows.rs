//! The final text of a recording.

use std::io::{Read, Seek};

use nerve_agent::terminal_text::{save_alt_screen, split_at_ends, visible_rows};
use nerve_record::ahr::{AhrError, Body, DamagedRange, Part, Reader, Record};
use nerve_record::replay::TerminalReplay;
use nerve_types::Size;

/// Replays a recording to its end. Returns the rows of its scrollback and its last screen, and passes damaged ranges to
/// `on_damage`.
///
/// # Errors
/// The recording cannot be read, or its terminal takes too much work.
pub fn final_rows<R: Read + Seek>(
    reader: &mut Reader<R>,
    size: Size,
    mut on_damage: impl FnMut(&DamagedRange),
) -> Result<Vec<String>, AhrError> {
    let (mut replay, mut last_alt_screen) = (TerminalReplay::new(size), Vec::new());
    while let Some(part) = reader.next()? {
        let block = match part {
            Part::Block(block) => block,
            Part::Lost(lost) => {
                on_damage(&lost);
                continue;
            }
        };
        replay.begin_block(&block);
        for record in block.records() {
            apply(&mut replay, &mut last_alt_screen, &record);
            replay.check_work()?;
        }
        block.damage().iter().for_each(|lost| on_damage(lost));
    }
    Ok(visible_rows(&replay.terminal, last_alt_screen))
}

fn apply(replay: &mut TerminalReplay, last_alt_screen: &mut Vec<String>, record: &Record<'_>) {
    let Body::Data { mut off, bytes } = record.body else {
        replay.apply(record);
        return;
    };
    for piece in split_at_ends(bytes) {
        save_alt_screen(last_alt_screen, &replay.terminal, piece);
        replay.apply(&Record { at: record.at, body: Body::Data { off, bytes: piece } });
        off += piece.len() as u64;
    }
}
