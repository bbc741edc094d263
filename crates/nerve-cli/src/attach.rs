//! `nerve attach`: connects this terminal to a running program.

use clap::{Args, ValueEnum};
use nerve_tui::mirror::SizeRule;

use super::recording::GutterArg;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Shows the program's terminal, scrollback included, and forwards input. Several terminals can attach to one program. Attaching
works without the server, so you can detach and attach again while the server is down.

KEYS
  ctrl+] d           detach; the program keeps running
  ctrl+] ?           list all keys
  shift+pageup       scroll back, with the keys of less; q returns
  ctrl+shift+up      branch from the latest snapshot with a new instruction
  ctrl+shift+t       list the tools the agent runs; also ctrl+] t
  ctrl+] s           take a snapshot, like 'nerve snapshot'

EXAMPLES
  nerve attach me                         a node of the server
  nerve attach night/reviewer             a node of another session
  nerve attach work/night/reviewer        a node of another machine
  nerve attach 0195e3a1-77aa              a 'nerve record' session, by its id
  nerve attach me --read-only --size keep")]
pub struct AttachArgs {
    /// Node, SESSION/NODE, MACHINE/SESSION/NODE, or beginning of the id of a session or host
    #[arg(value_name = "NODE|ID")]
    pub target: String,
    /// Server of the node
    #[arg(short, long, default_value = "default", env = "NERVE_SERVER", value_name = "NAME")]
    pub server: String,
    /// Session of the node [default: the server's default session]
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    /// Side of the snapshot markers [default: from the settings]
    #[arg(long, value_enum, value_name = "SIDE")]
    pub gutter: Option<GutterArg>,
    /// Size policy of the program's terminal
    #[arg(long, value_enum, default_value_t, value_name = "WHICH")]
    pub size: SizeArg,
    /// Read-only: send no input to the program
    #[arg(short, long)]
    pub read_only: bool,
    /// Keep the viewer open after the program has ended; q quits
    #[arg(long)]
    pub stay: bool,
    /// Disable colours, like NO_COLOR
    #[arg(long, alias = "no-colours")]
    pub no_colors: bool,
}

impl AttachArgs {
    /// Returns the options of the command line, without the server.
    pub fn options(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |name: &str, value: &str| words.push(format!("{name}={value}"));
        if let Some(session) = &self.session {
            add("--session", session);
        }
        if let Some(gutter) = self.gutter.and_then(|gutter| gutter.to_possible_value()) {
            add("--gutter", gutter.get_name());
        }
        if let Some(size) = self.size.to_possible_value() {
            add("--size", size.get_name());
        }
        let flags = [("--read-only", self.read_only), ("--stay", self.stay), ("--no-colors", self.no_colors)];
        words.extend(flags.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| (*name).to_string()));
        words
    }
}

/// Rule for the size of the program's terminal
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum SizeArg {
    /// The smallest of all viewers' windows
    #[default]
    Smallest,
    /// This window's size
    Mine,
    /// Keep the current size
    Keep,
}

impl From<SizeArg> for SizeRule {
    fn from(size: SizeArg) -> SizeRule {
        match size {
            SizeArg::Smallest => SizeRule::Smallest,
            SizeArg::Mine => SizeRule::Mine,
            SizeArg::Keep => SizeRule::Keep,
        }
    }
}
