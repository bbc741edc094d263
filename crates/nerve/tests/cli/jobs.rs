//! `nerve` as a job of a shell: in the background, stopped, and in the foreground again.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nerve_record::ahr::Body;
use nerve_term::event::Size;
use nerve_testkit::{wait_for, wait_until};
use rustix::process::Signal;
use rustix::termios::{LocalModes, OutputModes, tcgetattr};

use crate::harness::{Home, NERVE, signal};
use crate::recordings::{data, record};
use crate::tty::{LIMIT, Seat};

const SIZE: Size = Size { cols: 100, rows: 24 };
/// Says when it runs, and what it is told. What is typed for a shell has other words than what it makes of them.
const ASKS: &str = "'echo u\"\"p; read a; echo got $a; exit 6'";

/// A shell that people sit at.
fn shell(home: &Home) -> Seat {
    let mut bash = home.hermetic.command("bash");
    bash.args(["--norc", "--noprofile", "-i"]).env("NERVE", NERVE).env("PS1", "shell> ");
    bash.current_dir(home.hermetic.work());
    let seat = Seat::with_stderr(bash, SIZE);
    seat.sees("shell>");
    seat
}

/// Somebody reads single keys of the terminal. (An editor of lines, as a shell has, leaves what is written as it is.)
#[track_caller]
fn is_raw(seat: &Seat, raw: bool) {
    let is_raw = || !tcgetattr(&seat.slave).unwrap().output_modes.contains(OutputModes::OPOST);
    assert!(wait_until(LIMIT, || is_raw() == raw), "raw: {}\n{}", is_raw(), seat.text());
}

/// The shell takes lines, and says this of the one before.
#[track_caller]
fn is_shells(seat: &Seat, code: u8) {
    is_raw(seat, false);
    seat.types("code=$?; clear; echo shell''s $code\r");
    seat.sees(&format!("shells {code}"));
}

/// The process that the shell has started last.
fn job(seat: &Seat) -> u32 {
    let bash = seat.child.id();
    let children = || fs::read_to_string(format!("/proc/{bash}/task/{bash}/children")).unwrap_or_default();
    wait_for(LIMIT, || children().split_whitespace().last()?.parse().ok()).expect("it has one")
}

#[test]
fn background_job_writes_and_foreground_job_reads_keys() {
    for command in ["exec -c", "record --plain -- sh -c"] {
        let home = Home::new();
        let seat = shell(&home);
        seat.types(&format!("$NERVE {command} {ASKS} &\r"));
        seat.sees("up");
        // Keys are the shell's.
        is_shells(&seat, 0);
        seat.types("jobs\r");
        seat.sees("Running");
        assert!(!seat.text().contains("Stopped"), "{}", seat.text());
        seat.types("fg\r");
        is_raw(&seat, true);
        seat.types("yes\r");
        seat.sees("got yes");
        is_shells(&seat, 6);
        assert!(home.hosts().is_empty(), "nothing is left behind");
    }
}

#[test]
fn ending_in_background_leaves_terminal_alone() {
    let home = Home::new();
    let seat = shell(&home);
    seat.types("$NERVE exec -c 'echo a\"\"way; exit 3' &\r");
    seat.sees("away");
    seat.types("wait $!\r");
    is_shells(&seat, 3);
}

#[test]
fn stopped_job_gives_terminal_to_shell() {
    for command in ["exec -c", "record --plain -- sh -c"] {
        let home = Home::new();
        let seat = shell(&home);
        seat.types(&format!("$NERVE {command} {ASKS}\r"));
        seat.sees("up");
        is_raw(&seat, true);
        let job = job(&seat);
        // Asked to, and without a word.
        for told in [Signal::TSTP, Signal::STOP] {
            signal(job, told);
            seat.sees("Stopped");
            is_shells(&seat, if told == Signal::TSTP { 128 + 22 } else { 128 + 19 });
            seat.types("bg; jobs\r");
            seat.sees("Running");
            is_shells(&seat, 0);
            seat.types("fg\r");
            is_raw(&seat, true);
        }
        // Of a terminal whose keys it has Ctrl+Z is a key.
        seat.types("n\x1a\x08o\r");
        seat.sees("got ");
        is_shells(&seat, 6);
    }
}

