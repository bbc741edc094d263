//! Parses versions of tmux: `tmux 3.3a`, `tmux next-3.5`, `tmux master`.

/// Returns major and minor version from the output of `tmux -V`; `None` for development versions without a number.
pub(super) fn parse(message: &str) -> Option<(u32, u32)> {
    let word = message.split_whitespace().nth(1)?;
    // OpenBSD's tmux has the system's version.
    if word.starts_with("openbsd") {
        return None;
    }
    let number = word.trim_start_matches(|c: char| !c.is_ascii_digit());
    let (major, rest) = number.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_letters_and_development_versions() {
        for (message, version) in [
            ("tmux 3.3a", Some((3, 3))),
            ("tmux 3.10", Some((3, 10))),
            ("tmux 2.9a\n", Some((2, 9))),
            ("tmux next-3.5", Some((3, 5))),
            ("tmux master", None),
            ("tmux openbsd-7.4", None),
            ("", None),
        ] {
            assert_eq!(parse(message), version, "{message}");
        }
        assert!(parse("tmux 3.1c") < Some((3, 2)));
    }
}
