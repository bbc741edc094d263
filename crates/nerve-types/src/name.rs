//! The rule for names of nodes, sessions and servers. They become parts of paths, so the rule excludes names such as
//! `../x`.

use crate::text::shorten;

/// Maximum characters of a name.
pub const MAX_NAME_CHARS: usize = 32;

/// Maximum characters of a name in an error: a name from the network may be 16 MiB long.
const QUOTED_CHARS: usize = 48;

/// Name of the session that every server has.
pub const DEFAULT_SESSION: &str = "default";

/// Name of the server of a user who has named none.
pub const DEFAULT_SERVER: &str = "default";

/// Returns the option that selects a session in a command, with a leading space; empty for the default session.
pub fn session_option(session: &str) -> String {
    match session {
        DEFAULT_SESSION => String::new(),
        session => format!(" --session {session}"),
    }
}

/// Returns the first free name of `BASE-SUFFIX`, `BASE-SUFFIX-2` and so on. A base that is such a name itself is not extended. A
/// long base is cut.
pub fn numbered(base: &str, suffix: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let is_number = |end: &str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
    let base = match base.rsplit_once(&format!("-{suffix}")) {
        Some((base, end)) if end.is_empty() || end.strip_prefix('-').is_some_and(is_number) => base,
        _ => base,
    };
    let mut number = 1_u64;
    loop {
        let end = if number == 1 { format!("-{suffix}") } else { format!("-{suffix}-{number}") };
        let base: String = base.chars().take(MAX_NAME_CHARS - end.len()).collect();
        let name = format!("{}{end}", base.trim_end_matches('-'));
        if !is_taken(&name) {
            return name;
        }
        number += 1;
    }
}

/// Checks a name: 1–32 of `a-z 0-9 -`, no dash at either end. `subject` names the thing in the error: `node`,
/// `session`, `server`.
///
/// ```
/// use nerve_types::name::check;
/// assert!(check("node", "claude-1").is_ok());
/// let error = check("node", "../x").unwrap_err().to_string();
/// assert!(error.starts_with("node name \"../x\" is not allowed"), "{error}");
/// ```
///
/// # Errors
/// [`NameError`] quotes the name and states the rule.
pub fn check(subject: &'static str, name: &str) -> Result<(), NameError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fault = if name.is_empty() {
        Fault::Empty
    } else if let Some(character) =
        name.chars().find(|&c| u8::try_from(c).map_or(true, |byte| !allowed(byte)))
    {
        Fault::Character(character)
    } else if name.len() > MAX_NAME_CHARS {
        Fault::TooLong(name.len())
    } else if name.starts_with('-') || name.ends_with('-') {
        Fault::DashAtEnd
    } else {
        return Ok(());
    };
    Err(NameError { subject, name: shorten(name, QUOTED_CHARS), fault })
}

/// A name that violates the rule.
// Debug quoting: a name may contain escape sequences, and errors are shown on terminals.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{subject} name {name:?} is not allowed: {fault}; use 1 to {max} of a-z, 0-9 and '-', with no dash at either end",
    max = MAX_NAME_CHARS
)]
pub struct NameError {
    subject: &'static str,
    name: String,
    fault: Fault,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("it is empty")]
    Empty,
    #[error("it has {0:?} in it")]
    Character(char),
    #[error("it is {0} characters long")]
    TooLong(usize),
    #[error("it begins or ends with a dash")]
    DashAtEnd,
}

#[cfg(test)]
mod tests {
    use super::{check, numbered};

    #[test]
    fn numbered_name_is_free() {
        let name = |base: &str, taken: &[&str]| numbered(base, "fork", |name| taken.contains(&name));
        assert_eq!(name("me", &[]), "me-fork");
        assert_eq!(name("me", &["me-fork"]), "me-fork-2");
        assert_eq!(name("me-fork", &["me-fork"]), "me-fork-2");
        assert_eq!(name("me-fork-2", &["me-fork", "me-fork-2"]), "me-fork-3");
        assert_eq!(name("my-forks", &[]), "my-forks-fork");
        let long = "x".repeat(32);
        assert_eq!(name(&long, &[]), format!("{}-fork", "x".repeat(27)));
        assert_eq!(name(&format!("{}-y", "x".repeat(26)), &[]).len(), 31, "no dash before a dash");
    }

    #[test]
    fn valid_names_pass() {
        for name in ["a", "0", "claude-1", "test-channel", "a--b", &"x".repeat(32)] {
            check("node", name).unwrap();
        }
    }

    #[test]
    fn invalid_names_are_quoted_with_reason() {
        let cases = [
            ("", "it is empty"),
            ("../x", "it has '.' in it"),
            ("my/channel", "it has '/' in it"),
            ("Claude", "it has 'C' in it"),
            ("naïve", "it has 'ï' in it"),
            ("a\u{1b}[2J", r"it has '\u{1b}' in it"),
            ("-a", "begins or ends with a dash"),
            ("a-", "begins or ends with a dash"),
            ("-", "begins or ends with a dash"),
            (&"x".repeat(33), "it is 33 characters long"),
        ];
        for (name, reason) in cases {
            let error = check("server", name).unwrap_err().to_string();
            assert!(error.contains(reason), "{name:?}: {error}");
            assert!(error.starts_with(&format!("server name {name:?} ")), "{error}");
            assert!(error.contains("1 to 32 of a-z, 0-9 and '-'"), "{error}");
            assert!(!error.contains('\u{1b}'), "raw escape in: {error}");
        }
    }

    #[test]
    fn huge_name_is_shortened_in_error() {
        let error = check("node", &"y".repeat(1 << 20)).unwrap_err().to_string();
        assert!(error.len() < 300, "{} bytes", error.len());
        assert!(error.contains("1048576 characters"), "{error}");
    }
}
