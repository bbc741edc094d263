//! `nerve prune`.

use clap::Args;

use crate::node::NodeTarget;
use crate::recording::{Age, removal_age};

/// Arguments of `nerve prune`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Nodes that ran when the server or the machine went down stay, because 'nerve server start --restore' starts them; --all removes them,
too.

With --older-than, only nodes that stopped earlier are removed. Recordings, folders of branches, audit logs, finished runs and logs that
were last written earlier are removed as well, for all servers. What running nodes and servers use stays, and so do unsaved changes, runs
that can be resumed, and the agents' own files.

With --everything, conversations (--workspace) that were last used earlier are removed, too, and so are the snapshots of removed
recordings in git repositories, also if an earlier command removed the recordings. Snapshots that a branch was made from stay.

The oldest files of snapshots are removed if all together exceed max-size of [snapshots] in config.toml (10G). Those of running sessions
and of branches stay. A running server does the same by itself.

Worktrees of fan-outs that ended earlier are removed if the server runs and has no node in them, and if they have no uncommitted work and no
commits that are not merged. 'nerve fan-out clean' removes the others.

EXAMPLES
  nerve prune
  nerve prune --all --dry-run
  nerve prune --older-than 30d --dry-run
  nerve prune --older-than 90d --everything --dry-run
  nerve prune --session review")]
pub struct PruneArgs {
    #[command(flatten)]
    pub target: NodeTarget,
    /// Also remove nodes that ran when the server or the machine went down
    #[arg(long)]
    pub all: bool,
    /// Remove nodes that stopped, and stored data that was last written, longer ago: 12h, 30d, 2w …
    #[arg(long, value_name = "AGE", value_parser = removal_age)]
    pub older_than: Option<Age>,
    /// With --older-than: also remove conversations, and snapshots of removed recordings in git repositories
    #[arg(long, requires = "older_than")]
    pub everything: bool,
    /// Print what would be removed
    #[arg(long, short_alias = 'n')]
    pub dry_run: bool,
}
