//! The mock agent on simulated time and a simulated screen.

use std::time::Duration;

use nerve_testkit::mock_agent::{Agent, MockAgentOptions, ScreenSize, parse_args};

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
        session.look();
        session
    }

    fn look(&mut self) -> usize {
        let bytes = self.agent.take_output();
        self.screen.feed(&bytes);
        self.bytes.extend_from_slice(&bytes);
        bytes.len()
    }

    fn keys(&mut self, bytes: &[u8]) -> &mut Session {
        self.agent.input(bytes, self.now);
        self.look();
        self
    }

    /// Lets time pass from deadline to deadline.
    fn pass(&mut self, time: Duration) -> &mut Session {
        let until = self.now + time;
        while let Some(next) = self.agent.deadline().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.agent.tick(self.now);
            self.look();
        }
        self.now = until;
        self.agent.tick(self.now);
        self.look();
        self
    }

    fn prompt(&mut self, text: &str) -> &mut Session {
        self.keys(text.as_bytes()).keys(b"\r")
    }

    /// A prompt and all the time it needs.
    fn ask(&mut self, text: &str) -> &mut Session {
        self.prompt(text).pass(Duration::from_secs(60))
    }

    fn escape(&mut self) -> &mut Session {
        self.keys(b"\x1b").pass(Duration::from_millis(100))
    }

    fn text(&self) -> String {
        self.screen.text()
    }

    #[track_caller]
    fn sees(&self, part: &str) {
        assert!(self.screen.all().contains(part), "{part:?} is not in\n{}", self.screen.all());
    }

    #[track_caller]
    fn sees_not(&self, part: &str) {
        assert!(!self.screen.all().contains(part), "{part:?} is in\n{}", self.screen.all());
    }

    fn title(&self) -> &str {
        self.screen.titles.last().map_or("", String::as_str)
    }
}

