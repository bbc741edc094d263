//! Parses an input into a request. Does no I/O.

use clap::{CommandFactory, Parser};
use nerve_commands::failure::{Failure, USAGE};

use super::command::{Command, ReplLine};
use super::input::Input;

/// A parsed input.
#[derive(Debug)]
pub(super) enum Request {
    /// `@NODE TEXT`: a prompt whose answer is streamed.
    Prompt { node: String, text: String },
    /// Any other command.
    Command(Box<Command>),
    /// The help text of a command.
    Help(String),
}

/// Commands whose last argument is the rest of the line, verbatim.
const VERBATIM: [&str; 3] = ["send", "run", "write"];

/// Parses an input.
///
/// # Errors
/// A syntax error, with a hint.
pub(super) fn parse(input: &Input) -> Result<Request, Failure> {
    // An older syntax began commands with a colon: `:fork @claude other`.
    let input = &match input.head.trim_start().strip_prefix(':') {
        Some(head) => Input { head: head.to_string(), ..input.clone() },
        None => input.clone(),
    };
    let (first, rest) = split_word(&input.head);
    if let Some(node) = first.strip_prefix('@') {
        let text = verbatim(rest, input.block.as_deref());
        return prompt(node, text);
    }
    let words = match VERBATIM.contains(&first).then(|| verbatim_words(first, rest, input)).flatten() {
        Some(words) => words,
        None => words(input)?,
    };
    match ReplLine::try_parse_from(&words) {
        Ok(line) => Ok(Request::Command(Box::new(line.command))),
        Err(error) => convert_error(&error),
    }
}

/// Replaces the older word `dag` for `graph` at the start of an input. Returns `None` if it is not there.
pub(super) fn without_dag(input: &Input) -> Option<Input> {
    let (first, rest) = split_word(&input.head);
    (first == "dag").then(|| Input { head: format!("graph {rest}"), ..input.clone() })
}

/// Returns the help text of a command.
///
/// # Errors
/// The command does not exist.
pub(super) fn help(command: &[String]) -> Result<String, Failure> {
    let words = command.iter().map(String::as_str).chain(["--help"]);
    match ReplLine::try_parse_from(words) {
        Err(error) => match convert_error(&error)? {
            Request::Help(text) => Ok(text),
            Request::Prompt { .. } | Request::Command(_) => Ok(String::new()),
        },
        Ok(_) => Ok(String::new()),
    }
}

/// Returns the command declaration, for completion.
pub(super) fn declaration() -> clap::Command {
    let mut command = ReplLine::command();
    command.build();
    command
}

/// Replaces command lines of the program by the corresponding REPL commands.
pub(super) fn to_repl_syntax(text: &str) -> String {
    const REPLACEMENTS: [(&str, &str); 11] = [
        ("nerve node ", "node "),
        ("nerve new", "node create"),
        ("nerve send", "send"),
        ("nerve ls", "node list"),
        ("nerve wait", "wait"),
        ("nerve answer", "answer"),
        ("nerve stop", "node stop"),
        ("nerve logs", "history"),
        ("nerve graph validate", "validate"),
        ("nerve graph list --runs", "runs"),
        ("nerve graph status", "runs"),
    ];
    REPLACEMENTS.iter().fold(text.to_string(), |text, (cli, repl)| text.replace(cli, repl))
}

fn prompt(node: &str, text: String) -> Result<Request, Failure> {
    if node.is_empty() {
        return Err(Failure::new(USAGE, "'@' without a node").hint("@NODE TEXT sends TEXT to NODE"));
    }
    if text.trim().is_empty() {
        return Err(Failure::new(USAGE, format!("no text for '{node}'")));
    }
    Ok(Request::Prompt { node: node.to_string(), text })
}

/// Splits a command with a verbatim text. Returns `None` if it has options, or lacks a node or a text: it is then parsed
/// like any other command.
fn verbatim_words(command: &str, rest: &str, input: &Input) -> Option<Vec<String>> {
    let (node, rest) = split_word(rest);
    let text = verbatim(rest, input.block.as_deref());
    if node.is_empty() || node.starts_with('-') || text.is_empty() || is_field(command, node) {
        return None;
    }
    Some([command, "--", node, &text].map(str::to_string).to_vec())
}

