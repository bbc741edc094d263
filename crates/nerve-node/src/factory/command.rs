//! The command of a terminal node.

use nerve_api::request::CommandLine;
use nerve_api::value::BackendKind;

use crate::error::EngineError;

/// The name of Claude Code's profile, and of its program.
pub(super) const CLAUDE: &str = "claude";

/// Returns the command to run. A node for Claude Code runs nothing else.
pub(super) fn program_argv(
    backend: BackendKind,
    command: CommandLine,
    shell: Option<String>,
) -> Result<Vec<String>, EngineError> {
    if !backend.is_claude() {
        return split_command(command, shell);
    }
    if is_empty(&command) {
        return Ok(vec![CLAUDE.to_string()]);
    }
    let argv = split_command(command, shell)?;
    if argv.iter().any(|word| word.to_lowercase().contains(CLAUDE)) {
        return Ok(argv);
    }
    Err(EngineError::invalid_request(format!("Command must contain 'claude'. Got: {}", argv.join(" ")))
        .hint(format!("backend '{}' is for Claude Code; other backends run any program", backend.as_str())))
}

/// Splits a command like a shell, without running one. An empty command means `shell`, the user's.
///
/// # Errors
/// InvalidRequest: a quote is open.
pub fn split_command(command: CommandLine, shell: Option<String>) -> Result<Vec<String>, EngineError> {
    let argv = match command {
        CommandLine::Argv(argv) => argv,
        CommandLine::Text(text) => shell_words::split(&text).map_err(|error| {
            let message = format!("cannot split the command '{text}': {error}");
            EngineError::invalid_request(message).hint("close the quote, or give the command as a list")
        })?,
    };
    if argv.is_empty() {
        return Ok(vec![shell.unwrap_or_else(|| "/bin/sh".to_string())]);
    }
    Ok(argv)
}

/// Returns true if the command names no program.
pub(super) fn is_empty(command: &CommandLine) -> bool {
    match command {
        CommandLine::Text(text) => text.trim().is_empty(),
        CommandLine::Argv(argv) => argv.is_empty(),
    }
}
