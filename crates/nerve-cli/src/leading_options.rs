//! Accepts options before the command: `nerve -s work ls` is `nerve ls -s work`.

use std::ffi::OsString;

/// Options with a value that may precede the command.
const WITH_VALUE: [&str; 3] = ["-s", "--server", "--session"];
/// Options without a value that may precede the command.
const FLAGS: [&str; 2] = ["-j", "--json"];

/// Moves the options before the command behind it. Other arguments stay, so that an unknown option is still reported.
pub(super) fn move_behind_command(mut args: Vec<OsString>) -> Vec<OsString> {
    let mut end = 1;
    while let Some(arg) = args.get(end).and_then(|arg| arg.to_str()) {
        end += match arg {
            _ if WITH_VALUE.contains(&arg) => 2,
            _ if FLAGS.contains(&arg) || has_value(arg) => 1,
            _ => break,
        };
    }
    // The program, its options and the command.
    let is_command = args.get(end).is_some_and(|arg| !arg.to_string_lossy().starts_with('-'));
    if is_command {
        args[1..=end].rotate_right(1);
    }
    args
}

/// Returns true for an option together with its value: `--server=work` or `-swork`.
fn has_value(arg: &str) -> bool {
    WITH_VALUE.iter().filter_map(|name| arg.strip_prefix(name).map(|rest| (name, rest))).any(
        |(name, rest)| match name.starts_with("--") {
            true => rest.starts_with('='),
            false => !rest.is_empty(),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(line: &str) -> String {
        let args = line.split(' ').map(OsString::from).collect();
        let moved: Vec<String> =
            move_behind_command(args).into_iter().map(|arg| arg.into_string().unwrap()).collect();
        moved.join(" ")
    }

    #[test]
    fn options_are_moved_behind_the_command() {
        for (line, expected) in [
            ("nerve -s work ls", "nerve ls -s work"),
            (
                "nerve --server=work -j --session night ls --watch",
                "nerve ls --server=work -j --session night --watch",
            ),
            ("nerve -swork node ls", "nerve node -swork ls"),
            ("nerve ls -s work", "nerve ls -s work"),
            ("nerve -s", "nerve -s"),
            ("nerve -s work", "nerve -s work"),
            ("nerve -x ls", "nerve -x ls"),
            ("nerve -s work --help", "nerve -s work --help"),
            ("nerve", "nerve"),
        ] {
            assert_eq!(moved(line), expected);
        }
    }

    #[test]
    fn moved_options_are_parsed() {
        for line in ["nerve -s work ls", "nerve --session night -s work node info me", "nerve -s work -j ls"]
        {
            let args = move_behind_command(line.split(' ').map(OsString::from).collect());
            crate::Cli::build_command().try_get_matches_from(args).unwrap();
        }
    }
}
