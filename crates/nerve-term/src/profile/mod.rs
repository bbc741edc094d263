//! What is known of each agent program, as data: how it is started, submitted to, told ready from busy, interrupted, left.
//!
//! Built-in profiles are the TOML files in `profiles/`; a user's own files override them by name. Patterns look only at the
//! live region (composer, footer, status rows, dialog), never at quoted conversation text.

mod pattern;
mod registry;
pub mod session;

pub use pattern::Pattern;
pub use registry::{ProfileError, Profiles};

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use self::session::SessionForms;
use crate::parse::ParserKind;

/// One agent program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name, as `--profile` takes it.
    pub name: String,
    /// File names of programs it fits, without folders.
    #[serde(default)]
    pub programs: Vec<String>,
    /// Whose model answers, as OpenTelemetry's `gen_ai.provider.name` has it: `anthropic`, `openai`, `gcp.gemini`. Not for those that
    /// ask whichever model the user has chosen.
    #[serde(default)]
    pub provider: Option<String>,
    /// Parser of its answers.
    #[serde(default, deserialize_with = "parser_name")]
    pub parser: ParserKind,
    /// Variables set at the start, all or none: if the user or the server's environment sets one of them (or one of
    /// `env_unless`), none is set.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables that say that the user has chosen: with one of them set, none of `env` is set.
    #[serde(default)]
    pub env_unless: Vec<String>,
    /// Variables taken out of the inherited environment.
    #[serde(default)]
    pub env_remove: Vec<String>,
    /// Where prompts are typed, for programs that draw a composer.
    pub composer: Option<Composer>,
    /// How a prompt is sent.
    #[serde(default)]
    pub submit: Submit,
    /// Keys that interrupt a running turn, in `unescape` notation (`\e`, `\x03`).
    #[serde(default = "ctrl_c")]
    pub interrupt: String,
    /// A row below the composer that asks for the interrupt keys once more.
    pub interrupt_again: Option<Pattern>,
    /// What window titles say.
    #[serde(default)]
    pub title: Titles,
    /// Rules on the screen, tried in order; the first that fits decides.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// A row that a finished answer leaves in the conversation: tells a turn so fast that no sign of work was drawn.
    pub turn_end: Option<Pattern>,
    /// The shape of dialogs.
    #[serde(default)]
    pub dialog: Dialog,
    /// The prompt of a line-based program: matched against the cursor's row up to the cursor.
    pub prompt: Option<Pattern>,
    /// The program is its own terminal's foreground group when idle (shells).
    #[serde(default)]
    pub foreground: bool,
    /// Silences.
    #[serde(default)]
    pub timing: Timing,
    /// How the program can be made to tell what it does.
    pub hooks: Option<Hooks>,
    /// Where the program keeps its own record of a conversation.
    #[serde(default)]
    pub transcript: Option<TranscriptKind>,
    /// The words of its command that say which conversation it has.
    pub session: Option<SessionForms>,
    /// What the program makes of what was said before: see [`Profile::context_kind`].
    #[serde(default)]
    pub context: Option<ContextKind>,
    /// How the program is told to reach Anthropic's API through a proxy; `None`: it cannot be.
    pub proxy: Option<ProxyForms>,
}

/// The variables that say where a program's model is.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyForms {
    /// The address: `http://127.0.0.1:PORT` is put in.
    pub url: String,
    /// What the program shows to be let in, for proxies that want that.
    pub token: Option<String>,
    /// Taken out of the inherited environment where a token is given: the program would show these instead of it.
    #[serde(default)]
    pub unset: Vec<String>,
}

/// What a program makes of an earlier conversation that is put in front of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContextKind {
    /// It remembers its own conversation: it is told only what it does not know.
    Own,
    /// It remembers nothing: it is told everything each time.
    None,
    /// What it is given is run as commands: it must never be told anything else.
    Commands,
}

impl Profile {
    /// What the program makes of an earlier conversation. Where the profile does not say: programs that draw a composer are agents with a
    /// memory of their own; any other may be a shell.
    pub fn context_kind(&self) -> ContextKind {
        let unsaid = if self.composer.is_some() { ContextKind::Own } else { ContextKind::Commands };
        self.context.unwrap_or(unsaid)
    }
}

/// The input area of a program that draws one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Composer {
    /// How its rows are told from others.
    pub layout: Layout,
    /// Start of its first row (`bar`: of each row); what follows is the draft.
    pub prompt: Pattern,
    /// Start of its first row in a mode where text means something else (a shell mode): all of the row is the draft then, so
    /// that no prompt is typed into it.
    pub other_mode: Option<Pattern>,
    /// The row right above it (`box`).
    pub above: Option<Pattern>,
    /// The row right below it (`box`, `bar`).
    pub below: Option<Pattern>,
    /// Texts shown while it is empty.
    #[serde(default)]
    pub placeholder: Vec<Pattern>,
    /// What stands there for a long paste.
    pub chip: Option<Pattern>,
    /// Keys that empty it.
    #[serde(default = "ctrl_u")]
    pub clear: String,
    /// How many rows above the composer the live area begins: there the echo of a prompt is drawn.
    #[serde(default = "two_rows")]
    pub live_above: u16,
}

/// Composer layouts seen in the wild.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Between a row `above` and a row `below` (Claude Code).
    Box,
    /// Every row starts with the prompt pattern, a row `below` ends it (opencode).
    Bar,
    /// The rows around the cursor, from one that starts with the prompt pattern (Codex, Gemini).
    Row,
}

