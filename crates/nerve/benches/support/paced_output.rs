//! Output to a terminal at the rate of a very busy agent.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

/// Bytes a second.
pub(crate) const RATE: u64 = 10_000_000;
/// Interval of the writes.
const TICK: Duration = Duration::from_millis(1);

/// Writes to the terminal at [`RATE`] for `seconds` seconds.
pub(crate) fn write(corpus: &Path, seconds: u64) -> Result<()> {
    let terminal = io::stdout();
    let mut modes = tcgetattr(&terminal)?;
    modes.make_raw();
    tcsetattr(&terminal, OptionalActions::Now, &modes)?;
    let corpus = std::fs::read(corpus)?;
    ensure!(!corpus.is_empty(), "nothing to write");
    let (mut rest, start) = (corpus.as_slice(), Instant::now());
    let (mut written, total) = (0, RATE * seconds);
    while written < total {
        let elapsed = u64::try_from((start.elapsed() + TICK).as_micros())?;
        let due = (RATE * elapsed / 1_000_000).min(total);
        while written < due {
            if rest.is_empty() {
                rest = &corpus;
            }
            let len = usize::try_from(due - written)?.min(rest.len());
            // Past the buffer of standard output, which cuts at every end of a line.
            let size = rustix::io::write(&terminal, &rest[..len])?;
            rest = &rest[size..];
            written += size as u64;
        }
        std::thread::sleep(TICK);
    }
    Ok(())
}
