//! Command line arguments that select an agent's conversation: finding, removing and inserting them.
//!
//! The arguments are data: the table `[session]` of a profile. Commands are lists of words, split as by a shell. Words
//! before the program (`env A=b`) and after `--` are ignored.

use std::time::Duration;

use serde::Deserialize;

use super::pattern::Pattern;
use super::registry::{file_name, is_assignment, program_at};

/// Forms for naming, resuming and forking a conversation of a program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionArgs {
    /// File names of the programs that support these arguments, without folders. A program that merely looks like them
    /// does not.
    pub programs: Vec<String>,
    /// Format of ids.
    #[serde(default)]
    pub ids: IdKind,
    /// Arguments that concern conversations.
    #[serde(default)]
    pub words: Vec<SessionArg>,
    /// Arguments of non-interactive commands, which are left unchanged.
    #[serde(default)]
    pub unless: Vec<String>,
    /// Arguments that start a conversation with the id `{new}`; empty if unsupported.
    #[serde(default)]
    pub start: Vec<String>,
    /// New nodes get an id.
    #[serde(default)]
    pub inject: bool,
    /// Arguments that resume the conversation `{id}`.
    #[serde(default)]
    pub resume: Vec<String>,
    /// Arguments that fork the conversation `{id}`, stored in `{file}`. `{new}` is the fork's own id, if it can be
    /// chosen.
    #[serde(default)]
    pub fork: Vec<String>,
    /// Arguments that set the working directory `{cwd}` when a fork runs in another folder. Without them the program
    /// would ask.
    #[serde(default)]
    pub elsewhere: Vec<String>,
    /// Method of finding the conversation of a running program.
    #[serde(rename = "learn")]
    pub id_source: Option<IdSource>,
    /// Format of the program's session files, if they can be cut at a moment.
    #[serde(rename = "past")]
    pub file_format: Option<SessionFileFormat>,
    /// Reason why conversations cannot be forked, for programs without support.
    pub cannot: Option<String>,
    /// Pattern of a row below the composer that is shown while the conversation is empty. A resuming program that shows
    /// it has not loaded its conversation yet, and a prompt could start a new one.
    pub empty: Option<Pattern>,
    /// Time that row must be shown until the conversation counts as empty, milliseconds.
    #[serde(default = "twenty_seconds")]
    pub empty_ms: u64,
}

fn twenty_seconds() -> u64 {
    20_000
}

/// Formats of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdKind {
    /// A UUID in its hyphenated hexadecimal form.
    #[default]
    Uuid,
    /// Up to 128 letters, digits, `-` and `_`.
    Word,
}

/// An argument that concerns conversations.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionArg {
    /// The option or subcommand as typed.
    pub word: String,
    /// Effect of the argument.
    #[serde(rename = "means")]
    pub effect: ArgEffect,
    /// Kind of the value that follows.
    #[serde(default)]
    pub value: ValueKind,
}

/// Effects of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArgEffect {
    /// Starts a conversation with the id in its value.
    New,
    /// Resumes the conversation named by its value or picked by the user.
    Resume,
    /// Resumes the latest conversation.
    Last,
    /// Forks the conversation.
    Fork,
}

/// Values of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueKind {
    /// No value.
    #[default]
    None,
    /// The next word, unless it is an option.
    Optional,
    /// The next word.
    Needed,
}

/// Ways to find the conversation of a running program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdSource {
    /// `~/.claude/sessions/<pid>.json`.
    Claude,
    /// The only rollout file that the process or a child has open; its name contains the id.
    Codex,
}

/// Formats of session files (see [`crate::parse::session_files`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionFileFormat {
    /// A file below `~/.gemini/tmp`; the program can read a copy.
    Gemini,
    /// A database, accessed with the program's `session list`, `export` and `import`.
    Opencode,
}

/// The conversation that a command selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversationRef {
    /// None: a new conversation begins.
    New,
    /// The conversation with this id.
    Id(String),
    /// A fork with an unspecified id.
    Fork,
    /// A conversation that only the program can determine.
    Unspecified,
}

impl SessionArgs {
    /// Returns [`SessionArgs::empty_ms`].
    pub fn empty_time(&self) -> Duration {
        Duration::from_millis(self.empty_ms)
    }

