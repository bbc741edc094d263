//! A parsed answer: its sections, token counts, and the parser that produced it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

/// A section of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ResponseSection"))]
pub struct Section {
    /// Kind of section.
    #[serde(rename = "type")]
    pub kind: SectionKind,
    /// Text of the section, without common indentation.
    #[serde(default)]
    pub content: String,
    /// Details of the section: `tool`, `args`, `id` (transcript only), `duration`, `label`, `status` (`ok`, `error`, `rejected`, `running`,
    /// `waiting`, `asking`, `pending`), `folded` (`true`: only a summary was shown).
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

impl Section {
    /// Creates a section without metadata.
    pub fn new(kind: SectionKind, content: impl Into<String>) -> Section {
        Section { kind, content: content.into(), metadata: BTreeMap::new() }
    }

    /// Adds a property.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Section {
        self.metadata.insert(key.to_string(), value.into());
        self
    }
}

/// Kinds of sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum SectionKind {
    /// Text of the answer.
    Text,
    /// Visible thinking.
    Thinking,
    /// A tool call: `content` is the result as shown, metadata `tool` and `args`.
    ToolCall,
    /// An error the agent reported (an API error, a refused tool).
    Error,
    /// The turn was interrupted here.
    Interrupted,
    /// A kind that this version does not know.
    #[default]
    Unknown,
}

text_value!(open SectionKind);

/// Token counts, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "TokenCounts"))]
pub struct Tokens {
    /// Tokens of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Tokens of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Sum of all tokens, if the agent shows only a sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// The available parsers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownParser, parse_err_fn = unknown)]
pub enum ParserKind {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode and Kilo.
    Opencode,
    /// pi.
    Pi,
    /// Qwen Code.
    Qwen,
    /// GitHub Copilot CLI.
    Copilot,
    /// Kimi Code.
    Kimi,
    /// No known structure: the whole text is one section.
    #[default]
    None,
}

text_value!(closed ParserKind: "parser");

fn unknown(name: &str) -> UnknownParser {
    UnknownParser(name.to_string())
}

/// An unknown parser name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown parser '{0}': use claude, codex, gemini, opencode, pi, qwen, copilot, kimi or none")]
pub struct UnknownParser(pub String);
