//! A recording as an agent, on simulated time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_record::ahr::{Body, Mark, Record, Segment, Writer};
use nerve_testkit::mock_agent::{Agent, MockAgentOptions, Replay, ScreenSize};
use nerve_types::{ExitStatus, Origin, TsNs};
use tempfile::TempDir;

const START: u64 = 1_760_000_000_000_000_000;
const LATER: Duration = Duration::from_secs(3600);

/// A recording in the making: what happens at which millisecond.
pub(crate) struct Tape {
    dir: TempDir,
    writer: Writer,
    segment: Segment,
}

impl Tape {
    pub(crate) fn new() -> Tape {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::create(&dir.path().join("tape.ahr")).unwrap();
        Tape { dir, writer, segment: Segment::new(0) }
    }

    fn push(mut self, ms: u64, body: Body<'_>) -> Tape {
        self.segment.push(&Record { at: TsNs(START + ms * 1_000_000), body }).unwrap();
        self
    }

    pub(crate) fn out(self, ms: u64, bytes: impl AsRef<[u8]>) -> Tape {
        let off = self.segment.end();
        self.push(ms, Body::Data { off, bytes: bytes.as_ref() })
    }

    pub(crate) fn typed(self, ms: u64, bytes: impl AsRef<[u8]>) -> Tape {
        self.push(ms, Body::Input { bytes: bytes.as_ref() })
    }

    fn by(self, ms: u64, origin: Origin, redacted: bool, bytes: &str) -> Tape {
        self.push(ms, Body::Mark(Mark::Input { origin, redacted })).typed(ms, bytes)
    }

    /// What follows is in the next block.
    fn next_block(mut self) -> Tape {
        self.writer.append(&self.segment.seal(4, false)).unwrap();
        self.segment = Segment::new(self.segment.end());
        self
    }

    fn exits(self, ms: u64, status: ExitStatus) -> Tape {
        self.push(ms, Body::Mark(Mark::Exit(status)))
    }

    /// The recording's path; the folder goes with the guard.
    pub(crate) fn done(self) -> (TempDir, PathBuf) {
        let tape = self.next_block();
        (tape.dir, tape.writer.path().to_path_buf())
    }

    fn plays(self) -> Player {
        let (_dir, path) = self.done();
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

    /// What comes out until only input helps, or time is up.
    fn passes(&mut self, time: Duration) -> String {
        let (until, mut seen) = (self.now + time, self.replay.take_output());
        while let Some(next) = self.replay.deadline().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.replay.tick(self.now);
            seen.extend(self.replay.take_output());
        }
        self.now = until;
        String::from_utf8(seen).unwrap()
    }

    fn plays(&mut self) -> String {
        self.passes(LATER)
    }

    fn types(&mut self, bytes: &str) -> String {
        self.replay.input(bytes.as_bytes(), self.now);
        self.plays()
    }

    #[track_caller]
    fn ends(&mut self, code: i32) {
        assert_eq!(self.replay.exit_code(), Some(code));
        assert_eq!(self.replay.deadline(), None);
    }
}

#[test]
fn replay_waits_for_input_and_continues() {
    let mut player = Tape::new()
        .out(0, "> ")
        .typed(900, "hello\r")
        .out(950, "Hi!\r\n> ")
        .typed(2000, "bye\r")
        .out(2010, "Bye.\r\n")
        .exits(2100, ExitStatus::Code(7))
        .plays();
    assert_eq!(player.plays(), "> ");
    assert_eq!(player.replay.exit_code(), None);
    assert_eq!(player.replay.deadline(), None);
    assert_eq!(player.types("some"), "");
    assert_eq!(player.types(" other words"), "");
    assert_eq!(player.types("\r"), "Hi!\r\n> ");
    assert_eq!(player.types("\x1b[200~pasted\rtext\x1b[201~"), "");
    assert_eq!(player.types("\r"), "Bye.\r\n");
    player.ends(7);
}

#[test]
fn echo_follows_keys_and_typeahead_is_kept() {
    let typed = |tape: Tape, ms, key: &str| tape.typed(ms, key).out(ms + 1, key);
    let tape = typed(typed(Tape::new().out(0, "$ "), 10, "l"), 20, "s").typed(30, "\r").out(31, "a b\r\n");
    let mut player = tape.typed(40, "x\r").out(41, "end").plays();
    assert_eq!(player.plays(), "$ ");
    assert_eq!(player.types("l"), "l");
    assert_eq!(player.types("s\rx\r"), "sa b\r\nend");
    player.ends(0);
}

#[test]
fn pauses_are_recorded_ones_up_to_a_second() {
    let tape = || {
        Tape::new()
            .out(0, "a")
            .out(300, "b")
            .next_block()
            .out(90_000, "c")
            .typed(95_000, "\r")
            .out(95_200, "d")
    };
    let ms = Duration::from_millis;
    let mut player = tape().plays();
    assert_eq!(player.passes(ms(299)), "a");
    assert_eq!(player.passes(ms(1)), "b");
    assert_eq!(player.passes(ms(999)), "");
    assert_eq!(player.passes(ms(1)), "c");
    player.passes(LATER);
    player.replay.input(b"\r", player.now);
    assert_eq!(player.passes(ms(199)), "");
    assert_eq!(player.passes(ms(1)), "d");

    let (_dir, path) = tape().done();
    let mut fast = Player::new(&path, true);
    assert_eq!(fast.passes(Duration::ZERO), "abc");
    fast.replay.input(b"\r", fast.now);
    assert_eq!(fast.passes(Duration::ZERO), "d");
    fast.ends(0);
}

