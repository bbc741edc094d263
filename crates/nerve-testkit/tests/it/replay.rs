//! Replay of a recording as an agent, on simulated time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_record::ahr::{Body, Mark, Record, Segment, Writer};
use nerve_testkit::mock_agent::{Agent, MockAgentOptions, Program, Replay, ScreenSize};
use nerve_types::{ExitStatus, Origin, TsNs};
use tempfile::TempDir;

const START: u64 = 1_760_000_000_000_000_000;
const LATER: Duration = Duration::from_secs(3600);

/// Builds a recording from events with times in milliseconds.
pub(crate) struct RecordingBuilder {
    dir: TempDir,
    writer: Writer,
    segment: Segment,
}

impl RecordingBuilder {
    pub(crate) fn new() -> RecordingBuilder {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::create(&dir.path().join("tape.ahr")).unwrap();
        RecordingBuilder { dir, writer, segment: Segment::new(0) }
    }

    fn push(mut self, ms: u64, body: Body<'_>) -> RecordingBuilder {
        self.segment.push(&Record { at: TsNs(START + ms * 1_000_000), body }).unwrap();
        self
    }

    pub(crate) fn output(self, ms: u64, bytes: impl AsRef<[u8]>) -> RecordingBuilder {
        let off = self.segment.end();
        self.push(ms, Body::Data { off, bytes: bytes.as_ref() })
    }

    pub(crate) fn input(self, ms: u64, bytes: impl AsRef<[u8]>) -> RecordingBuilder {
        self.push(ms, Body::Input { bytes: bytes.as_ref() })
    }

    fn input_from(self, ms: u64, origin: Origin, redacted: bool, bytes: &str) -> RecordingBuilder {
        self.push(ms, Body::Mark(Mark::Input { origin, redacted })).input(ms, bytes)
    }

    /// Starts the next block.
    fn next_block(mut self) -> RecordingBuilder {
        self.writer.append(&self.segment.seal(4, false)).unwrap();
        self.segment = Segment::new(self.segment.end());
        self
    }

    fn exit(self, ms: u64, status: ExitStatus) -> RecordingBuilder {
        self.push(ms, Body::Mark(Mark::Exit(status)))
    }

    /// Returns the recording's path and the guard of its folder.
    pub(crate) fn finish(self) -> (TempDir, PathBuf) {
        let recording = self.next_block();
        (recording.dir, recording.writer.path().to_path_buf())
    }

    fn player(self) -> Player {
        let (_dir, path) = self.finish();
        Player::new(&path, false)
    }
}

/// A recording being played.
struct Player {
    replay: Replay,
    now: Duration,
}

impl Player {
    fn new(path: &Path, fast: bool) -> Player {
        Player { replay: Replay::open(path, fast).unwrap(), now: Duration::ZERO }
    }

    /// Advances the time and returns the output. Stops when the replay waits for input.
    fn advance(&mut self, time: Duration) -> String {
        let (until, mut output) = (self.now + time, self.replay.take_output());
        while let Some(next) = self.replay.deadline().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.replay.tick(self.now);
            output.extend(self.replay.take_output());
        }
        self.now = until;
        String::from_utf8(output).unwrap()
    }

    fn run(&mut self) -> String {
        self.advance(LATER)
    }

    fn send(&mut self, bytes: &str) -> String {
        self.replay.input(bytes.as_bytes(), self.now);
        self.run()
    }

    #[track_caller]
    fn assert_exited(&mut self, code: i32) {
        assert_eq!(self.replay.exit_code(), Some(code));
        assert_eq!(self.replay.deadline(), None);
    }
}