#[test]
fn viewer_starts_program_only_in_foreground() {
    let home = Home::new();
    let seat = shell(&home);
    seat.types(&format!("$NERVE record -- sh -c {ASKS} &\r"));
    is_shells(&seat, 0);
    let mut asked = 0;
    let stopped = || {
        asked += 1;
        seat.types(&format!("clear; jobs; echo as''ked {asked}\r"));
        seat.sees(&format!("asked {asked}"));
        seat.text().contains("Stopped")
    };
    assert!(wait_until(LIMIT, stopped), "{}", seat.text());
    assert!(home.hosts().is_empty());
    seat.types("fg\r");
    seat.sees("up");
    seat.sees("live");
    seat.types("yes\r");
    is_shells(&seat, 6);
}

#[test]
fn stopped_viewer_restores_screen_and_resumes() {
    let home = Home::new();
    let path = home.hermetic.work().join("long.ahr");
    let text: String = (1..=60).map(|n| format!("line {n}\r\n")).collect();
    record(&path, &[(0, Body::Resize { cols: 40, rows: 10 }), (1, data(0, &text))]);
    let seat = shell(&home);
    seat.types("$NERVE view long.ahr\r");
    seat.sees("│line 60");
    seat.types("\x1b");
    seat.sees("Esc once more to leave");
    let job = job(&seat);
    let stops: [(&str, Option<Signal>); 3] =
        [("\x1a", None), ("", Some(Signal::TSTP)), ("", Some(Signal::STOP))];
    for (nth, (keys, told)) in stops.into_iter().enumerate() {
        seat.types(keys);
        told.into_iter().for_each(|told| signal(job, told));
        if told == Some(Signal::STOP) {
            // Nobody could give the screen back.
            seat.sees("Stopped");
        } else {
            assert!(wait_until(LIMIT, || !seat.text().contains("│line")), "{}", seat.text());
        }
        is_raw(&seat, false);
        seat.types(&format!("clear; echo sto''pped {nth}\r"));
        seat.sees(&format!("stopped {nth}"));
        seat.types("fg\r");
        seat.sees("│line 60");
        is_raw(&seat, true);
        seat.types("g");
        seat.sees("│line 1 ");
        seat.types("G");
        seat.sees("│line 60");
    }
    seat.types("q");
    assert!(wait_until(LIMIT, || !seat.text().contains("│line")), "{}", seat.text());
    is_shells(&seat, 0);
}

#[test]
fn resumed_viewer_repeats_title_and_progress() {
    let home = Home::new();
    let seat = shell(&home);
    let says = r#"'printf "\033]2;its name\007\033]9;4;1;42\007"; echo u""p; read a'"#;
    seat.types(&format!("$NERVE record -- sh -c {says}\r"));
    seat.sees("up");
    let title = || seat.shown.lock().unwrap().title().to_string();
    let written = || String::from_utf8_lossy(&seat.written.lock().unwrap()).into_owned();
    let said = || written().matches("\x1b]9;4;1;42\x1b\\").count();
    assert!(wait_until(LIMIT, || title() == "its name" && said() == 1), "{:?} {}", title(), said());
    let job = job(&seat);
    for nth in 2..4 {
        signal(job, Signal::TSTP);
        seat.sees("Stopped");
        assert!(wait_until(LIMIT, || title().is_empty()), "{:?}", title());
        seat.types("clear; fg\r");
        seat.sees("live");
        assert!(wait_until(LIMIT, || title() == "its name" && said() == nth), "{:?} {}", title(), said());
    }
    seat.types("\r");
    is_shells(&seat, 0);
}

#[test]
fn stopping_viewer_stops_its_script() {
    let home = Home::new();
    let path = home.hermetic.work().join("long.ahr");
    let text: String = (1..=60).map(|n| format!("line {n}\r\n")).collect();
    record(&path, &[(0, Body::Resize { cols: 40, rows: 10 }), (1, data(0, &text))]);
    fs::write(home.hermetic.work().join("script"), "$NERVE view long.ahr\necho of the script $?\n").unwrap();
    let seat = shell(&home);
    for line in ["bash script", "(. ./script)", "bash script | cat"] {
        // What is no terminal cannot show it.
        let line = line.replace(" | cat", " 2>&1 >/dev/tty | cat");
        seat.types(&format!("clear; {line}\r"));
        seat.sees("│line 60");
        for keys in ["\x1a", "\x1a"] {
            seat.types(keys);
            assert!(wait_until(LIMIT, || !seat.text().contains("│line")), "{line}: {}", seat.text());
            is_raw(&seat, false);
            seat.types("clear; echo shell''s own\r");
            seat.sees("shells own");
            seat.types("fg\r");
            seat.sees("│line 60");
            is_raw(&seat, true);
        }
        seat.types("\x1b");
        seat.sees("Esc once more to leave");
        seat.types("q");
        seat.sees("of the script 0");
        is_shells(&seat, 0);
    }
}