    /// Returns the index of the program in a command if it is one of [`SessionArgs::programs`]. Looks behind wrappers
    /// such as `env`, but not into the arguments of a shell or another program.
    pub fn program_at(&self, argv: &[String]) -> Option<usize> {
        program_at(argv).filter(|at| self.programs.iter().any(|program| program == file_name(&argv[*at])))
    }

    /// Returns the variables that a wrapper such as `env` sets for the program. `None` if the command is not of one of
    /// [`SessionArgs::programs`].
    pub fn assignments(&self, argv: &[String]) -> Option<Vec<(String, String)>> {
        let words = argv[..self.program_at(argv)?].iter().filter(|word| is_assignment(word));
        let pairs = words.filter_map(|word| word.split_once('='));
        Some(pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    /// Returns true if the text has the format of an id.
    pub fn is_id(&self, id: &str) -> bool {
        match self.ids {
            IdKind::Uuid => is_uuid(id),
            IdKind::Word => {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
                (1..=128).contains(&id.len()) && !id.starts_with('-') && id.bytes().all(plain)
            }
        }
    }

    /// Returns the conversation that a command selects.
    ///
    /// ```
    /// use nerve_agent::profile::{Profiles, session::ConversationRef};
    ///
    /// let claude = Profiles::builtin().get("claude").unwrap().session.clone().unwrap();
    /// let id = "0b0e7f0a-8c9c-4c0e-9f53-5d4f6f0c7f11";
    /// let argv = ["claude", "--session-id", id].map(String::from);
    /// assert_eq!(claude.conversation(&argv), ConversationRef::Id(id.into()));
    /// ```
    pub fn conversation(&self, argv: &[String]) -> ConversationRef {
        let (mut new, mut resumed_id, mut resumes, mut forks) = (None, None, false, false);
        self.scan(argv, |argument| match argument {
            Argument::Session(ArgEffect::New, value) => new = value.map(str::to_string),
            Argument::Session(ArgEffect::Resume, value) => {
                resumes = true;
                resumed_id = value.filter(|value| self.is_id(value)).map(str::to_string);
            }
            Argument::Session(ArgEffect::Last, _) => resumes = true,
            Argument::Session(ArgEffect::Fork, _) => forks = true,
            Argument::Other(_) => {}
        });
        match (new, forks, resumed_id, resumes) {
            (Some(id), ..) => ConversationRef::Id(id),
            (None, true, ..) => ConversationRef::Fork,
            (None, false, Some(id), _) => ConversationRef::Id(id),
            (None, false, None, true) => ConversationRef::Unspecified,
            (None, false, None, false) => ConversationRef::New,
        }
    }

    /// Returns true if the command resumes or forks a conversation.
    pub fn resumes(&self, argv: &[String]) -> bool {
        let mut resumes = false;
        self.scan(argv, |argument| match argument {
            Argument::Session(ArgEffect::Resume | ArgEffect::Last | ArgEffect::Fork, _) => resumes = true,
            Argument::Session(ArgEffect::New, _) | Argument::Other(_) => {}
        });
        resumes
    }

    /// Returns the command without the arguments that concern conversations.
    pub fn without_session_args(&self, argv: &[String]) -> Vec<String> {
        let mut base = Vec::with_capacity(argv.len());
        self.scan(argv, |argument| {
            if let Argument::Other(word) = argument {
                base.push(word.clone());
            }
        });
        base
    }

    /// Returns the command with arguments that start the conversation `new`. `None` for other programs, non-interactive
    /// commands, commands that select an existing conversation, and forks whose id cannot be chosen.
    pub fn start_command(&self, argv: &[String], new: &str) -> Option<Vec<String>> {
        let program = self.program_at(argv)?;
        let options = argv[program + 1..].iter().take_while(|word| *word != "--");
        let is_non_interactive = options.into_iter().any(|word| {
            let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
            self.unless.iter().any(|unless| unless == name)
        });
        let can_start = match self.conversation(argv) {
            ConversationRef::New => true,
            ConversationRef::Fork => self.can_name_forks(),
            ConversationRef::Id(_) | ConversationRef::Unspecified => false,
        };
        if self.start.is_empty() || is_non_interactive || !can_start {
            return None;
        }
        let mut started = argv.to_vec();
        started.splice(program + 1..program + 1, self.start.iter().map(|word| word.replace("{new}", new)));
        Some(started)
    }

    /// Returns the command that resumes the conversation `id`; `None` if unsupported.
    pub fn resume_command(&self, argv: &[String], id: &str) -> Option<Vec<String>> {
        self.with_words(argv, &self.resume, |word| word.replace("{id}", id))
    }

    /// Returns the command that forks the conversation `id`, stored in `file`, as `new`; `None` if unsupported.
    pub fn fork_command(&self, argv: &[String], id: &str, new: &str, file: &str) -> Option<Vec<String>> {
        self.with_words(argv, &self.fork, |word| {
            word.replace("{id}", id).replace("{new}", new).replace("{file}", file)
        })
    }

    /// Adds the working directory to a fork command for another folder.
    pub fn with_cwd(&self, mut command: Vec<String>, cwd: &str) -> Vec<String> {
        let program = self.program_at(&command).unwrap_or(command.len());
        let end = command[program..].iter().position(|word| word == "--");
        let end = end.map_or(command.len(), |end| program + end);
        command.splice(end..end, self.elsewhere.iter().map(|word| word.replace("{cwd}", cwd)));
        command
    }

    /// Returns true if the id of a fork can be chosen.
    pub fn can_name_forks(&self) -> bool {
        self.fork.iter().any(|word| word.contains("{new}"))
    }

    fn with_words(
        &self,
        argv: &[String],
        words: &[String],
        fill: impl Fn(&String) -> String,
    ) -> Option<Vec<String>> {
        let program = self.program_at(argv)?;
        if words.is_empty() {
            return None;
        }
        let mut command = self.without_session_args(argv);
        let end = command[program..].iter().position(|word| word == "--");
        let end = end.map_or(command.len(), |end| program + end);
        command.splice(end..end, words.iter().map(fill));
        Some(command)
    }

    /// Passes the arguments that concern conversations with their values, and all other words, to `visit`.
    fn scan<'a>(&self, argv: &'a [String], mut visit: impl FnMut(Argument<'a>)) {
        let program = self.program_at(argv).unwrap_or(argv.len());
        let mut words = argv.iter().enumerate().peekable();
        let mut is_past_options = false;
        while let Some((at, word)) = words.next() {
            is_past_options |= at > program && word == "--";
            let session_arg = match at > program && !is_past_options {
                true => self.match_word(word),
                false => None,
            };
            let Some((session_arg, attached)) = session_arg else {
                visit(Argument::Other(word));
                continue;
            };
            let is_value = |next: &(usize, &String)| match session_arg.value {
                ValueKind::None => false,
                ValueKind::Optional => !next.1.starts_with('-'),
                ValueKind::Needed => next.1 != "--",
            };
            let value = match attached {
                Some(value) => Some(value),
                None => words.next_if(is_value).map(|(_, value)| value.as_str()),
            };
            visit(Argument::Session(session_arg.effect, value));
        }
    }

    /// Matches an argument that concerns conversations, and returns an attached value: `--resume=ID`, `-rID`.
    fn match_word<'a>(&self, word: &'a str) -> Option<(&SessionArg, Option<&'a str>)> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value)),
            _ => (word, None),
        };
        let by_name = |name: &str| self.words.iter().find(|known| known.word == name);
        match by_name(name) {
            Some(known) if value.is_none() || known.value != ValueKind::None => Some((known, value)),
            _ => {
                let (letter, value) = word.split_at_checked(2)?;
                let known = by_name(letter).filter(|known| known.value != ValueKind::None)?;
                (letter.starts_with('-') && letter != "--" && self.is_id(value))
                    .then_some((known, Some(value)))
            }
        }
    }
}

/// A word of a command.
enum Argument<'a> {
    /// An argument that concerns conversations, and its value.
    Session(ArgEffect, Option<&'a str>),
    /// Any other word.
    Other(&'a String),
}

/// Returns true for 8-4-4-4-12 hexadecimal digits.
fn is_uuid(id: &str) -> bool {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    id.len() == 36
        && id.bytes().enumerate().all(|(at, byte)| match DASHES.contains(&at) {
            true => byte == b'-',
            false => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests;