#[test]
fn replay_waits_for_input_and_continues() {
    let mut player = RecordingBuilder::new()
        .output(0, "> ")
        .input(900, "hello\r")
        .output(950, "Hi!\r\n> ")
        .input(2000, "bye\r")
        .output(2010, "Bye.\r\n")
        .exit(2100, ExitStatus::Code(7))
        .player();
    assert_eq!(player.run(), "> ");
    assert_eq!(player.replay.exit_code(), None);
    assert_eq!(player.replay.deadline(), None);
    assert_eq!(player.send("some"), "");
    assert_eq!(player.send(" other words"), "");
    assert_eq!(player.send("\r"), "Hi!\r\n> ");
    assert_eq!(player.send("\x1b[200~pasted\rtext\x1b[201~"), "");
    assert_eq!(player.send("\r"), "Bye.\r\n");
    player.assert_exited(7);
}

#[test]
fn echo_follows_keys_and_typeahead_is_kept() {
    let echoed_key =
        |recording: RecordingBuilder, ms, key: &str| recording.input(ms, key).output(ms + 1, key);
    let recording = echoed_key(echoed_key(RecordingBuilder::new().output(0, "$ "), 10, "l"), 20, "s")
        .input(30, "\r")
        .output(31, "a b\r\n");
    let mut player = recording.input(40, "x\r").output(41, "end").player();
    assert_eq!(player.run(), "$ ");
    assert_eq!(player.send("l"), "l");
    assert_eq!(player.send("s\rx\r"), "sa b\r\nend");
    player.assert_exited(0);
}

#[test]
fn pauses_are_recorded_ones_up_to_a_second() {
    let recording = || {
        RecordingBuilder::new()
            .output(0, "a")
            .output(300, "b")
            .next_block()
            .output(90_000, "c")
            .input(95_000, "\r")
            .output(95_200, "d")
    };
    let ms = Duration::from_millis;
    let mut player = recording().player();
    assert_eq!(player.advance(ms(299)), "a");
    assert_eq!(player.advance(ms(1)), "b");
    assert_eq!(player.advance(ms(999)), "");
    assert_eq!(player.advance(ms(1)), "c");
    player.advance(LATER);
    player.replay.input(b"\r", player.now);
    assert_eq!(player.advance(ms(199)), "");
    assert_eq!(player.advance(ms(1)), "d");

    let (_dir, path) = recording().finish();
    let mut fast = Player::new(&path, true);
    assert_eq!(fast.advance(Duration::ZERO), "abc");
    fast.replay.input(b"\r", fast.now);
    assert_eq!(fast.advance(Duration::ZERO), "d");
    fast.assert_exited(0);
}

#[test]
fn terminal_responses_are_not_awaited() {
    let mut player = RecordingBuilder::new()
        .output(0, "\x1b[c\x1b[6n")
        .input_from(1, Origin::Terminal, false, "\x1b[?62;22c")
        .input_from(2, Origin::Terminal, false, "typed? no\r")
        // Recorded without a mark; recognised by its form.
        .input(3, "\x1b[12;40R\x1b]11;rgb:0/0/0\x07")
        .output(4, "ready")
        .input_from(5, Origin::Injected, false, "go\r")
        .output(6, "!")
        .player();
    assert_eq!(player.run(), "\x1b[c\x1b[6nready");
    assert_eq!(player.send("\x1b[?1;2c"), "");
    assert_eq!(player.send("go\r"), "!");
}

#[test]
fn redacted_password_matches_any_line() {
    let redacted_key = |recording: RecordingBuilder, ms| recording.input_from(ms, Origin::User, true, "*");
    let recording = RecordingBuilder::new().output(0, "Password: ");
    let recording = (1..=9).fold(recording, redacted_key).next_block();
    let mut player =
        redacted_key(recording, 10).output(20, "\r\nok ").input(30, "x").output(31, "end").player();
    assert_eq!(player.run(), "Password: ");
    assert_eq!(player.send("secret of another length"), "");
    assert_eq!(player.send("\r"), "\r\nok ");
    assert_eq!(player.send("x"), "end");
}

