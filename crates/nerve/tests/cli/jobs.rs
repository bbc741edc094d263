//! `nerve` as a job of a shell: in the background, stopped, and in the foreground again.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nerve_record::ahr::Body;
use nerve_testkit::harness::signal;
use nerve_testkit::{wait_for, wait_until};
use nerve_types::Size;
use rustix::process::Signal;
use rustix::termios::{LocalModes, OutputModes, tcgetattr};

use crate::harness::{Home, NERVE};
use crate::recordings::{data, record};
use crate::tty::{LIMIT, Tty};

const SIZE: Size = Size { cols: 100, rows: 24 };
/// Prints when it runs, and its input. The typed command differs from its output, so a test can distinguish them.
const ASK_SCRIPT: &str = "'echo u\"\"p; read a; echo got $a; exit 6'";

/// An interactive shell.
fn shell(home: &Home) -> Tty {
    let mut bash = home.hermetic.command("bash");
    bash.args(["--norc", "--noprofile", "-i"]).env("NERVE", NERVE).env("PS1", "shell> ");
    bash.current_dir(home.hermetic.work());
    let tty = Tty::with_stderr(bash, SIZE);
    tty.expect("shell>");
    tty
}

/// Waits until the terminal's raw mode is as given. (A shell's line editor leaves output processing on.)
#[track_caller]
fn expect_raw(tty: &Tty, raw: bool) {
    let is_raw = || !tcgetattr(&tty.slave).unwrap().output_modes.contains(OutputModes::OPOST);
    assert!(wait_until(LIMIT, || is_raw() == raw), "raw: {}\n{}", is_raw(), tty.text());
}

/// Waits for the shell and checks the last exit code.
#[track_caller]
fn expect_shell(tty: &Tty, code: u8) {
    expect_raw(tty, false);
    tty.send("code=$?; clear; echo shell''s $code\r");
    tty.expect(&format!("shells {code}"));
}

/// Returns the last process the shell has started.
fn job(tty: &Tty) -> u32 {
    let bash = tty.child.id();
    let children = || fs::read_to_string(format!("/proc/{bash}/task/{bash}/children")).unwrap_or_default();
    wait_for(LIMIT, || children().split_whitespace().last()?.parse().ok()).expect("it has one")
}

#[test]
fn background_job_writes_and_foreground_job_reads_keys() {
    for command in ["exec -c", "record --plain -- sh -c"] {
        let home = Home::new();
        let tty = shell(&home);
        tty.send(&format!("$NERVE {command} {ASK_SCRIPT} &\r"));
        tty.expect("up");
        // Keys are the shell's.
        expect_shell(&tty, 0);
        tty.send("jobs\r");
        tty.expect("Running");
        assert!(!tty.text().contains("Stopped"), "{}", tty.text());
        tty.send("fg\r");
        expect_raw(&tty, true);
        tty.send("yes\r");
        tty.expect("got yes");
        expect_shell(&tty, 6);
        assert!(home.hosts().is_empty(), "nothing is left behind");
    }
}

#[test]
fn ending_in_background_leaves_terminal_alone() {
    let home = Home::new();
    let tty = shell(&home);
    tty.send("$NERVE exec -c 'echo a\"\"way; exit 3' &\r");
    tty.expect("away");
    tty.send("wait $!\r");
    expect_shell(&tty, 3);
}

#[test]
fn stopped_job_gives_terminal_to_shell() {
    for command in ["exec -c", "record --plain -- sh -c"] {
        let home = Home::new();
        let tty = shell(&home);
        tty.send(&format!("$NERVE {command} {ASK_SCRIPT}\r"));
        tty.expect("up");
        expect_raw(&tty, true);
        let job = job(&tty);
        // Stop on request, then without warning.
        for stop_signal in [Signal::TSTP, Signal::STOP] {
            signal(job, stop_signal);
            tty.expect("Stopped");
            expect_shell(&tty, if stop_signal == Signal::TSTP { 128 + 22 } else { 128 + 19 });
            tty.send("bg; jobs\r");
            tty.expect("Running");
            expect_shell(&tty, 0);
            tty.send("fg\r");
            expect_raw(&tty, true);
        }
        // In raw mode, Ctrl+Z is an ordinary key.
        tty.send("n\x1a\x08o\r");
        tty.expect("got ");
        expect_shell(&tty, 6);
    }
}

