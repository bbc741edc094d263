//! Profiles: data about each agent program, such as how to start it, send a prompt, recognise its states and interrupt
//! it.
//!
//! Built-in profiles are the TOML files in `profiles/`; a user's files override them by name. Patterns inspect only the
//! live region (composer, footer, status rows, dialog), never quoted conversation text.

mod pattern;
mod registry;
pub mod session;
mod settings;
mod version;

pub use pattern::Pattern;
pub use registry::{ProfileError, ProfileSource, Profiles};
pub use settings::{SettingsFiles, UnsupportedSetting};
pub use version::{TestedVersions, Version};

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use nerve_types::ParserKind;
use serde::Deserialize;

use self::session::SessionArgs;

pub use nerve_types::BlockKind;

/// The profile of an agent program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name, as `--profile` takes it.
    pub name: String,
    /// File names of matching programs, without folders.
    #[serde(default)]
    pub programs: Vec<String>,
    /// The versions of the program that the profile was tested with.
    pub versions: Option<TestedVersions>,
    /// Provider of the model, as in OpenTelemetry's `gen_ai.provider.name`: `anthropic`, `openai`, `gcp.gemini`. Unset
    /// if the user chooses the model.
    #[serde(default)]
    pub provider: Option<String>,
    /// Parser of its answers.
    #[serde(default, deserialize_with = "parser_name")]
    pub parser: ParserKind,
    /// Environment variables to set at the start, all or none: none is set if the user's or the server's environment
    /// has one of them, or one of `env_unless`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Environment variables of the user that prevent `env` from being set.
    #[serde(default)]
    pub env_unless: Vec<String>,
    /// Environment variables to remove.
    #[serde(default)]
    pub env_remove: Vec<String>,
    /// Arguments with which the program draws a screen that the profile does not describe.
    #[serde(default)]
    pub unsupported_args: Vec<String>,
    /// Environment variables that have the same effect if they are on.
    #[serde(default)]
    pub unsupported_env: Vec<String>,
    /// The program's settings files, if a setting in them has the same effect.
    pub settings: Option<SettingsFiles>,
    /// The input area of programs that draw one.
    pub composer: Option<Composer>,
    /// Method of sending a prompt.
    #[serde(default)]
    pub submit: Submit,
    /// Keys that interrupt a running turn, in `unescape` notation (`\e`, `\x03`).
    #[serde(default = "ctrl_c")]
    pub interrupt: String,
    /// Pattern of a row below the composer that requests the interrupt keys again.
    pub interrupt_again: Option<Pattern>,
    /// Patterns of window titles.
    #[serde(default)]
    pub title: Titles,
    /// Rules for the screen, tried in order; the first match decides.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// Pattern of a row at the end of a finished answer. Detects turns too short to show any work.
    pub turn_end: Option<Pattern>,
    /// The shape of dialogs.
    #[serde(default)]
    pub dialog: Dialog,
    /// The prompt of a line-based program, matched against the cursor's row up to the cursor.
    pub prompt: Option<Pattern>,
    /// The idle program is its terminal's foreground process group (shells).
    #[serde(default)]
    pub foreground: bool,
    /// Timing of state detection.
    #[serde(default)]
    pub timing: Timing,
    /// Installation of hooks in the program.
    pub hooks: Option<Hooks>,
    /// The transcript that the program keeps of a conversation.
    #[serde(default)]
    pub transcript: Option<TranscriptKind>,
    /// Command line arguments that select a conversation.
    pub session: Option<SessionArgs>,
    /// Handling of earlier messages by the program: see [`Profile::context_kind`].
    #[serde(default)]
    pub context: Option<ContextKind>,
    /// Forms for a proxy for Anthropic's API; `None` if unsupported.
    pub proxy: Option<ProxyVars>,
}