#[test]
fn non_text_keys_are_awaited() {
    let recording = RecordingBuilder::new()
        .output(0, "1")
        .input(1, "\x1b")
        .output(2, "2")
        .input(3, "\x03")
        .output(4, "3")
        .input(5, "\x1b[A");
    let mut player = recording.output(6, "4").player();
    assert_eq!(player.run(), "1");
    assert_eq!(player.send("\x1b"), "2");
    assert_eq!(player.send("\x03"), "3");
    assert_eq!(player.send("\x1b[A"), "4");
}

#[test]
fn exit_code_is_recorded_one() {
    for (status, code) in [(ExitStatus::Code(3), 3), (ExitStatus::Signal(9), 137), (ExitStatus::Unknown, 1)] {
        let mut player = RecordingBuilder::new().output(0, "a").exit(1, status).player();
        assert_eq!(player.run(), "a");
        player.assert_exited(code);
    }
    let mut player = RecordingBuilder::new().player();
    assert_eq!(player.run(), "");
    player.assert_exited(0);
}

#[test]
fn damage_is_skipped() {
    let noise: String = (0..2000_u32).map(|n| char::from(b'a' + (n * n % 23) as u8)).collect();
    let recording = RecordingBuilder::new()
        .output(0, "first")
        .next_block()
        .output(1, noise)
        .next_block()
        .output(2, "last");
    let (_dir, path) = recording.finish();
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(&path, bytes).unwrap();
    let mut player = Player::new(&path, false);
    assert_eq!(player.run(), "firstlast");
    player.assert_exited(0);
}

#[test]
fn long_output_comes_in_pieces() {
    let line = "x".repeat(4000);
    let recording = (0..100).fold(RecordingBuilder::new(), |recording, _| recording.output(0, &line));
    let (_dir, path) = recording.finish();
    let mut replay = Replay::open(&path, true).unwrap();
    let (mut whole, mut pieces) = (0, 0);
    while replay.exit_code().is_none() {
        replay.tick(Duration::ZERO);
        let piece = replay.take_output().len();
        assert!(piece < (64 << 10) + 4000, "{piece}");
        (whole, pieces) = (whole + piece, pieces + 1);
    }
    assert_eq!((whole, pieces > 5), (400_000, true));
}

#[test]
fn missing_recording_is_an_error() {
    let error = Replay::open(Path::new("/no/such.ahr"), false).unwrap_err().to_string();
    assert!(error.contains("/no/such.ahr"), "{error}");
}

/// Records the scripted agent and checks that the replay gives the same output, although the keys arrive at other times.
#[test]
fn recorded_agent_is_driven_like_the_real_one() {
    let keys = ["hello", "\r", "TOOL", "\r", "/exit", "\r"];
    let mut agent = Agent::new(MockAgentOptions::default(), "/work", ScreenSize::DEFAULT);
    let (mut recording, mut now) = (RecordingBuilder::new(), Duration::ZERO);
    let mut live = Vec::new();
    let record_output =
        |recording: RecordingBuilder, agent: &mut Agent, now: Duration, answer: &mut Vec<u8>| {
            let bytes = agent.take_output();
            answer.extend_from_slice(&bytes);
            if bytes.is_empty() {
                recording
            } else {
                recording.output(u64::try_from(now.as_millis()).unwrap(), bytes)
            }
        };
    for key in [&[""][..], &keys].concat() {
        let mut answer = Vec::new();
        if !key.is_empty() {
            recording = recording.input(u64::try_from(now.as_millis()).unwrap(), key);
            agent.input(key.as_bytes(), now);
        }
        recording = record_output(recording, &mut agent, now, &mut answer);
        while let Some(next) = agent.deadline() {
            now = next;
            agent.tick(now);
            recording = record_output(recording, &mut agent, now, &mut answer);
        }
        live.push(String::from_utf8(answer).unwrap());
    }
    assert_eq!(agent.exit_code(), Some(0));
    assert!(live[2].contains("said:") && live[4].contains("END-OF-TOOL"), "{live:?}");

    let mut player = recording.player();
    let mut played = vec![player.run()];
    played.extend(keys.iter().map(|key| player.send(key)));
    assert_eq!(played, live);
    player.assert_exited(0);
}