#[test]
fn viewer_starts_program_only_in_foreground() {
    let home = Home::new();
    let tty = shell(&home);
    tty.send(&format!("$NERVE record -- sh -c {ASK_SCRIPT} &\r"));
    expect_shell(&tty, 0);
    let mut attempt = 0;
    let stopped = || {
        attempt += 1;
        tty.send(&format!("clear; jobs; echo as''ked {attempt}\r"));
        tty.expect(&format!("asked {attempt}"));
        tty.text().contains("Stopped")
    };
    assert!(wait_until(LIMIT, stopped), "{}", tty.text());
    assert!(home.hosts().is_empty());
    tty.send("fg\r");
    tty.expect("up");
    tty.expect("live");
    tty.send("yes\r");
    expect_shell(&tty, 6);
}

#[test]
fn stopped_viewer_restores_screen_and_resumes() {
    let home = Home::new();
    let path = home.hermetic.work().join("long.ahr");
    let text: String = (1..=60).map(|n| format!("line {n}\r\n")).collect();
    record(&path, &[(0, Body::Resize { cols: 40, rows: 10 }), (1, data(0, &text))]);
    let tty = shell(&home);
    tty.send("$NERVE view long.ahr\r");
    tty.expect("│line 60");
    tty.send("\x1b");
    tty.expect("press Esc again to leave");
    let job = job(&tty);
    let stops: [(&str, Option<Signal>); 3] =
        [("\x1a", None), ("", Some(Signal::TSTP)), ("", Some(Signal::STOP))];
    for (nth, (keys, stop_signal)) in stops.into_iter().enumerate() {
        tty.send(keys);
        stop_signal.into_iter().for_each(|stop_signal| signal(job, stop_signal));
        if stop_signal == Some(Signal::STOP) {
            // SIGSTOP leaves no chance to restore the screen.
            tty.expect("Stopped");
        } else {
            assert!(wait_until(LIMIT, || !tty.text().contains("│line")), "{}", tty.text());
        }
        expect_raw(&tty, false);
        tty.send(&format!("clear; echo sto''pped {nth}\r"));
        tty.expect(&format!("stopped {nth}"));
        tty.send("fg\r");
        tty.expect("│line 60");
        expect_raw(&tty, true);
        tty.send("g");
        tty.expect("│line 1 ");
        tty.send("G");
        tty.expect("│line 60");
    }
    tty.send("q");
    assert!(wait_until(LIMIT, || !tty.text().contains("│line")), "{}", tty.text());
    expect_shell(&tty, 0);
}

#[test]
fn resumed_viewer_repeats_title_and_progress() {
    let home = Home::new();
    let tty = shell(&home);
    let script = r#"'printf "\033]2;its name\007\033]9;4;1;42\007"; echo u""p; read a'"#;
    tty.send(&format!("$NERVE record -- sh -c {script}\r"));
    tty.expect("up");
    let title = || tty.terminal.lock().unwrap().title().to_string();
    let written = || String::from_utf8_lossy(&tty.output.lock().unwrap()).into_owned();
    let progress_count = || written().matches("\x1b]9;4;1;42\x1b\\").count();
    assert!(
        wait_until(LIMIT, || title() == "its name" && progress_count() == 1),
        "{:?} {}",
        title(),
        progress_count()
    );
    let job = job(&tty);
    for nth in 2..4 {
        signal(job, Signal::TSTP);
        tty.expect("Stopped");
        assert!(wait_until(LIMIT, || title().is_empty()), "{:?}", title());
        tty.send("clear; fg\r");
        tty.expect("live");
        assert!(
            wait_until(LIMIT, || title() == "its name" && progress_count() == nth),
            "{:?} {}",
            title(),
            progress_count()
        );
    }
    tty.send("\r");
    expect_shell(&tty, 0);
}

#[test]
fn stopping_viewer_stops_its_script() {
    let home = Home::new();
    let path = home.hermetic.work().join("long.ahr");
    let text: String = (1..=60).map(|n| format!("line {n}\r\n")).collect();
    record(&path, &[(0, Body::Resize { cols: 40, rows: 10 }), (1, data(0, &text))]);
    fs::write(home.hermetic.work().join("script"), "$NERVE view long.ahr\necho of the script $?\n").unwrap();
    let tty = shell(&home);
    for line in ["bash script", "(. ./script)", "bash script | cat"] {
        // A pipe cannot show the viewer: only standard error goes through it.
        let line = line.replace(" | cat", " 2>&1 >/dev/tty | cat");
        tty.send(&format!("clear; {line}\r"));
        tty.expect("│line 60");
        for keys in ["\x1a", "\x1a"] {
            tty.send(keys);
            assert!(wait_until(LIMIT, || !tty.text().contains("│line")), "{line}: {}", tty.text());
            expect_raw(&tty, false);
            tty.send("clear; echo shell''s own\r");
            tty.expect("shells own");
            tty.send("fg\r");
            tty.expect("│line 60");
            expect_raw(&tty, true);
        }
        tty.send("\x1b");
        tty.expect("press Esc again to leave");
        tty.send("q");
        tty.expect("of the script 0");
        expect_shell(&tty, 0);
    }
}