/// Environment variables that point a program at a proxy.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyVars {
    /// Variable for the address `http://127.0.0.1:PORT`.
    pub url: String,
    /// Variable for the token, if the proxy requires one.
    pub token: Option<String>,
    /// Variables to remove if a token is set, because the program would use them instead.
    #[serde(default)]
    pub unset: Vec<String>,
}

/// Handling of earlier messages placed in front of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContextKind {
    /// Remembers its own conversation: send only messages that it does not know.
    Own,
    /// Remembers nothing: send all messages each time.
    None,
    /// Executes input as commands: never send messages.
    Commands,
}

impl Profile {
    /// Returns the index of the program in a command that starts it, which may begin with wrappers such as `env`.
    pub fn program_at(&self, argv: &[String]) -> Option<usize> {
        let at = registry::program_at(argv)?;
        self.programs.iter().any(|program| program == registry::file_name(&argv[at])).then_some(at)
    }

    /// Returns the argument or variable with which the program draws a screen that the profile does not describe. `env` returns the
    /// value of a variable.
    pub fn unsupported_option<'a>(
        &'a self,
        argv: &[String],
        env: impl Fn(&str) -> Option<&'a str>,
    ) -> Option<&'a str> {
        let args = argv.iter().skip(self.program_at(argv)? + 1).take_while(|arg| *arg != "--");
        let args: Vec<&str> =
            args.map(|arg| arg.split_once('=').map_or(arg.as_str(), |(name, _)| name)).collect();
        let arg = self.unsupported_args.iter().find(|name| args.contains(&name.as_str()));
        let variable = || self.unsupported_env.iter().find(|name| env(name).is_some_and(is_on));
        arg.or_else(variable).map(String::as_str)
    }

    /// Returns how the program treats earlier messages. Default: programs with a composer remember their own
    /// conversation; any other may be a shell.
    pub fn context_kind(&self) -> ContextKind {
        let unsaid = if self.composer.is_some() { ContextKind::Own } else { ContextKind::Commands };
        self.context.unwrap_or(unsaid)
    }
}

/// Returns true unless the value of a variable turns it off.
fn is_on(value: &str) -> bool {
    !["", "0", "false", "no", "off"].contains(&value.to_lowercase().as_str())
}

/// The input area of a program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Composer {
    /// Layout of its rows.
    pub layout: Layout,
    /// Start of its first row (`bar`: of each row). The draft follows.
    pub prompt: Pattern,
    /// Start of its first row in a mode that treats text differently (a shell mode). The whole row then counts as a
    /// draft, which blocks prompts. For `box` and `row`.
    pub other_mode: Option<Pattern>,
    /// Keys that clear it and leave that mode; `clear` if unset.
    pub leave_mode: Option<String>,
    /// The row directly above it (`box`).
    pub above: Option<Pattern>,
    /// The row directly below it (`box`, `bar`).
    pub below: Option<Pattern>,
    /// Texts shown while it is empty.
    #[serde(default)]
    pub placeholder: Vec<Pattern>,
    /// Placeholder for a long paste.
    pub chip: Option<Pattern>,
    /// Keys that clear it.
    #[serde(default = "ctrl_u")]
    pub clear: String,
    /// Prompts that the program takes for a command without a name, and may drop.
    pub no_command: Option<Pattern>,
    /// The row above prompts that wait until the agent can take them. Its user can fetch them back into the composer.
    pub queue: Option<Pattern>,
    /// Rows of the live area above the composer. The echo of a prompt is drawn there.
    #[serde(default = "two_rows")]
    pub live_above: u16,
}

/// Layouts of composers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Enclosed by a row `above` and a row `below` (Claude Code, pi, Qwen Code, GitHub Copilot CLI, Kimi Code). Bars at both
    /// sides of a row are no part of the draft.
    Box,
    /// Every row starts with the prompt pattern; a row `below` ends it (opencode, Kilo).
    Bar,
    /// The rows around the cursor, starting with the prompt pattern (Codex, Gemini).
    Row,
}

