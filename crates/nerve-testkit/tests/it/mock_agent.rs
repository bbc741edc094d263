//! The mock agent on simulated time and a simulated screen.

use std::time::Duration;

use nerve_testkit::mock_agent::{Agent, MockAgentOptions, Program, ScreenSize, parse_args};

use crate::screen::Screen;

const COLS: usize = 100;
const ROWS: usize = 30;

struct Session {
    agent: Agent,
    screen: Screen,
    now: Duration,
    bytes: Vec<u8>,
}

impl Session {
    fn new(flags: &str) -> Session {
        let options = parse_args(flags.split_whitespace().map(String::from)).unwrap();
        Session::with(options)
    }

    fn with(options: MockAgentOptions) -> Session {
        let agent = Agent::new(options, "/home/me/project", ScreenSize { cols: COLS, rows: ROWS });
        let mut session =
            Session { agent, screen: Screen::new(COLS, ROWS), now: Duration::ZERO, bytes: Vec::new() };
        session.drain();
        session
    }

    fn drain(&mut self) -> usize {
        let bytes = self.agent.take_output();
        self.screen.feed(&bytes);
        self.bytes.extend_from_slice(&bytes);
        bytes.len()
    }

    fn send(&mut self, bytes: &[u8]) -> &mut Session {
        self.agent.input(bytes, self.now);
        self.drain();
        self
    }

    /// Advances the time from deadline to deadline.
    fn advance(&mut self, time: Duration) -> &mut Session {
        let until = self.now + time;
        while let Some(next) = self.agent.deadline().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.agent.tick(self.now);
            self.drain();
        }
        self.now = until;
        self.agent.tick(self.now);
        self.drain();
        self
    }

    fn submit(&mut self, text: &str) -> &mut Session {
        self.send(text.as_bytes()).send(b"\r")
    }

    /// Submits a prompt and advances the time until the turn has ended.
    fn run_turn(&mut self, text: &str) -> &mut Session {
        self.submit(text).advance(Duration::from_secs(60))
    }

    fn press_escape(&mut self) -> &mut Session {
        self.send(b"\x1b").advance(Duration::from_millis(100))
    }

    fn text(&self) -> String {
        self.screen.text()
    }

    #[track_caller]
    fn expect(&self, part: &str) {
        assert!(self.screen.all().contains(part), "{part:?} is not in\n{}", self.screen.all());
    }

    #[track_caller]
    fn expect_absent(&self, part: &str) {
        assert!(!self.screen.all().contains(part), "{part:?} is in\n{}", self.screen.all());
    }

    fn title(&self) -> &str {
        self.screen.titles.last().map_or("", String::as_str)
    }
}

fn bracketed_paste(text: &str) -> Vec<u8> {
    format!("\x1b[200~{text}\x1b[201~").into_bytes()
}