fn pasted(text: &str) -> Vec<u8> {
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
fn a_prompt_is_echoed_and_answered() {
    let mut session = Session::new("");
    session.keys(b"hello there");
    session.sees("❯\u{a0}hello there");
    session.keys(b"\r");
    session.sees("❯ hello there");
    session.sees("✶ Pondering…");
    session.sees("  ⏸ manual mode on · esc to interrupt");
    assert_eq!(session.title(), "◐ Mock Agent");
    session.pass(Duration::from_millis(30));
    session.sees("\n❯ hello there\n\n● You said: hello there\n\n✻ Worked for 0s\n\n───");
    session.sees("? for shortcuts");
    session.sees_not("Pondering");
    assert_eq!(session.title(), "✳ Mock Agent");
    assert_eq!(session.agent.deadline(), None, "an idle agent sleeps");
}

#[test]
fn idle_agent_writes_nothing() {
    let mut session = Session::new("");
    session.ask("hello");
    session.agent.tick(session.now + Duration::from_secs(3600));
    assert_eq!(session.look(), 0);
}

#[test]
fn conversation_is_in_scrollback_exactly_once() {
    let mut session = Session::new("");
    session.ask("HUGE 100").ask("LONG please").ask("again");
    for n in 1..=100 {
        let line = format!("  - line {n:03}: lorem");
        assert_eq!(session.screen.all().matches(&line).count(), 1, "{line}");
    }
    assert_eq!(session.screen.all().matches("END-OF-LONG").count(), 1);
    assert_eq!(session.screen.all().matches("⏸ manual mode on").count(), 1, "one live area");
    session.sees("● You said: again");
}

#[test]
fn gaps_are_written_as_jumps() {
    let mut session = Session::new("");
    session.ask("two words");
    assert!(String::from_utf8_lossy(&session.bytes).contains("You\x1b[7Gsaid:"));
}

#[test]
fn a_slow_answer_grows_word_by_word() {
    let mut session = Session::new("");
    session.prompt("SLOW please").pass(Duration::from_millis(200));
    session.sees("● You said: SLOW please\n\n  Slow words keep coming");
    session.sees_not("END-OF-SLOW");
    session.sees("esc to interrupt");
    session.sees_not("Pondering");
    session.pass(Duration::from_secs(10));
    session.sees("until the end. Slow words");
    session.sees("\n  END-OF-SLOW\n\n✻ Worked for 2s");
    let answer = session.screen.all();
    assert_eq!(answer.matches("coming").count(), 6);
}

#[test]
fn escape_and_ctrl_c_interrupt_answer() {
    for key in [&b"\x1b"[..], b"\x03"] {
        let mut session = Session::new("");
        session
            .prompt("SLOW please")
            .pass(Duration::from_millis(300))
            .keys(key)
            .pass(Duration::from_millis(100));
        session.sees("  ⎿ \u{a0}Interrupted · What should Claude do instead?");
        session.sees("? for shortcuts");
        let before = session.bytes.len();
        session.pass(Duration::from_secs(10));
        assert_eq!(session.bytes.len(), before, "nothing comes after it");
    }
}

#[test]
fn early_interrupt_returns_prompt() {
    let mut session = Session::new("");
    session.prompt("STALL 50 now").pass(Duration::from_secs(1)).escape();
    session.sees("❯\u{a0}STALL 50 now");
    session.sees_not("❯ STALL");
    session.sees_not("Interrupted");
    session.keys(b"\x15").ask("hello");
    session.sees("● You said: hello");
}

#[test]
fn a_stalled_agent_is_busy_and_silent() {
    let mut session = Session::new("--delay 0");
    session.prompt("STALL 30");
    session.pass(Duration::from_millis(1));
    let before = session.bytes.len();
    session.pass(Duration::from_millis(2900));
    assert_eq!(session.bytes.len(), before);
    session.sees("esc to interrupt");
    session.pass(Duration::from_millis(200));
    session.sees("You said: STALL 30");
}

#[test]
fn tool_runs_without_permission() {
    let mut session = Session::new("");
    session.ask("TOOL");
    session.sees("● I will run a command.\n\n● Bash(echo hello)\n  ⎿ \u{a0}hello\n\n● The tool said: hello\n  END-OF-TOOL\n\n✻ Worked");
}

#[test]
fn permission_is_requested_and_granted() {
    let mut session = Session::new("");
    session.ask("PERMIT");
    let dashes = "╌".repeat(COLS);
    session.sees(&format!(
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
    session.keys(b"y").pass(Duration::from_secs(1));
    session.sees("Do you want to proceed?");
    session.keys(b"\r").pass(Duration::from_secs(1));
    session.sees_not("Do you want to proceed?");
    session.sees_not("Waiting…");
    session.sees("  ⎿ \u{a0}-rw-r--r-- 1 mock mock 0 Jan 1 00:00 made-by-tool.txt\n\n● The tool said: -rw");
    session.sees("END-OF-TOOL\n\n✻ Worked");
}

#[test]
fn escape_or_no_rejects_permission() {
    for keys in [&b"\x1b"[..], b"4", b"\x1b[A\r"] {
        let mut session = Session::new("");
        session.ask("PERMIT").keys(keys).pass(Duration::from_secs(1));
        session.sees("made-by-tool.txt)\n  ⎿ \u{a0}Interrupted");
        session.sees_not("The tool said");
        session.sees("? for shortcuts");
    }
}

#[test]
fn permanent_permission_is_not_requested_again() {
    let mut session = Session::new("");
    session.ask("PERMIT").keys(b"2").pass(Duration::from_secs(1)).ask("PERMIT");
    assert_eq!(session.screen.all().matches("END-OF-TOOL").count(), 2);
}

#[test]
fn keys_right_after_a_permission_dialog_can_be_lost() {
    let mut session = Session::new("--delay 0 --dialog-grace 150");
    session.prompt("PERMIT").pass(Duration::from_millis(100)).keys(b"\r").pass(Duration::from_millis(200));
    session.sees("Do you want to proceed?");
    session.keys(b"\r").pass(Duration::from_secs(1));
    session.sees("END-OF-TOOL");
}

#[test]
fn quoted_marks_are_indented() {
    let mut session = Session::new("");
    session.ask("QUOTE");
    session.sees("\n  ❯ 1. Yes\n");
    session.sees("\n  esc to interrupt\n");
    session.sees("END-OF-QUOTE");
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
        session.ask(prompt);
        session.sees(part);
        session.sees("? for shortcuts");
    }
}

#[test]
fn bad_bytes_and_long_lines_have_stated_size() {
    let mut session = Session::new("");
    session.ask("BADUTF8");
    assert!(std::str::from_utf8(&session.bytes).is_err());
    session.ask("HUGELINE");
    let longest = session.bytes.split(|&b| b == b'\n').map(<[u8]>::len).max().unwrap();
    assert!(longest >= 1_000_000);
}

#[test]
fn flood_has_requested_size_and_can_be_interrupted() {
    let mut session = Session::new("");
    session.ask("FLOOD 2");
    assert!(session.bytes.len() > 2 << 20, "{}", session.bytes.len());
    session.sees("END-OF-FLOOD");
    session.prompt("FLOOD 4000");
    session.now += Duration::from_millis(20);
    session.agent.tick(session.now);
    session.look();
    session.keys(b"\x03");
    session.sees("Interrupted");
    assert_eq!(session.agent.deadline(), None);
}

#[test]
fn a_progress_row_is_redrawn_in_place_many_times() {
    let mut session = Session::new("");
    session.ask("CR");
    assert!(session.bytes.iter().filter(|&&b| b == b'\r').count() > 2000);
    assert_eq!(session.screen.all().matches("[####").count(), 1);
    session.sees("● Bash(make)\n  ⎿ \u{a0}[########################################] 100%\n\n● END-OF-CR");
}

#[test]
fn the_spinner_counts_tokens() {
    let mut session = Session::new("");
    session.prompt("TOKENS").pass(Duration::from_millis(300));
    session.sees("✶ Pondering… (2s · ↓ 83 tokens · thinking)");
}

#[test]
fn a_crash_ends_in_mid_answer() {
    let mut session = Session::new("");
    session.ask("CRASH");
    session.sees("This answer does not end because");
    assert_eq!(session.agent.exit_code(), Some(70));
    assert_eq!(session.screen.mode("?2004"), Some(true), "a crash cleans nothing up");
}

#[test]
fn exit_restores_terminal() {
    for leave in [&b"EXIT\r"[..], b"/exit\r", b"\x04"] {
        let mut session = Session::new("");
        for key in leave {
            session.keys(&[*key]);
        }
        session.pass(Duration::from_secs(1));
        assert_eq!(session.agent.exit_code(), Some(0), "{leave:?}");
        assert_eq!(session.screen.mode("?2004"), Some(false));
        assert_eq!(session.title(), "");
    }
}

#[test]
fn second_ctrl_c_exits() {
    let mut session = Session::new("");
    session.keys(b"\x03");
    session.sees("\n  Press Ctrl-C again to exit");
    session.keys(b"x\x7f").sees_not("Press Ctrl-C");
    session.keys(b"\x03").keys(b"\x03");
    assert_eq!(session.agent.exit_code(), Some(0));
}

#[test]
fn hanging_agent_ignores_input() {
    let mut session = Session::new("");
    session.ask("HANG").keys(b"\x03").keys(b"\x03").escape();
    session.sees("esc to interrupt");
    assert_eq!(session.agent.exit_code(), None);
}

#[test]
fn interrupts_can_be_ignored() {
    let mut session = Session::new("--ignore-interrupt");
    session.keys(b"\x03\x03");
    assert_eq!(session.agent.exit_code(), None);
    session
        .prompt("SLOW")
        .pass(Duration::from_millis(300))
        .keys(b"\x03")
        .escape()
        .pass(Duration::from_secs(10));
    session.sees("END-OF-SLOW");
}

#[test]
fn long_paste_becomes_chip_and_is_sent_in_full() {
    let text: Vec<String> = (1..=30).map(|n| format!("row {n}")).collect();
    let mut session = Session::new("");
    session.keys(&pasted(&text.join("\n")));
    session.sees("❯\u{a0}[Pasted text #1 +29 lines]");
    session.sees("  paste again to expand");
    session.keys(b"\r").pass(Duration::from_secs(1));
    session.sees("❯ [Pasted text #1 +29 lines]");
    session.sees("● You said: row 1\n  row 2\n");
    session.sees("  row 30\n\n✻");
}

#[test]
fn a_short_paste_is_text_and_its_lines_are_indented() {
    let mut session = Session::new("");
    session.keys(&pasted("one\rtwo\r\nthree"));
    session.sees("❯\u{a0}one\n  two\n  three\n───");
    session.keys(b"\r").pass(Duration::from_secs(1));
    session.sees("❯ one\n  two\n  three\n\n● You said: one\n  two\n  three");
}

#[test]
fn chips_can_be_switched_off() {
    let mut session = Session::new("--no-paste-chip");
    session.keys(&pasted(&"x".repeat(900)));
    session.sees_not("[Pasted");
}

#[test]
fn three_ways_to_type_a_line_end() {
    let mut session = Session::new("");
    session.keys(b"a\x1b\rb\nc\\").keys(b"\r").keys(b"d");
    session.sees("❯\u{a0}a\n  b\n  c\n  d\n───");
    session.keys(b"\x15");
    session.sees("❯\u{a0}\n───");
}

#[test]
fn enter_within_a_burst_is_a_line_end() {
    let mut session = Session::new("");
    session.keys(format!("{}\r", "x".repeat(300)).as_bytes()).pass(Duration::from_secs(1));
    session.sees_not("You said");
    session.keys(b"\r").pass(Duration::from_secs(1));
    session.sees("You said");
}

#[test]
fn the_first_enters_after_a_paste_can_be_swallowed() {
    let mut session = Session::new("--swallow-enter 2");
    session.ask("typed");
    session.sees("You said: typed");
    session.keys(&pasted("pasted")).keys(b"\r").keys(b"\r").pass(Duration::from_secs(1));
    session.sees_not("You said: pasted");
    session.keys(b"\r").pass(Duration::from_secs(1));
    session.sees("You said: pasted");
}

#[test]
fn early_input_is_lost_despite_composer() {
    let mut session = Session::new("--slow-start 500");
    session.sees("? for shortcuts");
    session.keys(b"lost").pass(Duration::from_millis(600)).keys(b"kept");
    session.sees("❯\u{a0}kept");
}

#[test]
fn prompts_queue_while_busy() {
    let mut session = Session::new("");
    session.prompt("STALL 5 first").prompt("second");
    session.sees_not("❯ second");
    session.pass(Duration::from_secs(5));
    session.sees("● You said: STALL 5 first\n\n✻ Worked for 0s\n\n❯ second\n\n● You said: second");
}

#[test]
fn can_stop_reading_after_first_prompt() {
    let mut session = Session::new("--stop-reading");
    assert!(session.agent.wants_input());
    session.prompt("hello");
    assert!(!session.agent.wants_input());
}

#[test]
fn trust_dialog_comes_first_and_enter_exits() {
    let mut session = Session::new("--onboarding");
    session.sees(" Accessing workspace:\n\n /home/me/project\n");
    session.sees("\n ❯ No, exit\n   Yes, I trust this folder\n\n Enter to confirm · Esc to cancel");
    session.sees_not("? for shortcuts");
    session.keys(b"\r");
    assert_eq!(session.agent.exit_code(), Some(1));

    let mut session = Session::new("--onboarding");
    session.keys(b"\x1b[B").keys(b"\r");
    session.sees_not("Accessing workspace");
    session.ask("hello");
    session.sees("You said: hello");
}

#[test]
fn theme_and_login_dialogs_can_come_first() {
    let mut session = Session::new("--theme --login --onboarding");
    session.sees("Choose the text style");
    session.keys(b"\r");
    session.sees("Select login method:");
    session.keys(b"2");
    session.sees("Accessing workspace");
}

#[test]
fn agent_can_be_never_ready_or_exit_at_once() {
    let mut session = Session::new("--never-ready");
    session.keys(b"hello\r\x03\x03").pass(Duration::from_secs(100));
    session.sees("Starting…");
    session.sees_not("❯");
    assert_eq!(session.agent.exit_code(), None);
    assert_eq!(Session::new("--exit-at-once 3").agent.exit_code(), Some(3));
}

#[test]
fn the_title_can_be_left_alone() {
    assert!(Session::new("--no-title").ask("hello").screen.titles.is_empty());
}

#[test]
fn escape_sequences_in_prompt_are_removed() {
    let mut session = Session::new("");
    session.keys(&pasted("a\x1b[2Jb\x07c")).keys(b"\r").pass(Duration::from_secs(1));
    session.sees("● You said: a[2Jbc");
}

#[test]
fn prompt_of_a_megabyte_is_sent_in_full() {
    let mut session = Session::new("");
    session.keys(&pasted(&"word ".repeat(200_000))).keys(b"\r").pass(Duration::from_secs(1));
    session.sees("❯ [Pasted text #1]");
    assert_eq!(session.screen.all().matches("word").count(), 200_000);
}

#[test]
fn full_screen_shows_same_content() {
    let mut session = Session::new("--full-screen");
    assert_eq!(session.screen.mode("?1049"), Some(true));
    session
        .ask("first")
        .ask("HUGE 100")
        .ask("PERMIT")
        .keys(b"\r")
        .pass(Duration::from_secs(1))
        .ask("CR")
        .ask("last one");
    assert!(session.screen.scrollback.is_empty());
    session.sees("● You said: last one\n\n✻ Worked for 0s\n\n────");
    let rows: Vec<String> = session.text().lines().map(String::from).collect();
    assert_eq!(rows.len(), ROWS);
    assert_eq!(rows[ROWS - 1], "  ⏸ manual mode on · ? for shortcuts");
    assert_eq!(rows[ROWS - 3], "❯\u{a0}");
    assert_eq!(session.screen.cursor(), (ROWS - 3, 2));
    assert!(!session.bytes.windows(2).any(|pair| pair == b"\r\n"));
    session.keys(b"/exit").keys(b"\r");
    assert_eq!(session.screen.mode("?1049"), Some(false));
}

#[test]
fn resize_redraws_at_once() {
    for flags in ["", "--full-screen"] {
        let mut session = Session::new(flags);
        session.ask("hello");
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
