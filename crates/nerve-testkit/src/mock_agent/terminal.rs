//! Runs the agent on a real terminal.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::agent::Agent;
use super::options::MockAgentOptions;
use super::program::Program;
use super::replay::Replay;
use super::screen::ScreenSize;
use super::transcript::Transcript;

/// Exit code when the terminal goes away: a shell's code for SIGHUP (1).
pub const HANGUP: i32 = 129;

/// Runs a mock agent on this process's terminal until it ends; blocks. Returns the exit code.
///
/// # Errors
/// The terminal cannot be read, written or polled.
pub fn run(options: MockAgentOptions) -> io::Result<i32> {
    run_on(io::stdin(), io::stdout(), options)
}

/// Runs a mock agent on a terminal or any other pair of descriptors. A terminal is put into raw mode and restored.
///
/// # Errors
/// `input` or `output` cannot be read, written or polled, or the recording cannot be opened.
pub fn run_on(input: impl AsFd, output: impl AsFd, options: MockAgentOptions) -> io::Result<i32> {
    let (input, output) = (input.as_fd(), output.as_fd());
    if let Some(recording) = &options.replay {
        let mut replay = Replay::open(recording, options.fast)?;
        // Output before the first input is played even without a user.
        replay.tick(Duration::ZERO);
        return run_program(input, output, &mut replay, Transcript::default());
    }
    let folder = std::env::current_dir().unwrap_or_default();
    let folder = folder.to_string_lossy();
    let (memory, past) = match Transcript::open(&options, &folder) {
        Ok(opened) => opened,
        Err(message) => {
            write_all(output, format!("Error: {message}\r\n").as_bytes())?;
            return Ok(1);
        }
    };
    let mut agent = Agent::new(options, &folder, window_size(output)).after(past);
    run_program(input, output, &mut agent, memory)
}

fn run_program(
    input: BorrowedFd,
    output: BorrowedFd,
    agent: &mut dyn Program,
    mut memory: Transcript,
) -> io::Result<i32> {
    let _raw = RawMode::enter(input)?;
    let resized = watch_window_size()?;
    let start = Instant::now();
    let mut buffer = vec![0; 64 << 10];
    loop {
        // The transcript is written before the end becomes visible.
        memory.append(agent.take_messages())?;
        if !write_all(output, &agent.take_output())? {
            return Ok(HANGUP);
        }
        if let Some(code) = agent.exit_code() {
            return Ok(code);
        }
        let timeout = agent.deadline().map(|deadline| deadline.saturating_sub(start.elapsed()));
        match wait(input, agent.wants_input(), &resized, timeout)? {
            Event::Hangup => return Ok(HANGUP),
            Event::Resized => rustix::io::read(&resized, &mut buffer).map(drop)?,
            Event::Readable => match rustix::io::read(input, &mut buffer) {
                Ok(0) | Err(Errno::IO) => return Ok(HANGUP),
                Ok(count) => agent.input(&buffer[..count], start.elapsed()),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(e) => return Err(e.into()),
            },
            Event::Time => {}
        }
        agent.resize(window_size(output));
        agent.tick(start.elapsed());
    }
}

enum Event {
    Readable,
    Resized,
    Hangup,
    Time,
}

fn wait(
    input: BorrowedFd,
    reading: bool,
    resized: &PipeReader,
    timeout: Option<Duration>,
) -> io::Result<Event> {
    let flags = if reading { PollFlags::IN } else { PollFlags::empty() };
    let mut fds = [PollFd::from_borrowed_fd(input, flags), PollFd::new(resized, PollFlags::IN)];
    // A timeout that does not fit is effectively infinite.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(Event::Time),
        Err(e) => return Err(e.into()),
    }
    let (input, resized) = (fds[0].revents(), fds[1].revents());
    Ok(if resized.contains(PollFlags::IN) {
        Event::Resized
    } else if input.contains(PollFlags::IN) {
        Event::Readable
    } else if input.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        Event::Hangup
    } else {
        Event::Time
    })
}

/// Writes everything; returns false if the other end is closed.
fn write_all(output: BorrowedFd, mut bytes: &[u8]) -> io::Result<bool> {
    while !bytes.is_empty() {
        match rustix::io::write(output, bytes) {
            Ok(0) | Err(Errno::IO | Errno::PIPE) => return Ok(false),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                poll(&mut [PollFd::from_borrowed_fd(output, PollFlags::OUT)], None)?;
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(true)
}

fn window_size(output: BorrowedFd) -> ScreenSize {
    match tcgetwinsize(output) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            ScreenSize { cols: size.ws_col.into(), rows: size.ws_row.into() }
        }
        _ => ScreenSize::DEFAULT,
    }
}

/// Returns a pipe that becomes readable when the window is resized. A custom signal handler would need unsafe code, so
/// tokio's is used.
fn watch_window_size() -> io::Result<PipeReader> {
    let (reader, writer) = io::pipe()?;
    std::thread::Builder::new().name("window-size".into()).spawn(move || forward_window_changes(writer))?;
    Ok(reader)
}

/// Ends when the reader is closed.
fn forward_window_changes(mut writer: PipeWriter) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let mut changes = signal(SignalKind::window_change())?;
        while changes.recv().await.is_some() {
            writer.write_all(&[0])?;
        }
        Ok(())
    })
}

/// Raw mode while alive, if `input` is a terminal.
struct RawMode<'a> {
    input: BorrowedFd<'a>,
    original: Option<Termios>,
}

impl<'a> RawMode<'a> {
    fn enter(input: BorrowedFd<'a>) -> io::Result<RawMode<'a>> {
        let original = tcgetattr(input).ok();
        if let Some(original) = &original {
            let mut raw = original.clone();
            raw.make_raw();
            tcsetattr(input, OptionalActions::Now, &raw)?;
        }
        Ok(RawMode { input, original })
    }
}

impl Drop for RawMode<'_> {
    fn drop(&mut self) {
        if let Some(original) = &self.original {
            // The terminal may already be closed.
            let _ = tcsetattr(self.input, OptionalActions::Drain, original);
        }
    }
}
