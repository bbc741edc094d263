//! Terminal multiplexers.

use strum::{EnumMessage, EnumString, IntoStaticStr, VariantNames};

/// Terminal multiplexers whose panes show nodes or run their programs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumMessage, EnumString, IntoStaticStr, VariantNames,
)]
#[strum(serialize_all = "lowercase")]
pub enum Multiplexer {
    /// tmux.
    #[default]
    Tmux,
    /// WezTerm.
    Wezterm,
}

text_value!(closed Multiplexer: "multiplexer");