/// Method of sending a prompt.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Submit {
    /// `paste`: paste, wait for the echo in the composer, then send Enter. `line`: text and Enter in one write.
    pub mode: SubmitMode,
    /// The Enter key's bytes.
    pub enter: String,
    /// Time limit of the echo, of the removal of a draft, and of the effect of the last Enter, milliseconds.
    pub echo_ms: u64,
    /// Pause before an Enter without effect is repeated, milliseconds.
    pub enter_ms: u64,
    /// Maximum number of Enter keys sent.
    pub enters: u32,
}

impl Default for Submit {
    fn default() -> Submit {
        Submit { mode: SubmitMode::Line, enter: "\\r".to_string(), echo_ms: 10_000, enter_ms: 800, enters: 4 }
    }
}

/// Modes of sending a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SubmitMode {
    /// Paste, wait for the echo, Enter.
    Paste,
    /// Text and Enter in one write.
    Line,
}

/// Patterns of the window title.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Titles {
    /// Idle. If set, a ready state requires it once any of these titles was seen.
    pub idle: Option<Pattern>,
    /// Working.
    pub busy: Option<Pattern>,
    /// Waiting for an answer to a dialog.
    pub blocked: Option<Pattern>,
}

/// A rule that derives a state from a region of the screen.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The state.
    pub state: RuleState,
    /// The kind of dialog, for `blocked`.
    #[serde(default)]
    pub kind: BlockKind,
    /// The region to search.
    pub region: Region,
    /// The pattern that a row must match. For `suspended` the group `until` captures the time, which may continue in
    /// the next rows up to a blank one.
    pub pattern: Pattern,
    /// Pattern of a row below the match that invalidates it, because the agent has continued. For `footer` and
    /// `status`.
    pub unless_below: Option<Pattern>,
    /// Rows with text above the composer that belong to the region `status`.
    #[serde(default = "five_rows")]
    pub rows: usize,
}

/// States of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum RuleState {
    /// Not accepting prompts yet, although the composer is drawn. No sign that a prompt was received.
    Starting,
    /// Working.
    Busy,
    /// Showing a dialog.
    Blocked,
    /// Waiting for a prompt.
    Ready,
    /// Waiting for the end of a usage limit.
    Suspended,
}

impl RuleState {
    /// Returns the name in a profile.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Regions of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Region {
    /// Rows of the composer.
    Composer,
    /// Rows below the composer.
    Footer,
    /// The block of rows directly above the composer.
    Status,
    /// The last rows of a screen without a composer, from the row `dialog.above` on.
    Dialog,
    /// The cursor's row.
    Cursor,
}

impl Region {
    /// Returns the name in a profile.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The layout of dialogs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dialog {
    /// The row above a dialog; if unset, a dialog is the last `rows` rows.
    pub above: Option<Pattern>,
    /// The first row below the choices that does not belong to the dialog. It may change while the dialog is open.
    pub below: Option<Pattern>,
    /// Time after which a key without effect is sent again, in milliseconds.
    pub retry_ms: u64,
    /// Maximum rows of a dialog at the end of the screen.
    pub rows: usize,
    /// A choice: group `label` or `other_label`, and group `selected`, which is not empty for the selected choice.
    pub choice: Pattern,
    /// A row with all choices in its group `choices`, separated by two or more blanks. The selected one has a different
    /// background than the end of the row.
    pub row: Option<Pattern>,
    /// The row of hints below the row with all choices, in a narrow window. `row` has precedence.
    pub hints: Option<Pattern>,
    /// The row with all choices above `hints`, in its group `choices`.
    pub row_above_hints: Option<Pattern>,
    /// A row of a dialog without choices that follows an answer, such as a request for the reason of a refusal. Enter
    /// closes it.
    pub confirm: Option<Pattern>,
}