#[test]
fn piped_output_keeps_line_breaks() {
    for command in ["exec -c", "record --plain -- sh -c"] {
        let home = Home::new();
        let tty = shell(&home);
        // The reader of the pipe writes to the terminal while the program has it in raw mode.
        tty.send(&format!("clear; $NERVE {command} 'printf \"o%s\\n\" ne two; read a; echo got $a' | cat\r"));
        tty.expect("one\notwo");
        let modes = tcgetattr(&tty.slave).unwrap();
        assert!(modes.output_modes.contains(OutputModes::OPOST), "{command}");
        assert!(!modes.local_modes.contains(LocalModes::ICANON), "{command}: its keys come one by one");
        tty.send("yes\r");
        tty.expect("\ngot yes\n");
        tty.expect("shell>");
        expect_shell(&tty, 0);
    }
}

/// Bash ends a loop or a script only if the signal ended the program it waited for. An exit code means that the program handled the signal.
#[test]
fn ctrl_c_ends_the_enclosing_shell_loop() {
    for command in ["exec --", "record --plain --", "record --"] {
        let home = Home::new();
        let tty = shell(&home);
        // The output of the shell differs from the typed line.
        let body = format!("$NERVE {command} sh -c 'echo u\"\"p $0; exec sleep 1000' $i; echo af\"\"ter $i");
        let line = format!("for i in 1 2 3; do {body}; done");
        let script = format!("bash -c '{}'", line.replace('\'', "'\\''"));
        for (nth, line) in [line, script].iter().enumerate() {
            tty.send(&format!("clear; {line}\r"));
            expect_raw(&tty, true);
            tty.expect("up 1");
            tty.send("\x03");
            expect_shell(&tty, 130);
            let text = tty.text();
            assert!(!text.contains("after"), "{command}, {nth}: {text}");
            let written = String::from_utf8_lossy(&tty.output.lock().unwrap()).into_owned();
            assert!(!written.contains("after") && !written.contains("up 2"), "{command}, {nth}: {written}");
        }
        assert!(wait_until(LIMIT, || home.hosts().is_empty()), "nothing is left behind");
    }
}

#[test]
fn program_handling_ctrl_c_keeps_its_exit_code() {
    for command in ["exec --", "record --plain --"] {
        let home = Home::new();
        let tty = shell(&home);
        let line =
            format!("$NERVE {command} sh -c 'trap \"exit 7\" INT; echo u\"\"p; while :; do read a; done'");
        tty.send(&format!("{line}\r"));
        expect_raw(&tty, true);
        tty.expect("up");
        tty.send("\x03");
        expect_shell(&tty, 7);
    }
}

#[test]
fn copied_text_reaches_the_terminal() {
    let home = Home::new();
    let file = home.hermetic.work().join("session.ahr");
    let file = file.to_str().unwrap();
    let mut command = home.command(&["record", "--out-file", file, "--", "bash", "--norc", "--noprofile"]);
    command.env("NERVE", NERVE);
    let tty = Tty::spawn(command, SIZE);
    tty.expect("bash-");
    tty.send("$NERVE exec --id ask -c 'echo to be co\"\"pied; read a </dev/tty'\r");
    tty.expect("copied");
    tty.send("\x1b[93;5ut");
    tty.expect("1 running of 1");
    tty.send("\r");
    tty.expect("│to be copied");
    tty.send("\x1b[93;5uy");
    let begin = b"\x1b]52;c;";
    let copied = || {
        let written = tty.output.lock().unwrap();
        let from = written.windows(begin.len()).rposition(|bytes| bytes == begin)? + begin.len();
        let end = written[from..].windows(2).position(|bytes| bytes == b"\x1b\\")?;
        Some(STANDARD.decode(&written[from..from + end]).unwrap())
    };
    let copied = wait_for(LIMIT, copied).unwrap_or_else(|| panic!("nothing is copied: {}", tty.text()));
    assert_eq!(String::from_utf8(copied).unwrap().trim_end(), "to be copied");
}
