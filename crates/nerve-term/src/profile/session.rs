//! The words of a command that say which conversation an agent has: found, taken out, put in (seed claude-fork §1, §2).
//!
//! What the words are is data: the table `[session]` of a profile. Commands are lists of words here; who splits a text, splits it as
//! a shell does. Nothing before the program (`env A=b`) and nothing behind `--` is looked at.

use std::time::Duration;

use serde::Deserialize;

use super::pattern::Pattern;
use super::registry::{file_name, program_at};

/// How a program is given the id of a conversation, how it goes on with one, how it forks one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionForms {
    /// File names of the programs that understand these words, without folders: what only draws itself like them does not.
    pub programs: Vec<String>,
    /// What an id looks like.
    #[serde(default)]
    pub ids: IdKind,
    /// The words that concern conversations.
    #[serde(default)]
    pub words: Vec<SessionWord>,
    /// With one of these nothing is put into a command: it is not interactive.
    #[serde(default)]
    pub unless: Vec<String>,
    /// Words that start a conversation with an id: `{new}` stands for it. Empty where there is no way.
    #[serde(default)]
    pub start: Vec<String>,
    /// A node that is made without an id is given one.
    #[serde(default)]
    pub inject: bool,
    /// Words that go on with the conversation `{id}`.
    #[serde(default)]
    pub resume: Vec<String>,
    /// Words that begin a new conversation from the conversation `{id}`, as it stands in `{file}`; `{new}` is its own id, where it
    /// can be given one.
    #[serde(default)]
    pub fork: Vec<String>,
    /// Words that have it work in `{cwd}`, for a fork of a conversation that was begun in another folder: without, it would ask.
    #[serde(default)]
    pub elsewhere: Vec<String>,
    /// Where a running program says which conversation it has.
    pub learn: Option<Learn>,
    /// In which form the program keeps a conversation, where a copy of it can be cut at a moment.
    pub past: Option<PastKind>,
    /// Why a conversation cannot be forked, for programs where that is so.
    pub cannot: Option<String>,
    /// A row below the composer that stands there while the conversation is empty. A program that goes on with one and shows it has not
    /// loaded the past yet, and what is typed may begin a conversation of its own.
    pub empty: Option<Pattern>,
    /// How long that row has to stand there until the conversation is taken for one that is empty indeed, milliseconds.
    #[serde(default = "twenty_seconds")]
    pub empty_ms: u64,
}

fn twenty_seconds() -> u64 {
    20_000
}

/// What ids look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdKind {
    /// `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, in hexadecimal digits.
    #[default]
    Uuid,
    /// Up to 128 letters, digits, `-` and `_`.
    Word,
}

/// A word that concerns conversations.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionWord {
    /// As it is typed: an option, or a subcommand.
    pub word: String,
    /// What it does.
    pub means: Meaning,
    /// Does a value follow it?
    #[serde(default)]
    pub value: ValueKind,
}

/// What a word does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Meaning {
    /// Its value is the id of a conversation that begins.
    New,
    /// Goes on with the conversation that its value names, or that somebody picks.
    Resume,
    /// Goes on with the latest one.
    Last,
    /// Goes on with a copy.
    Fork,
}

/// Values of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueKind {
    /// There is none.
    #[default]
    None,
    /// The next word, unless that is an option.
    Optional,
    /// The next word.
    Needed,
}

/// Where a running program says which conversation it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Learn {
    /// `~/.claude/sessions/<pid>.json`.
    Claude,
    /// The one rollout file, named by the id, that the process or a child of it has open.
    Codex,
}

/// In which form a program keeps a conversation (see [`crate::parse::session_files`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PastKind {
    /// A file below `~/.gemini/tmp`, which the program can be given a copy of.
    Gemini,
    /// A database of its own: `session list`, `export` and `import` of the program.
    Opencode,
}

/// What a command says about the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Nothing: a new one begins.
    Nothing,
    /// It has this id.
    Id(String),
    /// A copy begins, with an id that is not said.
    Fork,
    /// One that only the program knows.
    Other,
}

impl SessionForms {
    /// See [`SessionForms::empty_ms`].
    pub fn empty_time(&self) -> Duration {
        Duration::from_millis(self.empty_ms)
    }

    /// Where the program is among the words of a command, if it is one of these: behind wrappers such as `env`, but not in the
    /// arguments of a shell or of any other program.
    pub fn program_at(&self, argv: &[String]) -> Option<usize> {
        program_at(argv).filter(|at| self.programs.iter().any(|program| program == file_name(&argv[*at])))
    }

    /// Can this be an id?
    pub fn is_id(&self, id: &str) -> bool {
        match self.ids {
            IdKind::Uuid => is_uuid(id),
            IdKind::Word => {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
                (1..=128).contains(&id.len()) && !id.starts_with('-') && id.bytes().all(plain)
            }
        }
    }

