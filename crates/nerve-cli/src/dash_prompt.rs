//! Lets a prompt begin with a dash: `nerve send me '-v is ignored, why?'`.

use std::ffi::OsString;

use clap::{Arg, Command};

/// Moves arguments that begin with a dash and contain white space to the end, behind `--`. Options of the command and
/// their values stay. Commands that take a program's arguments are left alone.
pub(super) fn protect(args: Vec<OsString>, root: impl FnOnce() -> Command) -> Vec<OsString> {
    if !args.iter().any(|arg| arg.to_str().is_some_and(is_dashed)) || args.iter().any(|arg| arg == "--") {
        return args;
    }
    let mut root = root();
    // Adds the global options to the subcommands.
    root.build();
    let command = args
        .iter()
        .skip(1)
        .filter_map(|arg| arg.to_str())
        .fold(&root, |command, arg| command.find_subcommand(arg).unwrap_or(command));
    if !takes_text(command) {
        return args;
    }
    let mut prompts = Vec::new();
    let mut others: Vec<OsString> = Vec::with_capacity(args.len() + 1);
    for arg in args {
        let is_value =
            others.last().and_then(|last| last.to_str()).is_some_and(|last| needs_value(command, last));
        let is_prompt = arg.to_str().is_some_and(|text| is_dashed(text) && !has_value(command, text));
        if is_prompt && !is_value { prompts.push(arg) } else { others.push(arg) }
    }
    if !prompts.is_empty() {
        others.push("--".into());
        others.extend(prompts);
    }
    others
}

/// Returns true if an argument looks like an option, but has more than one word.
fn is_dashed(arg: &str) -> bool {
    arg.starts_with('-') && arg.contains(char::is_whitespace)
}

/// Returns true if the last argument of the command is a single text.
fn takes_text(command: &Command) -> bool {
    let last = command.get_positionals().last();
    last.is_some_and(|arg| {
        !(arg.is_last_set() || arg.is_trailing_var_arg_set() || arg.is_allow_hyphen_values_set())
    })
}

/// Returns true if the argument is an option of the command together with its value: `--name=VALUE` or `-nVALUE`.
fn has_value(command: &Command, arg: &str) -> bool {
    if let Some(long) = arg.strip_prefix("--") {
        return long.split_once('=').is_some_and(|(name, _)| find_long(command, name).is_some());
    }
    let mut chars = arg.chars().skip(1);
    let option = chars.next().and_then(|short| find_short(command, short));
    let is_attached = chars.next().is_some_and(|next| !next.is_whitespace());
    is_attached && option.is_some_and(|option| option.get_action().takes_values())
}

/// Returns true if the argument is an option of the command whose value follows.
fn needs_value(command: &Command, arg: &str) -> bool {
    let mut chars = arg.chars().skip(1);
    let option = match (arg.strip_prefix("--"), chars.next(), chars.next()) {
        (Some(name), ..) => find_long(command, name),
        (None, Some(short), None) if arg.starts_with('-') => find_short(command, short),
        _ => None,
    };
    option.is_some_and(|option| option.get_action().takes_values())
}

fn find_long<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let has_alias = |arg: &Arg| arg.get_all_aliases().is_some_and(|all| all.contains(&name));
    command.get_arguments().find(|arg| arg.get_long() == Some(name) || has_alias(arg))
}

fn find_short(command: &Command, name: char) -> Option<&Arg> {
    let has_alias = |arg: &Arg| arg.get_all_short_aliases().is_some_and(|all| all.contains(&name));
    command.get_arguments().find(|arg| arg.get_short() == Some(name) || has_alias(arg))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;

    fn protected(args: &[&str]) -> Vec<String> {
        let args = std::iter::once("nerve").chain(args.iter().copied()).map(OsString::from).collect();
        let done = protect(args, Cli::build_command);
        done.into_iter().skip(1).map(|arg| arg.into_string().unwrap()).collect()
    }

    #[test]
    fn prompt_with_dash_moves_behind_separator() {
        for prompt in
            ["-v is ignored, why?", "- a\n- b", "--json prints nothing", "-s is ignored", "-5 degrees"]
        {
            assert_eq!(protected(&["send", "me", prompt, "--json"]), ["send", "me", "--json", "--", prompt]);
            assert_eq!(protected(&["ask", prompt]), ["ask", "--", prompt]);
        }
        assert_eq!(
            protected(&["server", "node", "execute", "-s", "work", "me", "-x y"]),
            ["server", "node", "execute", "-s", "work", "me", "--", "-x y"]
        );
        assert_eq!(
            protected(&["branch", "run.ahr", "-x y", "--no-wait"]),
            ["branch", "run.ahr", "--no-wait", "--", "-x y"]
        );
    }

    #[test]
    fn options_and_programs_stay() {
        let cases: [&[&str]; 8] = [
            &["send", "me", "text", "--json"],
            &["send", "me", "-j"],
            &["send", "me", "--", "-v is ignored"],
            &["ask", "-cclaude --model x", "text"],
            &["ask", "--command=claude --model x", "text"],
            &["ask", "--command", "-x y", "text"],
            &["exec", "-c", "make test"],
            &["mock-agent", "-x y"],
        ];
        for args in cases {
            assert_eq!(protected(args), args);
        }
    }
}