#[test]
fn piped_output_keeps_line_breaks() {
    for command in ["exec -c", "record --plain -- sh -c"] {
        let home = Home::new();
        let seat = shell(&home);
        // Whoever reads the pipe writes to the terminal while the keys are the program's.
        seat.types(&format!(
            "clear; $NERVE {command} 'printf \"o%s\\n\" ne two; read a; echo got $a' | cat\r"
        ));
        seat.sees("one\notwo");
        let modes = tcgetattr(&seat.slave).unwrap();
        assert!(modes.output_modes.contains(OutputModes::OPOST), "{command}");
        assert!(!modes.local_modes.contains(LocalModes::ICANON), "{command}: its keys come one by one");
        seat.types("yes\r");
        seat.sees("\ngot yes\nshell>");
        is_shells(&seat, 0);
    }
}

/// Bash ends a loop or a script only if what it waited for was ended by the signal itself: an exit code says that a program has dealt with it.
#[test]
fn ctrl_c_ends_the_enclosing_shell_loop() {
    for command in ["exec --", "record --plain --", "record --"] {
        let home = Home::new();
        let seat = shell(&home);
        // What the shell makes of the line has other words than the line.
        let body = format!("$NERVE {command} sh -c 'echo u\"\"p $0; exec sleep 1000' $i; echo af\"\"ter $i");
        let line = format!("for i in 1 2 3; do {body}; done");
        let script = format!("bash -c '{}'", line.replace('\'', "'\\''"));
        for (nth, line) in [line, script].iter().enumerate() {
            seat.types(&format!("clear; {line}\r"));
            is_raw(&seat, true);
            seat.sees("up 1");
            seat.types("\x03");
            is_shells(&seat, 130);
            let text = seat.text();
            assert!(!text.contains("after"), "{command}, {nth}: {text}");
            let written = String::from_utf8_lossy(&seat.written.lock().unwrap()).into_owned();
            assert!(!written.contains("after") && !written.contains("up 2"), "{command}, {nth}: {written}");
        }
        assert!(wait_until(LIMIT, || home.hosts().is_empty()), "nothing is left behind");
    }
}

#[test]
fn program_handling_ctrl_c_keeps_its_exit_code() {
    for command in ["exec --", "record --plain --"] {
        let home = Home::new();
        let seat = shell(&home);
        let line =
            format!("$NERVE {command} sh -c 'trap \"exit 7\" INT; echo u\"\"p; while :; do read a; done'");
        seat.types(&format!("{line}\r"));
        is_raw(&seat, true);
        seat.sees("up");
        seat.types("\x03");
        is_shells(&seat, 7);
    }
}

#[test]
fn copied_text_reaches_the_terminal() {
    let home = Home::new();
    let file = home.hermetic.work().join("session.ahr");
    let file = file.to_str().unwrap();
    let mut command = home.command(&["record", "--out-file", file, "--", "bash", "--norc", "--noprofile"]);
    command.env("NERVE", NERVE);
    let seat = Seat::of(command, SIZE);
    seat.sees("bash-");
    seat.types("$NERVE exec --id ask -c 'echo to be co\"\"pied; read a </dev/tty'\r");
    seat.sees("copied");
    seat.types("\x1b[93;5ut");
    seat.sees("1 running of 1");
    seat.types("\r");
    seat.sees("│to be copied");
    seat.types("\x1b[93;5uy");
    let begin = b"\x1b]52;c;";
    let copied = || {
        let written = seat.written.lock().unwrap();
        let from = written.windows(begin.len()).rposition(|bytes| bytes == begin)? + begin.len();
        let end = written[from..].windows(2).position(|bytes| bytes == b"\x1b\\")?;
        Some(STANDARD.decode(&written[from..from + end]).unwrap())
    };
    let copied = wait_for(LIMIT, copied).unwrap_or_else(|| panic!("nothing is copied: {}", seat.text()));
    assert_eq!(String::from_utf8(copied).unwrap().trim_end(), "to be copied");
}