#[test]
fn starts_with_header_and_empty_composer() {
    let session = Session::new("");
    let rule = "─".repeat(COLS);
    let expected = format!(
        " ▛▀▀▀▜  Mock Agent v{}
 ▌▝ ▘▐  Scripted answers · no network
 ▙▄▄▄▟  /home/me/project


{rule}
❯\u{a0}
{rule}
  ⏸ manual mode on · ? for shortcuts",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(session.text(), expected);
    assert_eq!(session.screen.cursor(), (6, 2));
    assert_eq!(session.screen.mode("?2004"), Some(true));
    assert_eq!(session.title(), "✳ Mock Agent");
}

#[test]
fn prompt_is_echoed_and_answered() {
    let mut session = Session::new("");
    session.send(b"hello there");
    session.expect("❯\u{a0}hello there");
    session.send(b"\r");
    session.expect("❯ hello there");
    session.expect("✶ Pondering…");
    session.expect("  ⏸ manual mode on · esc to interrupt");
    assert_eq!(session.title(), "◐ Mock Agent");
    session.advance(Duration::from_millis(30));
    session.expect("\n❯ hello there\n\n● You said: hello there\n\n✻ Worked for 0s\n\n───");
    session.expect("? for shortcuts");
    session.expect_absent("Pondering");
    assert_eq!(session.title(), "✳ Mock Agent");
    assert_eq!(session.agent.deadline(), None, "idle agent has a deadline");
}

#[test]
fn idle_agent_writes_nothing() {
    let mut session = Session::new("");
    session.run_turn("hello");
    session.agent.tick(session.now + Duration::from_secs(3600));
    assert_eq!(session.drain(), 0);
}

#[test]
fn conversation_is_in_scrollback_exactly_once() {
    let mut session = Session::new("");
    session.run_turn("HUGE 100").run_turn("LONG please").run_turn("again");
    for n in 1..=100 {
        let line = format!("  - line {n:03}: lorem");
        assert_eq!(session.screen.all().matches(&line).count(), 1, "{line}");
    }
    assert_eq!(session.screen.all().matches("END-OF-LONG").count(), 1);
    assert_eq!(session.screen.all().matches("⏸ manual mode on").count(), 1, "more than one live area");
    session.expect("● You said: again");
}

#[test]
fn gaps_are_written_as_cursor_jumps() {
    let mut session = Session::new("");
    session.run_turn("two words");
    assert!(String::from_utf8_lossy(&session.bytes).contains("You\x1b[7Gsaid:"));
}

#[test]
fn slow_answer_grows_word_by_word() {
    let mut session = Session::new("");
    session.submit("SLOW please").advance(Duration::from_millis(200));
    session.expect("● You said: SLOW please\n\n  Slow words keep coming");
    session.expect_absent("END-OF-SLOW");
    session.expect("esc to interrupt");
    session.expect_absent("Pondering");
    session.advance(Duration::from_secs(10));
    session.expect("until the end. Slow words");
    session.expect("\n  END-OF-SLOW\n\n✻ Worked for 2s");
    let answer = session.screen.all();
    assert_eq!(answer.matches("coming").count(), 6);
}

#[test]
fn escape_and_ctrl_c_interrupt_answer() {
    for key in [&b"\x1b"[..], b"\x03"] {
        let mut session = Session::new("");
        session
            .submit("SLOW please")
            .advance(Duration::from_millis(300))
            .send(key)
            .advance(Duration::from_millis(100));
        session.expect("  ⎿ \u{a0}Interrupted · What should Claude do instead?");
        session.expect("? for shortcuts");
        let before = session.bytes.len();
        session.advance(Duration::from_secs(10));
        assert_eq!(session.bytes.len(), before, "output after the interrupt");
    }
}

#[test]
fn early_interrupt_returns_prompt() {
    let mut session = Session::new("");
    session.submit("STALL 50 now").advance(Duration::from_secs(1)).press_escape();
    session.expect("❯\u{a0}STALL 50 now");
    session.expect_absent("❯ STALL");
    session.expect_absent("Interrupted");
    session.send(b"\x15").run_turn("hello");
    session.expect("● You said: hello");
}

#[test]
fn stalled_agent_is_busy_and_silent() {
    let mut session = Session::new("--delay 0");
    session.submit("STALL 30");
    session.advance(Duration::from_millis(1));
    let before = session.bytes.len();
    session.advance(Duration::from_millis(2900));
    assert_eq!(session.bytes.len(), before);
    session.expect("esc to interrupt");
    session.advance(Duration::from_millis(200));
    session.expect("You said: STALL 30");
}

#[test]
fn tool_runs_without_permission() {
    let mut session = Session::new("");
    session.run_turn("TOOL");
    session.expect("● I will run a command.\n\n● Bash(echo hello)\n  ⎿ \u{a0}hello\n\n● The tool said: hello\n  END-OF-TOOL\n\n✻ Worked");
}

#[test]
fn permission_is_requested_and_granted() {
    let mut session = Session::new("");
    session.run_turn("PERMIT");
    let dashes = "╌".repeat(COLS);
    session.expect(&format!(
        "● Bash(touch made-by-tool.txt && ls -l made-by-tool.txt)
  ⎿ \u{a0}Waiting…

{}
 Bash command
 Tip: auto mode handles these prompts for you — choose \"switch to auto mode\" below
 Run the scripted command
{dashes}
 touch made-by-tool.txt && ls -l made-by-tool.txt
{dashes}
 Do you want to proceed?
 ❯ 1. Yes
   2. Yes, and always allow access to /home/me/project from this project
   3. Yes, and switch to auto mode · auto mode handles these prompts for you
   4. No

 Esc to cancel · Tab to amend",
        "─".repeat(COLS)
    ));
    assert_eq!(session.title(), "✳ Mock Agent");
    session.send(b"y").advance(Duration::from_secs(1));
    session.expect("Do you want to proceed?");
    session.send(b"\r").advance(Duration::from_secs(1));
    session.expect_absent("Do you want to proceed?");
    session.expect_absent("Waiting…");
    session.expect("  ⎿ \u{a0}-rw-r--r-- 1 mock mock 0 Jan 1 00:00 made-by-tool.txt\n\n● The tool said: -rw");
    session.expect("END-OF-TOOL\n\n✻ Worked");
}

#[test]
fn escape_or_no_rejects_permission() {
    for keys in [&b"\x1b"[..], b"4", b"\x1b[A\r"] {
        let mut session = Session::new("");
        session.run_turn("PERMIT").send(keys).advance(Duration::from_secs(1));
        session.expect("made-by-tool.txt)\n  ⎿ \u{a0}Interrupted");
        session.expect_absent("The tool said");
        session.expect("? for shortcuts");
    }
}

#[test]
fn permanent_permission_is_not_requested_again() {
    let mut session = Session::new("");
    session.run_turn("PERMIT").send(b"2").advance(Duration::from_secs(1)).run_turn("PERMIT");
    assert_eq!(session.screen.all().matches("END-OF-TOOL").count(), 2);
}

#[test]
fn keys_after_permission_dialog_can_be_lost() {
    let mut session = Session::new("--delay 0 --dialog-grace 150");
    session
        .submit("PERMIT")
        .advance(Duration::from_millis(100))
        .send(b"\r")
        .advance(Duration::from_millis(200));
    session.expect("Do you want to proceed?");
    session.send(b"\r").advance(Duration::from_secs(1));
    session.expect("END-OF-TOOL");
}

#[test]
fn quoted_marks_are_indented() {
    let mut session = Session::new("");
    session.run_turn("QUOTE");
    session.expect("\n  ❯ 1. Yes\n");
    session.expect("\n  esc to interrupt\n");
    session.expect("END-OF-QUOTE");
}

#[test]
fn unusual_answers_end_correctly() {
    for (prompt, part) in [
        ("WIDE", "END-OF-WIDE"),
        ("HUGELINE", "END-OF-HUGELINE"),
        ("BADUTF8", "END-OF-BADUTF8"),
        ("THINK", "  Thought for 2s (ctrl+o to expand)\n\n● You said: THINK"),
        ("ERR 500", "● API Error: 500 scripted error\n\n────"),
    ] {
        let mut session = Session::new("");
        session.run_turn(prompt);
        session.expect(part);
        session.expect("? for shortcuts");
    }
}

#[test]
fn bad_bytes_and_long_lines_have_requested_size() {
    let mut session = Session::new("");
    session.run_turn("BADUTF8");
    assert!(std::str::from_utf8(&session.bytes).is_err());
    session.run_turn("HUGELINE");
    let longest = session.bytes.split(|&b| b == b'\n').map(<[u8]>::len).max().unwrap();
    assert!(longest >= 1_000_000);
}

#[test]
fn flood_has_requested_size_and_can_be_interrupted() {
    let mut session = Session::new("");
    session.run_turn("FLOOD 2");
    assert!(session.bytes.len() > 2 << 20, "{}", session.bytes.len());
    session.expect("END-OF-FLOOD");
    session.submit("FLOOD 4000");
    session.now += Duration::from_millis(20);
    session.agent.tick(session.now);
    session.drain();
    session.send(b"\x03");
    session.expect("Interrupted");
    assert_eq!(session.agent.deadline(), None);
}

#[test]
fn progress_row_is_redrawn_in_place() {
    let mut session = Session::new("");
    session.run_turn("CR");
    assert!(session.bytes.iter().filter(|&&b| b == b'\r').count() > 2000);
    assert_eq!(session.screen.all().matches("[####").count(), 1);
    session.expect("● Bash(make)\n  ⎿ \u{a0}[########################################] 100%\n\n● END-OF-CR");
}

#[test]
fn spinner_counts_tokens() {
    let mut session = Session::new("");
    session.submit("TOKENS").advance(Duration::from_millis(300));
    session.expect("✶ Pondering… (2s · ↓ 83 tokens · thinking)");
}

#[test]
fn crash_ends_agent_during_answer() {
    let mut session = Session::new("");
    session.run_turn("CRASH");
    session.expect("This answer does not end because");
    assert_eq!(session.agent.exit_code(), Some(70));
    assert_eq!(session.screen.mode("?2004"), Some(true), "crash must not restore modes");
}

#[test]
fn exit_restores_terminal() {
    for leave in [&b"EXIT\r"[..], b"/exit\r", b"\x04"] {
        let mut session = Session::new("");
        for key in leave {
            session.send(&[*key]);
        }
        session.advance(Duration::from_secs(1));
        assert_eq!(session.agent.exit_code(), Some(0), "{leave:?}");
        assert_eq!(session.screen.mode("?2004"), Some(false));
        assert_eq!(session.title(), "");
    }
}

#[test]
fn second_ctrl_c_exits() {
    let mut session = Session::new("");
    session.send(b"\x03");
    session.expect("\n  Press Ctrl-C again to exit");
    session.send(b"x\x7f").expect_absent("Press Ctrl-C");
    session.send(b"\x03").send(b"\x03");
    assert_eq!(session.agent.exit_code(), Some(0));
}

#[test]
fn hanging_agent_ignores_input() {
    let mut session = Session::new("");
    session.run_turn("HANG").send(b"\x03").send(b"\x03").press_escape();
    session.expect("esc to interrupt");
    assert_eq!(session.agent.exit_code(), None);
}

#[test]
fn interrupts_can_be_ignored() {
    let mut session = Session::new("--ignore-interrupt");
    session.send(b"\x03\x03");
    assert_eq!(session.agent.exit_code(), None);
    session
        .submit("SLOW")
        .advance(Duration::from_millis(300))
        .send(b"\x03")
        .press_escape()
        .advance(Duration::from_secs(10));
    session.expect("END-OF-SLOW");
}

#[test]
fn long_paste_becomes_chip_and_is_sent_in_full() {
    let text: Vec<String> = (1..=30).map(|n| format!("row {n}")).collect();
    let mut session = Session::new("");
    session.send(&bracketed_paste(&text.join("\n")));
    session.expect("❯\u{a0}[Pasted text #1 +29 lines]");
    session.expect("  paste again to expand");
    session.send(b"\r").advance(Duration::from_secs(1));
    session.expect("❯ [Pasted text #1 +29 lines]");
    session.expect("● You said: row 1\n  row 2\n");
    session.expect("  row 30\n\n✻");
}

#[test]
fn short_paste_is_shown_with_indented_lines() {
    let mut session = Session::new("");
    session.send(&bracketed_paste("one\rtwo\r\nthree"));
    session.expect("❯\u{a0}one\n  two\n  three\n───");
    session.send(b"\r").advance(Duration::from_secs(1));
    session.expect("❯ one\n  two\n  three\n\n● You said: one\n  two\n  three");
}

#[test]
fn chips_can_be_switched_off() {
    let mut session = Session::new("--no-paste-chip");
    session.send(&bracketed_paste(&"x".repeat(900)));
    session.expect_absent("[Pasted");
}

#[test]
fn three_keys_insert_a_line_end() {
    let mut session = Session::new("");
    session.send(b"a\x1b\rb\nc\\").send(b"\r").send(b"d");
    session.expect("❯\u{a0}a\n  b\n  c\n  d\n───");
    session.send(b"\x15");
    session.expect("❯\u{a0}\n───");
}

#[test]
fn enter_within_a_burst_is_a_line_end() {
    let mut session = Session::new("");
    session.send(format!("{}\r", "x".repeat(300)).as_bytes()).advance(Duration::from_secs(1));
    session.expect_absent("You said");
    session.send(b"\r").advance(Duration::from_secs(1));
    session.expect("You said");
}

#[test]
fn first_enters_after_paste_can_be_ignored() {
    let mut session = Session::new("--swallow-enter 2");
    session.run_turn("typed");
    session.expect("You said: typed");
    session.send(&bracketed_paste("pasted")).send(b"\r").send(b"\r").advance(Duration::from_secs(1));
    session.expect_absent("You said: pasted");
    session.send(b"\r").advance(Duration::from_secs(1));
    session.expect("You said: pasted");
}

#[test]
fn early_input_can_be_lost_despite_composer() {
    let mut session = Session::new("--slow-start 500");
    session.expect("? for shortcuts");
    session.send(b"lost").advance(Duration::from_millis(600)).send(b"kept");
    session.expect("❯\u{a0}kept");
}

#[test]
fn prompts_queue_while_busy() {
    let mut session = Session::new("");
    session.submit("STALL 5 first").submit("second");
    session.expect_absent("❯ second");
    session.advance(Duration::from_secs(5));
    session.expect("● You said: STALL 5 first\n\n✻ Worked for 0s\n\n❯ second\n\n● You said: second");
}

#[test]
fn can_stop_reading_after_first_prompt() {
    let mut session = Session::new("--stop-reading");
    assert!(session.agent.wants_input());
    session.submit("hello");
    assert!(!session.agent.wants_input());
}

#[test]
fn trust_dialog_comes_first_and_enter_exits() {
    let mut session = Session::new("--onboarding");
    session.expect(" Accessing workspace:\n\n /home/me/project\n");
    session.expect("\n ❯ No, exit\n   Yes, I trust this folder\n\n Enter to confirm · Esc to cancel");
    session.expect_absent("? for shortcuts");
    session.send(b"\r");
    assert_eq!(session.agent.exit_code(), Some(1));

    let mut session = Session::new("--onboarding");
    session.send(b"\x1b[B").send(b"\r");
    session.expect_absent("Accessing workspace");
    session.run_turn("hello");
    session.expect("You said: hello");
}

#[test]
fn theme_and_login_dialogs_can_come_first() {
    let mut session = Session::new("--theme --login --onboarding");
    session.expect("Choose the text style");
    session.send(b"\r");
    session.expect("Select login method:");
    session.send(b"2");
    session.expect("Accessing workspace");
}

#[test]
fn agent_can_be_never_ready_or_exit_at_once() {
    let mut session = Session::new("--never-ready");
    session.send(b"hello\r\x03\x03").advance(Duration::from_secs(100));
    session.expect("Starting…");
    session.expect_absent("❯");
    assert_eq!(session.agent.exit_code(), None);
    assert_eq!(Session::new("--exit-at-once 3").agent.exit_code(), Some(3));
}

#[test]
fn title_can_stay_unchanged() {
    assert!(Session::new("--no-title").run_turn("hello").screen.titles.is_empty());
}

#[test]
fn escape_sequences_in_prompt_are_removed() {
    let mut session = Session::new("");
    session.send(&bracketed_paste("a\x1b[2Jb\x07c")).send(b"\r").advance(Duration::from_secs(1));
    session.expect("● You said: a[2Jbc");
}

#[test]
fn prompt_of_a_megabyte_is_sent_in_full() {
    let mut session = Session::new("");
    session.send(&bracketed_paste(&"word ".repeat(200_000))).send(b"\r").advance(Duration::from_secs(1));
    session.expect("❯ [Pasted text #1]");
    assert_eq!(session.screen.all().matches("word").count(), 200_000);
}

#[test]
fn full_screen_shows_same_content() {
    let mut session = Session::new("--full-screen");
    assert_eq!(session.screen.mode("?1049"), Some(true));
    session
        .run_turn("first")
        .run_turn("HUGE 100")
        .run_turn("PERMIT")
        .send(b"\r")
        .advance(Duration::from_secs(1))
        .run_turn("CR")
        .run_turn("last one");
    assert!(session.screen.scrollback.is_empty());
    session.expect("● You said: last one\n\n✻ Worked for 0s\n\n────");
    let rows: Vec<String> = session.text().lines().map(String::from).collect();
    assert_eq!(rows.len(), ROWS);
    assert_eq!(rows[ROWS - 1], "  ⏸ manual mode on · ? for shortcuts");
    assert_eq!(rows[ROWS - 3], "❯\u{a0}");
    assert_eq!(session.screen.cursor(), (ROWS - 3, 2));
    assert!(!session.bytes.windows(2).any(|pair| pair == b"\r\n"));
    session.send(b"/exit").send(b"\r");
    assert_eq!(session.screen.mode("?1049"), Some(false));
}

#[test]
fn resize_redraws_at_once() {
    for flags in ["", "--full-screen"] {
        let mut session = Session::new(flags);
        session.run_turn("hello");
        session.agent.resize(ScreenSize { cols: 40, rows: 10 });
        let bytes = String::from_utf8(session.agent.take_output()).unwrap();
        assert!(bytes.contains(&"─".repeat(40)) && !bytes.contains(&"─".repeat(41)));
    }
}

#[test]
fn tiny_terminal_works() {
    for flags in ["", "--full-screen", "--onboarding"] {
        let options = parse_args(flags.split_whitespace().map(String::from)).unwrap();
        let mut agent = Agent::new(options, "/", ScreenSize { cols: 1, rows: 1 });
        for prompt in ["PERMIT\r", "1", "LONG\r", "CR\r", "WIDE\r", "QUOTE\r"] {
            agent.input(prompt.as_bytes(), Duration::ZERO);
            agent.tick(Duration::from_secs(1));
        }
        assert!(!agent.take_output().is_empty());
    }
}