/// How a prompt is sent.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Submit {
    /// `paste`: paste, see it in the composer, then Enter by itself. `line`: text and Enter in one write.
    pub mode: SubmitMode,
    /// The Enter key's bytes.
    pub enter: String,
    /// How long the echo may take, milliseconds.
    pub echo_ms: u64,
    /// After how long an Enter without effect is repeated, milliseconds.
    pub enter_ms: u64,
    /// How often Enter is sent at most.
    pub enters: u32,
}

impl Default for Submit {
    fn default() -> Submit {
        Submit { mode: SubmitMode::Line, enter: "\\r".to_string(), echo_ms: 10_000, enter_ms: 800, enters: 4 }
    }
}

/// See [`Submit::mode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SubmitMode {
    /// Paste, echo, Enter.
    Paste,
    /// One write.
    Line,
}

/// Patterns on the window title.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Titles {
    /// Idle. Where set, a ready state needs it once any title of ours was seen.
    pub idle: Option<Pattern>,
    /// Working.
    pub busy: Option<Pattern>,
    /// Waiting for an answer to a dialog.
    pub blocked: Option<Pattern>,
}

/// A rule on a region of the screen.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What it says.
    pub state: RuleState,
    /// For `blocked`: what is asked.
    #[serde(default)]
    pub kind: BlockKind,
    /// Where to look.
    pub region: Region,
    /// Any of these rows decides. For `suspended` the group `until` holds the words that name a time; they may stand in the
    /// rows that follow the first, up to a blank one.
    pub pattern: Pattern,
    /// A row below the matching one that says that it is over: the agent has gone on since. For `footer` and `status`.
    pub unless_below: Option<Pattern>,
}

/// States a rule can assert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleState {
    /// Working.
    Busy,
    /// Asking.
    Blocked,
    /// Waiting for a prompt.
    Ready,
    /// Waiting for the end of a usage limit.
    Suspended,
}

/// What a blocked agent asks (design section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockKind {
    /// May this folder be trusted?
    Trust,
    /// Who are you?
    Login,
    /// Which colours?
    Theme,
    /// May this be done?
    Permission,
    /// A usage limit.
    Limit,
    /// Something else.
    #[default]
    Other,
}

impl BlockKind {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            BlockKind::Trust => "trust",
            BlockKind::Login => "login",
            BlockKind::Theme => "theme",
            BlockKind::Permission => "permission",
            BlockKind::Limit => "limit",
            BlockKind::Other => "other",
        }
    }
}

/// Parts of the screen a rule can look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Region {
    /// Rows below the composer.
    Footer,
    /// The block of rows right above the composer.
    Status,
    /// The rows at the end of the screen when no composer is there, from the row `dialog.above` on.
    Dialog,
    /// The cursor's row.
    Cursor,
}

/// The shape of dialogs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dialog {
    /// The row above a dialog; without one a dialog is the last `rows` rows.
    pub above: Option<Pattern>,
    /// How many rows at the end of the screen a dialog can have.
    pub rows: usize,
    /// A choice: group `label`, and group `selected` not empty where the cursor stands.
    pub choice: Pattern,
    /// A row that holds all choices side by side, two or more blanks between them, in its group `choices`: the selected one has
    /// another background than the end of the row.
    pub row: Option<Pattern>,
}

impl Default for Dialog {
    fn default() -> Dialog {
        Dialog {
            above: None,
            rows: 24,
            choice: Pattern::known(r"^[\s│┃]*(?<selected>[❯›●])?\s*\d+\.\s+(?<label>.*?)[\s│┃]*$"),
            row: None,
        }
    }
}

/// Silences and pauses, milliseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timing {
    /// Ready must hold this long at the end of a turn when a strong signal says so.
    pub settle_ms: u64,
    /// Ready must hold this long after the start.
    pub start_ms: u64,
    /// Silence that ends a turn when nothing stronger speaks.
    pub quiet_ms: u64,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing { settle_ms: 40, start_ms: 100, quiet_ms: 400 }
    }
}

impl Timing {
    /// See [`Timing::settle_ms`].
    pub fn settle(&self) -> Duration {
        Duration::from_millis(self.settle_ms)
    }
    /// See [`Timing::start_ms`].
    pub fn start(&self) -> Duration {
        Duration::from_millis(self.start_ms)
    }
    /// See [`Timing::quiet_ms`].
    pub fn quiet(&self) -> Duration {
        Duration::from_millis(self.quiet_ms)
    }
}

/// Hooks of an agent program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hooks {
    /// How they are asked for.
    pub kind: HookKind,
    /// File names of the programs that take them: the arguments are put right behind that word of the command.
    pub programs: Vec<String>,
}

/// Ways to ask for hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HookKind {
    /// `--settings FILE` with a `hooks` object (Claude Code).
    Claude,
}

/// Records that agents keep themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TranscriptKind {
    /// `~/.claude/projects/<cwd>/<session>.jsonl`.
    Claude,
}

fn ctrl_c() -> String {
    "\\x03".to_string()
}

fn two_rows() -> u16 {
    2
}

fn ctrl_u() -> String {
    "\\x15".to_string()
}

fn parser_name<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<ParserKind, D::Error> {
    let name = String::deserialize(deserializer)?;
    ParserKind::from_str(&name).map_err(serde::de::Error::custom)
}
