//! Builds and quotes tmux commands.

use std::collections::BTreeMap;

use nerve_host::backend::PaneError;

use crate::pane::NewPane;

/// Default session for panes.
pub(super) const SESSION: &str = "nerve";

/// The arguments of a command.
pub(super) type CommandArgs = Vec<Vec<u8>>;

/// Converts the arguments of a command.
pub(super) fn command(args: &[&str]) -> CommandArgs {
    args.iter().map(|arg| arg.as_bytes().to_vec()).collect()
}

/// Returns the command that creates a pane and prints its id: next to another pane, or a window if the session `exists`, otherwise a
/// session.
pub(super) fn create_command(new: &NewPane, session: &str, exists: bool) -> Vec<String> {
    let mut args: Vec<String> = match (&new.split, exists) {
        (Some(pane), _) => ["split-window", "-h", "-t", pane].map(str::to_string).to_vec(),
        (None, true) => vec!["new-window".into(), "-t".into(), format!("={session}:")],
        (None, false) => {
            let (cols, rows) = (new.size.cols.to_string(), new.size.rows.to_string());
            let args = ["new-session", "-s", session, "-x", &cols, "-y", &rows];
            args.map(str::to_string).to_vec()
        }
    };
    // Detached, so that attached clients keep their window.
    args.extend(["-d", "-P", "-F", "#{pane_id}"].map(str::to_string));
    let name = new.name.clone().filter(|_| new.split.is_none());
    for (option, value) in [("-n", name), ("-c", new.cwd.as_ref().map(|cwd| cwd.display().to_string()))] {
        args.extend(value.into_iter().flat_map(|value| [option.to_string(), escape_format(&value)]));
    }
    if !new.argv.is_empty() {
        args.extend(program_args(&new.argv, &new.env));
    }
    args
}

/// Variables that tmux sets itself for every program; they are set through `env` instead.
const TMUX_VARS: [&str; 7] =
    ["PATH", "SHELL", "TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TMUX", "TMUX_PANE"];

/// Returns options for a program's environment, and the program as two or more words, which tmux runs without a shell. Secrets
/// do not appear in the arguments of a process.
fn program_args(argv: &[String], env: &BTreeMap<String, String>) -> Vec<String> {
    let (tmux_vars, plain): (Vec<_>, Vec<_>) =
        env.iter().partition(|(name, _)| TMUX_VARS.contains(&name.as_str()));
    let assignment = |(name, value): (&String, &String)| format!("{name}={value}");
    let mut args: Vec<String> =
        plain.into_iter().flat_map(|pair| ["-e".to_string(), assignment(pair)]).collect();
    // tmux may have inherited these.
    args.extend(["env", "-u", "LINES", "-u", "COLUMNS"].map(str::to_string));
    args.extend(tmux_vars.into_iter().map(assignment));
    args.extend_from_slice(argv);
    args
}

/// Checks a session name, because tmux silently changes invalid ones.
///
/// # Errors
/// [`PaneError::Refused`] with the reason.
pub(super) fn check_session(name: &str) -> Result<(), PaneError> {
    let wrong = match name {
        "" => "is empty",
        name if name.contains([':', '.']) => "contains ':' or '.'",
        name if name.starts_with(['=', '$', '@', '%', '!', '-', '+']) => {
            "begins with a character that is special in tmux"
        }
        name if name.chars().any(char::is_control) => "contains a control character",
        _ => return Ok(()),
    };
    Err(PaneError::Refused(format!("invalid tmux session name '{name}': it {wrong}")))
}

/// Escapes a value that tmux expands as a format.
fn escape_format(value: &str) -> String {
    value.replace('#', "##")
}

/// Escapes an argument of the tmux program, where a trailing `;` ends a command.
pub(super) fn escape_argument(arg: &str) -> String {
    match arg.strip_suffix(';') {
        Some(start) => format!("{start}\\;"),
        None => arg.to_string(),
    }
}

/// Joins commands into one line for control mode, which runs them with nothing in between.
pub(super) fn join_commands<S: AsRef<[u8]>>(commands: &[Vec<S>]) -> Vec<u8> {
    let lines: Vec<Vec<u8>> = commands.iter().map(|args| command_line(args)).collect();
    let mut attachment = Vec::new();
    for line in &lines {
        if !attachment.is_empty() {
            attachment.extend(b" ; ");
        }
        attachment.extend_from_slice(line.trim_ascii_end());
    }
    attachment.push(b'\n');
    attachment
}

/// Returns a line for control mode. Special characters are written as octal numbers.
pub(super) fn command_line<S: AsRef<[u8]>>(args: &[S]) -> Vec<u8> {
    let mut line = Vec::new();
    for arg in args {
        if !line.is_empty() {
            line.push(b' ');
        }
        quote(arg.as_ref(), &mut line);
    }
    line.push(b'\n');
    line
}

/// Appends a quoted argument. It must not contain zero bytes, which end tmux's strings.
pub(super) fn quote(arg: &[u8], line: &mut Vec<u8>) {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_=%@/.,:+".contains(byte);
    line.push(b'"');
    for byte in arg {
        match is_plain(byte) {
            true => line.push(*byte),
            false => line.extend(format!("\\{byte:03o}").bytes()),
        }
    }
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_escapes_special_characters() {
        let args = ["new-window", "-t", "=my:", "a b", "$HOME;#{x}~'\"\\\n", "é"];
        let line = String::from_utf8(command_line(&args)).unwrap();
        assert_eq!(
            line,
            "\"new-window\" \"-t\" \"=my:\" \"a\\040b\" \
             \"\\044HOME\\073\\043\\173x\\175\\176\\047\\042\\134\\012\" \"\\303\\251\"\n"
        );
    }

    #[test]
    fn creates_window_or_session() {
        let new = NewPane {
            argv: vec!["vi;".into()],
            env: [("A", "b c"), ("TERM", "dumb")].map(|(name, value)| (name.into(), value.into())).into(),
            cwd: Some("/a#b".into()),
            name: Some("w".into()),
            ..NewPane::default()
        };
        let window = create_command(&new, "s", true).join(" ");
        assert_eq!(
            window,
            "new-window -t =s: -d -P -F #{pane_id} -n w -c /a##b -e A=b c env -u LINES -u COLUMNS TERM=dumb vi;"
        );
        assert!(
            create_command(&new, "s", false).join(" ").starts_with("new-session -s s -x 120 -y 40 -d -P")
        );
        let split = create_command(&NewPane { split: Some("%3".into()), ..new.clone() }, "s", true).join(" ");
        assert!(split.starts_with("split-window -h -t %3 -d -P -F #{pane_id} -c /a##b"), "{split}");
        let shell = NewPane { argv: Vec::new(), ..new };
        assert!(create_command(&shell, "s", true).ends_with(&["/a##b".to_string()]), "the user's shell");
        assert_eq!(
            (escape_argument("vi;"), escape_argument("a;b"), escape_argument("")),
            ("vi\\;".into(), "a;b".into(), "".into())
        );
        for name in ["", "a:b", "a.b", "=x", "a\nb"] {
            assert!(check_session(name).is_err(), "{name}");
        }
        assert!(check_session("my session").is_ok());
    }
}