#[test]
fn terminal_responses_are_not_awaited() {
    let mut player = Tape::new()
        .out(0, "\x1b[c\x1b[6n")
        .by(1, Origin::Terminal, false, "\x1b[?62;22c")
        .by(2, Origin::Terminal, false, "typed? no\r")
        // Recorded without a mark, it is known by its form.
        .typed(3, "\x1b[12;40R\x1b]11;rgb:0/0/0\x07")
        .out(4, "ready")
        .by(5, Origin::Injected, false, "go\r")
        .out(6, "!")
        .plays();
    assert_eq!(player.plays(), "\x1b[c\x1b[6nready");
    assert_eq!(player.types("\x1b[?1;2c"), "");
    assert_eq!(player.types("go\r"), "!");
}

#[test]
fn redacted_password_matches_any_line() {
    let hidden = |tape: Tape, ms| tape.by(ms, Origin::User, true, "*");
    let tape = Tape::new().out(0, "Password: ");
    let tape = (1..=9).fold(tape, hidden).next_block();
    let mut player = hidden(tape, 10).out(20, "\r\nok ").typed(30, "x").out(31, "end").plays();
    assert_eq!(player.plays(), "Password: ");
    assert_eq!(player.types("secret of another length"), "");
    assert_eq!(player.types("\r"), "\r\nok ");
    assert_eq!(player.types("x"), "end");
}

#[test]
fn non_text_keys_are_awaited() {
    let tape =
        Tape::new().out(0, "1").typed(1, "\x1b").out(2, "2").typed(3, "\x03").out(4, "3").typed(5, "\x1b[A");
    let mut player = tape.out(6, "4").plays();
    assert_eq!(player.plays(), "1");
    assert_eq!(player.types("\x1b"), "2");
    assert_eq!(player.types("\x03"), "3");
    assert_eq!(player.types("\x1b[A"), "4");
}

#[test]
fn exit_code_is_recorded_one() {
    for (status, code) in [(ExitStatus::Code(3), 3), (ExitStatus::Signal(9), 137), (ExitStatus::Unknown, 1)] {
        let mut player = Tape::new().out(0, "a").exits(1, status).plays();
        assert_eq!(player.plays(), "a");
        player.ends(code);
    }
    let mut player = Tape::new().plays();
    assert_eq!(player.plays(), "");
    player.ends(0);
}

#[test]
fn damage_is_skipped() {
    let noise: String = (0..2000_u32).map(|n| char::from(b'a' + (n * n % 23) as u8)).collect();
    let tape = Tape::new().out(0, "first").next_block().out(1, noise).next_block().out(2, "last");
    let (_dir, path) = tape.done();
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(&path, bytes).unwrap();
    let mut player = Player::new(&path, false);
    assert_eq!(player.plays(), "firstlast");
    player.ends(0);
}

#[test]
fn long_output_comes_in_pieces() {
    let line = "x".repeat(4000);
    let tape = (0..100).fold(Tape::new(), |tape, _| tape.out(0, &line));
    let (_dir, path) = tape.done();
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

/// The scripted agent is recorded, and its recording is the same agent to somebody who asks the same things in another way.
#[test]
fn recorded_agent_is_driven_like_the_real_one() {
    let keys = ["hello", "\r", "TOOL", "\r", "/exit", "\r"];
    let mut agent = Agent::new(MockAgentOptions::default(), "/work", ScreenSize::DEFAULT);
    let (mut tape, mut now) = (Tape::new(), Duration::ZERO);
    let mut live = Vec::new();
    let look = |tape: Tape, agent: &mut Agent, now: Duration, answer: &mut Vec<u8>| {
        let bytes = agent.take_output();
        answer.extend_from_slice(&bytes);
        if bytes.is_empty() { tape } else { tape.out(u64::try_from(now.as_millis()).unwrap(), bytes) }
    };
    for key in [&[""][..], &keys].concat() {
        let mut answer = Vec::new();
        if !key.is_empty() {
            tape = tape.typed(u64::try_from(now.as_millis()).unwrap(), key);
            agent.input(key.as_bytes(), now);
        }
        tape = look(tape, &mut agent, now, &mut answer);
        while let Some(next) = agent.deadline() {
            now = next;
            agent.tick(now);
            tape = look(tape, &mut agent, now, &mut answer);
        }
        live.push(String::from_utf8(answer).unwrap());
    }
    assert_eq!(agent.exit_code(), Some(0));
    assert!(live[2].contains("said:") && live[4].contains("END-OF-TOOL"), "{live:?}");

    let mut player = tape.plays();
    let mut played = vec![player.plays()];
    played.extend(keys.iter().map(|key| player.types(key)));
    assert_eq!(played, live);
    player.ends(0);
}