    /// What a command says about the conversation.
    ///
    /// ```
    /// use nerve_term::profile::{Profiles, session::Told};
    ///
    /// let claude = Profiles::builtin().get("claude").unwrap().session.clone().unwrap();
    /// let id = "0b0e7f0a-8c9c-4c0e-9f53-5d4f6f0c7f11";
    /// let argv = ["claude", "--session-id", id].map(String::from);
    /// assert_eq!(claude.told(&argv), Told::Id(id.into()));
    /// ```
    pub fn told(&self, argv: &[String]) -> Told {
        let (mut new, mut resumed, mut goes_on, mut forks) = (None, None, false, false);
        self.scan(argv, |found| match found {
            Found::Word(Meaning::New, value) => new = value.map(str::to_string),
            Found::Word(Meaning::Resume, value) => {
                goes_on = true;
                resumed = value.filter(|value| self.is_id(value)).map(str::to_string);
            }
            Found::Word(Meaning::Last, _) => goes_on = true,
            Found::Word(Meaning::Fork, _) => forks = true,
            Found::Rest(_) => {}
        });
        match (new, forks, resumed, goes_on) {
            (Some(id), ..) => Told::Id(id),
            (None, true, ..) => Told::Fork,
            (None, false, Some(id), _) => Told::Id(id),
            (None, false, None, true) => Told::Other,
            (None, false, None, false) => Told::Nothing,
        }
    }

    /// Does the command go on with an earlier conversation, or with a copy of one?
    pub fn goes_on(&self, argv: &[String]) -> bool {
        let mut goes_on = false;
        self.scan(argv, |found| match found {
            Found::Word(Meaning::Resume | Meaning::Last | Meaning::Fork, _) => goes_on = true,
            Found::Word(Meaning::New, _) | Found::Rest(_) => {}
        });
        goes_on
    }

    /// The command without its words on conversations (seed claude-fork §2.2).
    pub fn base(&self, argv: &[String]) -> Vec<String> {
        let mut base = Vec::with_capacity(argv.len());
        self.scan(argv, |found| {
            if let Found::Rest(word) = found {
                base.push(word.clone());
            }
        });
        base
    }

    /// The command with the id of the conversation that it is to begin, right behind the program. `None` where that is not possible:
    /// no program that takes one, not interactive, a conversation that is there already.
    pub fn started(&self, argv: &[String], new: &str) -> Option<Vec<String>> {
        let program = self.program_at(argv)?;
        let options = argv[program + 1..].iter().take_while(|word| *word != "--");
        let is_other = options.into_iter().any(|word| {
            let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
            self.unless.iter().any(|unless| unless == name)
        });
        if self.start.is_empty() || is_other || matches!(self.told(argv), Told::Id(_) | Told::Other) {
            return None;
        }
        let mut started = argv.to_vec();
        started.splice(program + 1..program + 1, self.start.iter().map(|word| word.replace("{new}", new)));
        Some(started)
    }

    /// The command that goes on with the conversation `id`. `None` where there is no way.
    pub fn resumed(&self, argv: &[String], id: &str) -> Option<Vec<String>> {
        self.with_words(argv, &self.resume, |word| word.replace("{id}", id))
    }

    /// The command that begins a conversation `new` from the conversation `id`, as it stands in `file`. `None` where there is no way.
    pub fn forked(&self, argv: &[String], id: &str, new: &str, file: &str) -> Option<Vec<String>> {
        self.with_words(argv, &self.fork, |word| {
            word.replace("{id}", id).replace("{new}", new).replace("{file}", file)
        })
    }

    /// A command of [`SessionForms::forked`] that is to work in another folder than the conversation was begun in.
    pub fn moved(&self, mut command: Vec<String>, cwd: &str) -> Vec<String> {
        let program = self.program_at(&command).unwrap_or(command.len());
        let end = command[program..].iter().position(|word| word == "--");
        let end = end.map_or(command.len(), |end| program + end);
        command.splice(end..end, self.elsewhere.iter().map(|word| word.replace("{cwd}", cwd)));
        command
    }

    /// A fork is given an id of its own.
    pub fn names_forks(&self) -> bool {
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
        let mut command = self.base(argv);
        let end = command[program..].iter().position(|word| word == "--");
        let end = end.map_or(command.len(), |end| program + end);
        command.splice(end..end, words.iter().map(fill));
        Some(command)
    }

    /// Goes through the words of a command: those on conversations with their values, and the rest.
    fn scan<'a>(&self, argv: &'a [String], mut found: impl FnMut(Found<'a>)) {
        let program = self.program_at(argv).unwrap_or(argv.len());
        let mut words = argv.iter().enumerate().peekable();
        let mut is_over = false;
        while let Some((at, word)) = words.next() {
            is_over |= at > program && word == "--";
            let known = match at > program && !is_over {
                true => self.word(word),
                false => None,
            };
            let Some((known, attached)) = known else {
                found(Found::Rest(word));
                continue;
            };
            let is_value = |next: &(usize, &String)| match known.value {
                ValueKind::None => false,
                ValueKind::Optional => !next.1.starts_with('-'),
                ValueKind::Needed => next.1 != "--",
            };
            let value = match attached {
                Some(value) => Some(value),
                None => words.next_if(is_value).map(|(_, value)| value.as_str()),
            };
            found(Found::Word(known.means, value));
        }
    }

    /// The word on conversations that this is, and the value that hangs on it: `--resume=ID`, `-rID`.
    fn word<'a>(&self, word: &'a str) -> Option<(&SessionWord, Option<&'a str>)> {
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

/// What is at a place of a command.
enum Found<'a> {
    /// A word on conversations, and its value.
    Word(Meaning, Option<&'a str>),
    /// Something else.
    Rest(&'a String),
}

/// 8-4-4-4-12 hexadecimal digits.
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
