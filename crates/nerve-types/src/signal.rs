//! Signals of an agent: evidence for its state, delivery of a prompt, dialogs.

use strum::{EnumString, IntoStaticStr, VariantNames};

/// Kinds of signals that prove a state, strongest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, EnumString, IntoStaticStr, VariantNames,
)]
#[strum(serialize_all = "lowercase")]
pub enum SignalSource {
    /// The exit of the program.
    Exit,
    /// A hook of the agent.
    Hook,
    /// Shell integration marks (OSC 133).
    Mark,
    /// The window title.
    Title,
    /// The terminal's foreground process group.
    Foreground,
    /// The live region of the screen.
    Screen,
    /// Silence.
    Quiet,
    /// The driver's own input: a prompt was just sent.
    Input,
    /// The budget of the node or its session.
    Budget,
    /// A message of the Agent Client Protocol.
    Acp,
    /// A signal that this version does not know.
    #[default]
    Unknown,
}

text_value!(open SignalSource);

/// Confirmed delivery of a prompt.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, EnumString, IntoStaticStr, VariantNames,
)]
#[strum(serialize_all = "lowercase")]
pub enum Delivery {
    /// Not known.
    #[default]
    Unknown,
    /// Refused, cancelled or too late before anything was written to the terminal.
    Unsent,
    /// Written to the terminal.
    Typed,
    /// Left the composer; without a composer, sent together with Enter.
    Submitted,
    /// The agent was seen working on it.
    Started,
}

text_value!(open Delivery);

/// Kinds of dialogs that block an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum BlockKind {
    /// A question about trusting a folder.
    Trust,
    /// Login.
    Login,
    /// Choice of a theme.
    Theme,
    /// Permission to use a tool.
    Permission,
    /// A usage limit.
    Limit,
    /// A limit of the node's or its session's budget, which nerve enforces.
    Budget,
    /// Something else.
    #[default]
    Other,
}

text_value!(closed BlockKind: "kind of dialog");