impl Default for Dialog {
    fn default() -> Dialog {
        Dialog {
            above: None,
            below: None,
            retry_ms: 600,
            rows: 24,
            choice: Pattern::known(r"^[\s│┃]*(?<selected>[❯›●])?\s*\d+\.\s+(?<label>.*?)[\s│┃]*$"),
            row: None,
            hints: None,
            row_above_hints: None,
            confirm: None,
        }
    }
}

impl Dialog {
    /// Returns [`Dialog::retry_ms`].
    pub fn retry(&self) -> Duration {
        Duration::from_millis(self.retry_ms)
    }
}

/// Timing of state detection, in milliseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timing {
    /// Time that ready must hold at the end of a turn after a strong signal, milliseconds.
    pub settle_ms: u64,
    /// Time that ready must hold after the start, milliseconds.
    pub start_ms: u64,
    /// [`Timing::start_ms`] while bracketed paste is off, for programs that enable it when they begin to read input.
    pub paste_mode_ms: Option<u64>,
    /// Silence that ends a turn without a stronger signal.
    pub quiet_ms: u64,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing { settle_ms: 40, start_ms: 100, paste_mode_ms: None, quiet_ms: 400 }
    }
}

impl Timing {
    /// Returns [`Timing::settle_ms`].
    pub fn settle(&self) -> Duration {
        Duration::from_millis(self.settle_ms)
    }
    /// Returns [`Timing::start_ms`].
    pub fn start(&self) -> Duration {
        Duration::from_millis(self.start_ms)
    }
    /// Returns [`Timing::paste_mode_ms`], or [`Timing::start_ms`] if unset.
    pub fn paste_mode(&self) -> Duration {
        Duration::from_millis(self.paste_mode_ms.unwrap_or(self.start_ms))
    }
    /// Returns [`Timing::quiet_ms`].
    pub fn quiet(&self) -> Duration {
        Duration::from_millis(self.quiet_ms)
    }
}

/// Hooks supported by an agent program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hooks {
    /// Kind of hook configuration.
    pub kind: HookKind,
    /// File names of the programs that support them. The arguments are inserted directly after the program.
    pub programs: Vec<String>,
}

/// Ways to configure hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HookKind {
    /// `--settings FILE` with a `hooks` object (Claude Code).
    Claude,
}

/// Transcript formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TranscriptKind {
    /// `~/.claude/projects/<cwd>/<session>.jsonl`.
    Claude,
    /// `~/.codex/sessions/<date>/rollout-<time>-<id>.jsonl`, which the running program has open.
    Codex,
    /// `~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl`.
    Gemini,
    /// `~/.local/share/opencode/opencode.db`, which the running program has open.
    Opencode,
    /// `~/.local/share/kilo/kilo.db`, in the format of opencode, which the running program has open.
    Kilo,
    /// `~/.pi/agent/sessions/--<folder>--/<time>_<id>.jsonl`.
    Pi,
    /// `~/.qwen/projects/<folder>/chats/<id>.jsonl`.
    Qwen,
    /// `~/.copilot/session-state/<id>/events.jsonl`.
    Copilot,
    /// `~/.kimi-code/sessions/<workspace>/<id>/agents/main/wire.jsonl`.
    Kimi,
}

impl TranscriptKind {
    /// Returns the name of the program if its conversations are in a database. Its data folder and the database have the
    /// same name.
    pub fn database_name(self) -> Option<&'static str> {
        match self {
            TranscriptKind::Opencode => Some("opencode"),
            TranscriptKind::Kilo => Some("kilo"),
            _ => None,
        }
    }
}

fn ctrl_c() -> String {
    "\\x03".to_string()
}

fn two_rows() -> u16 {
    2
}

fn five_rows() -> usize {
    5
}

fn ctrl_u() -> String {
    "\\x15".to_string()
}

fn parser_name<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<ParserKind, D::Error> {
    let name = String::deserialize(deserializer)?;
    ParserKind::from_str(&name).map_err(serde::de::Error::custom)
}
