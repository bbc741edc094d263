//! `nerve attach`: this window in front of a program that runs.

use clap::Args;

use super::recording::GutterArg;
use crate::cmd::attach::size_rule::SizeRule;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Shows the program's terminal as it is, from its first line on, and passes on what is typed. Several windows can be attached to
one program. What it shows is not the server's: it can be left and come back to while the server is away.

KEYS
  ctrl+] d           leave; the program goes on
  ctrl+] ?           all keys
  shift+pageup       what was written before, with the keys of less; q goes back
  ctrl+shift+up      tell the agent something at the latest snapshot
  ctrl+shift+t       what the agent runs: ctrl+] t
  ctrl+] s           take a snapshot, as 'nerve snapshot' does

EXAMPLES
  nerve attach me                         a node of the server
  nerve attach reviewer --session night   one of another session
  nerve attach 0195e3a1-77aa    what 'nerve record' runs, by its session's id
  nerve attach me --read-only --size keep")]
pub(crate) struct AttachArgs {
    /// A node of the server, or the beginning of the id of a recorded session or of a host
    #[arg(value_name = "NODE|SESSION")]
    pub(crate) target: String,
    /// The server whose node it is
    #[arg(short, long, default_value = "default", env = "NERVE_SERVER", value_name = "NAME")]
    pub(crate) server: String,
    /// The server's session the node is in; its default session if not given
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Where snapshots are marked, whatever the settings say
    #[arg(long, value_enum, value_name = "SIDE")]
    pub(crate) gutter: Option<GutterArg>,
    /// Which size the program's terminal has
    #[arg(long, value_enum, default_value_t, value_name = "WHICH")]
    pub(crate) size: SizeRule,
    /// Look only: nothing that is typed reaches the program
    #[arg(short, long)]
    pub(crate) read_only: bool,
    /// When the program has ended, stay to scroll in what it wrote: q leaves
    #[arg(long)]
    pub(crate) stay: bool,
    /// No colours; also by NO_COLOR
    #[arg(long, alias = "no-colours")]
    pub(crate) no_colors: bool,
}
