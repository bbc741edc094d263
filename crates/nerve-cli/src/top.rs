//! `nerve top`: the overview of all nodes.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Shows the nodes of all sessions of this user's servers, and changes with them. With --all-machines also the nodes of all machines in
'nerve machine list'; one that does not respond is a row with its last contact.

KEYS
  enter     attach to the node; ctrl+] d comes back; start a stopped node
  a         answer the dialog of a blocked node
  p         send a prompt
  n         create a node
  s         stop the node
  x         remove a stopped node
  w         explain the state: the evidence and the screen
  r         open the recording
  /         filter
  q         quit

EXAMPLES
  nerve top                     all servers
  nerve top -s night            one server
  nerve top --all-machines      all servers, and all other machines
  nerve top -s machine://work   one machine")]
pub struct TopArgs {
    /// Server to show [default: all]
    #[arg(short, long, value_name = "NAME")]
    pub server: Option<String>,
    /// Show the nodes of this machine and of all others in the list
    #[arg(long)]
    pub all_machines: bool,
    /// Disable colours, like NO_COLOR
    #[arg(long, alias = "no-colours")]
    pub no_colors: bool,
}
