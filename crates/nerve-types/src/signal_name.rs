//! Names of POSIX signals, by their numbers on Linux.

const NAMES: [(&str, i32); 18] = [
    ("SIGHUP", 1),
    ("SIGINT", 2),
    ("SIGQUIT", 3),
    ("SIGILL", 4),
    ("SIGTRAP", 5),
    ("SIGABRT", 6),
    ("SIGBUS", 7),
    ("SIGFPE", 8),
    ("SIGKILL", 9),
    ("SIGUSR1", 10),
    ("SIGSEGV", 11),
    ("SIGUSR2", 12),
    ("SIGPIPE", 13),
    ("SIGALRM", 14),
    ("SIGTERM", 15),
    ("SIGXCPU", 24),
    ("SIGXFSZ", 25),
    ("SIGSYS", 31),
];

/// Returns the name of a signal, such as `SIGHUP`; `None` without a standard name.
pub fn signal_name(number: i32) -> Option<&'static str> {
    NAMES.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
}

/// Returns the number of a signal by its name in any case, with or without `SIG`.
pub fn signal_number(name: &str) -> Option<i32> {
    let is_it = |known: &str| known.eq_ignore_ascii_case(name) || known[3..].eq_ignore_ascii_case(name);
    NAMES.iter().find(|(known, _)| is_it(known)).map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_with_and_without_prefix() {
        assert_eq!(
            (signal_name(1), signal_name(15), signal_name(40)),
            (Some("SIGHUP"), Some("SIGTERM"), None)
        );
        assert_eq!(
            (signal_number("SIGTERM"), signal_number("hup"), signal_number("")),
            (Some(15), Some(1), None)
        );
    }
}