fn words(input: &Input) -> Result<Vec<String>, Failure> {
    let mut words = shell_words::split(&input.head)
        .map_err(|_| Failure::new(USAGE, "unclosed quote").hint("prompts after '@NODE' need no quotes"))?;
    words.extend(input.block.clone());
    // `run` without a node means `graph run`.
    if words.first().is_some_and(|word| word == "run") {
        let second = words.get(1).map(String::as_str);
        if second.is_none_or(|word| (word.starts_with('-') && word != "--help") || is_field("run", word)) {
            words.insert(0, "graph".to_string());
        }
    }
    Ok(words)
}

/// Returns true for `KEY=VALUE` after `run`, which is no valid node name.
fn is_field(command: &str, word: &str) -> bool {
    command == "run" && word.contains('=')
}

/// Joins the rest of the line and the block.
fn verbatim(rest: &str, block: Option<&str>) -> String {
    format!("{rest}{}", block.unwrap_or_default())
}

/// Splits off the first word and the white space after it.
fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// Converts a clap error.
fn convert_error(error: &clap::Error) -> Result<Request, Failure> {
    use clap::error::ErrorKind;
    let text = to_repl_syntax(&error.render().to_string());
    if matches!(error.kind(), ErrorKind::DisplayHelp) {
        return Ok(Request::Help(text));
    }
    if matches!(error.kind(), ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand) {
        let usage = text.lines().find(|line| line.starts_with("Usage:")).unwrap_or_default();
        let commands = "'help' lists the commands".to_string();
        let failure = Failure::new(USAGE, "incomplete command");
        return Err(failure.hint(if usage.is_empty() { commands } else { usage.to_string() }));
    }
    let mut parts = text.split("\n\n").map(str::trim).filter(|part| !part.is_empty());
    let message = parts.next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(message).replace('\n', " ");
    let rest: Vec<&str> = parts.collect();
    let tip = rest.iter().find_map(|part| part.strip_prefix("tip: "));
    let usage = rest.iter().find(|part| part.starts_with("Usage:") && !part.contains("<COMMAND>"));
    let hint = tip.or(usage.copied()).unwrap_or("'help' lists the commands");
    Err(Failure::new(USAGE, message).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{DraftCommand, GraphCommand, StepCommand};
    use nerve_commands::node_command::NodeCommand;

    fn parse_input(head: &str, block: Option<&str>) -> Result<Request, Failure> {
        parse(&Input { head: head.to_string(), block: block.map(str::to_string) })
    }

    fn command(head: &str) -> Command {
        match parse_input(head, None) {
            Ok(Request::Command(command)) => *command,
            other => panic!("{head}: {other:?}"),
        }
    }

    fn fails(head: &str) -> Failure {
        parse_input(head, None).err().unwrap_or_else(|| panic!("{head} is accepted"))
    }

    #[test]
    fn prompts_are_verbatim() {
        let cases = [
            ("@me  say \"hi\" --help 'x", None, "say \"hi\" --help 'x"),
            ("@me trailing ", None, "trailing "),
            ("@me", Some("one\ntwo"), "one\ntwo"),
            ("@me look: ", Some("x"), "look: x"),
        ];
        for (head, block, expected) in cases {
            let Ok(Request::Prompt { node, text }) = parse_input(head, block) else { panic!("{head}") };
            assert_eq!((node.as_str(), text.as_str()), ("me", expected));
        }
        let Command::Send(prompt) = command("send me it's -h \\o/") else { panic!() };
        assert_eq!((prompt.node.as_str(), prompt.text.as_str()), ("me", "it's -h \\o/"));
        let Command::Write(write) = command(r"write sh ls\r") else { panic!() };
        assert_eq!(write.text, r"ls\r");
        let Command::Run(run) = command("run sh echo \"a  b\" --input x") else { panic!() };
        assert_eq!((run.node.as_str(), run.text.as_str()), ("sh", "echo \"a  b\" --input x"));
    }

    #[test]
    fn run_without_a_node_runs_the_graph() {
        for line in ["run", "graph run", "run --detach", "run -i x", "run task=hello"] {
            assert!(matches!(command(line), Command::Graph(GraphCommand::Run(_))), "{line}");
        }
        let Command::Graph(GraphCommand::Run(run)) = command("run 'task=two words' n=3 --detach") else {
            panic!()
        };
        assert_eq!((run.set.len(), run.detach), (2, true));
        assert_eq!((run.set[0].value.clone(), run.set[1].value.clone()), ("two words".into(), 3.into()));
        assert!(fails("run sh").message.contains("COMMAND"), "{:?}", fails("run sh"));
    }

    #[test]
    fn dag_is_an_older_word_for_graph() {
        let input = |head: &str| Input { head: head.to_string(), block: None };
        assert_eq!(without_dag(&input(" dag load 'my file.yaml'")), Some(input("graph load 'my file.yaml'")));
        assert_eq!(without_dag(&input("@me dag")), None);
        assert_eq!(without_dag(&input("dagger")), None);
    }

    #[test]
    fn words_are_split_like_a_shell() {
        let Command::Step(StepCommand::Add(step)) =
            command("step add ask me 'Say {{ input }}' now --after a,b")
        else {
            panic!()
        };
        assert_eq!(step.input, ["Say {{ input }}", "now"]);
        assert_eq!(step.after, ["a", "b"]);
        let Ok(Request::Command(with_block)) = parse_input("step add ask me ", Some("one\ntwo")) else {
            panic!()
        };
        let Command::Step(StepCommand::Add(step)) = *with_block else { panic!() };
        assert_eq!(step.input, ["one\ntwo"]);
        let Command::Node(NodeCommand::Create(args)) = command("node create sh -c 'bash --norc'") else {
            panic!()
        };
        assert_eq!(args.command.as_deref(), Some("bash --norc"));
        assert!(fails("node create 'x").message.contains("quote"));
    }

    #[test]
    fn graph_prefix_is_optional() {
        for line in ["validate", "graph validate", "dry", "show dot", "graph show mermaid", "cancel"] {
            let command = command(line);
            assert!(matches!(command, Command::Draft(_) | Command::Graph(GraphCommand::Draft(_))), "{line}");
        }
        assert!(matches!(command("show"), Command::Draft(DraftCommand::Show(_))));
    }

    #[test]
    fn syntax_errors_suggest_commands() {
        let error_of = |line: &str| {
            let Failure { message, hint, code, .. } = fails(line);
            assert_eq!(code, USAGE);
            format!("{message} | {}", hint.unwrap_or_default())
        };
        assert_eq!(
            error_of("nod list"),
            "unrecognized subcommand 'nod' | a similar subcommand exists: 'node'"
        );
        assert!(error_of("node crate x").contains("'create'"), "{}", error_of("node crate x"));
        assert!(error_of("show svg").contains("svg"), "{}", error_of("show svg"));
        assert!(error_of("node").contains("Usage: node"), "{}", error_of("node"));
        assert!(error_of("interrupt").contains("Usage: interrupt <NODE>"), "{}", error_of("interrupt"));
        assert!(error_of("brew coffee").contains("'help' lists the commands"));
        assert!(error_of("@ hello").contains("@NODE TEXT"));
        assert!(error_of("@me  ").contains("no text"));
    }

    #[test]
    fn help_uses_repl_syntax() {
        let text = help(&["node".to_string(), "create".to_string()]).unwrap();
        assert!(text.contains("node create me -c claude") && !text.contains("nerve node"), "{text}");
        assert!(help(&["nod".to_string()]).is_err());
        assert!(matches!(parse_input("read --help", None), Ok(Request::Help(_))));
        assert!(matches!(parse_input("run --help", None), Ok(Request::Help(_))));
    }
}
