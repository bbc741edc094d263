//! The command line client: sends a request to the server and prints the response.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use super::options::{Invocation, parse};
use super::wire::{Request, ask};
use super::{VERSION, server};

const HELP: &str = "A stand-in for WezTerm's command line, made for nerve's tests. It is NOT WezTerm.

wezterm [--config initial_cols=N] [--config initial_rows=N] cli [--no-auto-start] [--prefer-mux] SUB …
  SUB: list, spawn, send-text, get-text, activate-pane, kill-pane, split-pane
wezterm mux-server        the server, at $WEZTERM_UNIX_SOCKET
wezterm fault none|hang|hold|slow MILLIS
wezterm calls             how often which subcommand was called
";

/// Runs the stand-in with command line arguments (without the program's name).
pub(crate) fn run(args: Vec<String>) -> ExitCode {
    let invocation = match parse(args) {
        Ok(invocation) => invocation,
        Err(message) => {
            eprint(&format!("error: {message}\n"));
            return ExitCode::from(2);
        }
    };
    match invocation {
        Invocation::Help => print(HELP),
        Invocation::Version => print(&format!("{VERSION}\n")),
        Invocation::Server => match server::serve(&socket()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string()),
        },
        Invocation::Call { request, auto_start, new_window, stdin } => {
            call(request, auto_start, new_window, stdin)
        }
    }
}

fn call(mut request: Request, auto_start: bool, new_window: bool, stdin: bool) -> ExitCode {
    if matches!(request, Request::Spawn { .. }) && !new_window && std::env::var_os("WEZTERM_PANE").is_none() {
        return fail("--pane-id was not specified and $WEZTERM_PANE is not set in the environment");
    }
    if let (Request::Send { text, .. }, true) = (&mut request, stdin) {
        let mut bytes = Vec::new();
        let read = std::io::stdin().read_to_end(&mut bytes);
        match (read, String::from_utf8(bytes)) {
            (Ok(_), Ok(read)) => *text = read,
            (Ok(_), Err(_)) => return fail("reading stdin: stream did not contain valid UTF-8"),
            (Err(error), _) => return fail(&error.to_string()),
        }
    }
    let socket = socket();
    let Ok(stream) = UnixStream::connect(&socket) else {
        let more =
            if auto_start { " (the real one would start a server now; give --no-auto-start)" } else { "" };
        return fail(&format!(
            "failed to connect to Socket({socket:?}): connecting to {}{more}",
            socket.display()
        ));
    };
    match ask(&stream, &request) {
        Ok(Ok(out)) => print(&out),
        Ok(Err(error)) => fail(&error),
        Err(_) => {
            fail("Error while decoding response pdu: decoding a PDU: reading PDU length: reading leb128: EOF")
        }
    }
}

fn socket() -> PathBuf {
    let variable = std::env::var_os("WEZTERM_UNIX_SOCKET").filter(|socket| !socket.is_empty());
    variable.map_or_else(
        || PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").unwrap_or_default()).join("wezterm/sock"),
        PathBuf::from,
    )
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn eprint(text: &str) {
    // Standard error may be closed.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn fail(message: &str) -> ExitCode {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (now.as_secs(), now.subsec_millis());
    let time = format!("{:02}:{:02}:{:02}.{millis:03}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    eprint(&format!("{time}  ERROR  wezterm > {message}; terminating\n"));
    ExitCode::FAILURE
}
