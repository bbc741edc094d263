//! The mock agent on a real pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use nerve_testkit::harness::{open_pty, resize};
use nerve_testkit::mock_agent::{HANGUP, MockAgentOptions, run_on};
use nerve_testkit::{DEADLINE, wait_until};
use nerve_types::Size;
use rustix::termios::{LocalModes, tcgetattr};

use crate::replay::RecordingBuilder;

struct Terminal {
    master: File,
    slave: File,
    received: Arc<Mutex<Vec<u8>>>,
    agent: JoinHandle<std::io::Result<i32>>,
}

fn start(options: MockAgentOptions) -> Terminal {
    let (master, slave) = open_pty(Size::new(90, 30)).unwrap();
    let received = Arc::new(Mutex::new(Vec::new()));
    let (mut reader, sink) = (master.try_clone().unwrap(), received.clone());
    std::thread::spawn(move || {
        let mut buffer = [0; 65536];
        while let Ok(count @ 1..) = reader.read(&mut buffer) {
            sink.lock().unwrap().extend_from_slice(&buffer[..count]);
        }
    });
    let (input, output) = (slave.try_clone().unwrap(), slave.try_clone().unwrap());
    let agent = std::thread::spawn(move || run_on(input, output, options));
    Terminal { master, slave, received, agent }
}

impl Terminal {
    fn expect(&self, part: &str) {
        let is_shown = || String::from_utf8_lossy(&self.received.lock().unwrap()).contains(part);
        assert!(wait_until(DEADLINE, is_shown), "no {part:?}");
    }
}

#[test]
fn answers_in_raw_mode_and_restores_terminal() {
    let mut terminal = start(MockAgentOptions::default());
    terminal.expect("shortcuts");
    terminal.expect(&"─".repeat(90));
    assert!(!tcgetattr(&terminal.slave).unwrap().local_modes.contains(LocalModes::ICANON));
    terminal.master.write_all(b"hello").unwrap();
    terminal.expect("hello");
    terminal.master.write_all(b"\r").unwrap();
    terminal.expect("Worked");
    terminal.master.write_all(b"/exit").unwrap();
    terminal.expect("/exit");
    terminal.master.write_all(b"\r").unwrap();
    assert_eq!(terminal.agent.join().unwrap().unwrap(), 0);
    assert!(tcgetattr(&terminal.slave).unwrap().local_modes.contains(LocalModes::ICANON));
}

#[test]
fn uses_current_size_at_each_redraw() {
    let mut terminal = start(MockAgentOptions::default());
    terminal.expect("shortcuts");
    resize(&terminal.slave, Size::new(50, 30)).unwrap();
    terminal.received.lock().unwrap().clear();
    terminal.master.write_all(b"x").unwrap();
    terminal.expect("─\x1b[39m\r\n");
    assert!(!String::from_utf8_lossy(&terminal.received.lock().unwrap()).contains(&"─".repeat(51)));
    terminal.master.write_all(b"\x15/exit").unwrap();
    terminal.master.write_all(b"\r").unwrap();
    assert_eq!(terminal.agent.join().unwrap().unwrap(), 0);
}

#[test]
fn ends_at_end_of_input() {
    let (input, writer) = std::io::pipe().unwrap();
    let (mut reader, output) = std::io::pipe().unwrap();
    let agent = std::thread::spawn(move || run_on(input, output, MockAgentOptions::default()));
    drop(writer);
    let mut received = Vec::new();
    reader.read_to_end(&mut received).unwrap();
    assert!(String::from_utf8_lossy(&received).contains("shortcuts"));
    assert_eq!(agent.join().unwrap().unwrap(), HANGUP);
}

#[test]
fn flood_reaches_slow_reader_completely() {
    let mut terminal = start(MockAgentOptions::default());
    terminal.expect("shortcuts");
    terminal.master.write_all(b"FLOOD 3\r").unwrap();
    terminal.expect("END-OF-FLOOD");
    assert!(terminal.received.lock().unwrap().len() > 3 << 20);
    terminal.master.write_all(b"EXIT\r").unwrap();
    assert_eq!(terminal.agent.join().unwrap().unwrap(), 0);
}

#[test]
fn replay_uses_raw_mode_and_restores_terminal() {
    let (_dir, recording) = RecordingBuilder::new()
        .output(0, "ask me\r\n")
        .input(5, "hello\r")
        .output(6, "\x1b[1manswer\x1b[0m\n")
        .finish();
    let mut terminal = start(MockAgentOptions { replay: Some(recording), ..MockAgentOptions::default() });
    terminal.expect("ask me\r\n");
    assert!(!tcgetattr(&terminal.slave).unwrap().local_modes.contains(LocalModes::ICANON));
    terminal.master.write_all(b"something else\r").unwrap();
    // Byte for byte: no carriage return is added, nothing is echoed.
    terminal.expect("ask me\r\n\x1b[1manswer\x1b[0m\n");
    assert_eq!(terminal.agent.join().unwrap().unwrap(), 0);
    assert!(tcgetattr(&terminal.slave).unwrap().local_modes.contains(LocalModes::ICANON));
}
