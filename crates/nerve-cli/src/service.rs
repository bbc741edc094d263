//! `nerve service`: a systemd user service that runs a server.

use clap::{Args, Subcommand};

use super::server::NameArgs;

#[derive(Debug, Args)]
pub struct ServiceArgs {
    #[command(subcommand)]
    pub command: ServiceCommand,
}

#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// Install and start a systemd user service that runs the server
    Install(InstallArgs),
    /// Stop and remove the service
    #[command(
        alias = "remove",
        after_long_help = "\
The server stops its nodes. 'nerve server start --restore' starts them again.

EXAMPLES
  nerve service uninstall"
    )]
    Uninstall(ServiceNameArgs),
    /// Show whether the service is installed, enabled and active
    #[command(after_long_help = "\
Exits with 3 if the service is not installed.

EXAMPLES
  nerve service status")]
    Status(ServiceNameArgs),
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
The service starts the server at login, with the nodes that ran when the server or the machine went down. The server has the
variables PATH, NERVE_HOME, AH_HOME, XDG_STATE_HOME and XDG_CONFIG_HOME of this command. 'loginctl enable-linger' starts the service at boot and keeps it after logout.

EXAMPLES
  nerve service install
  nerve service install --print")]
pub struct InstallArgs {
    #[command(flatten)]
    pub name: NameArgs,
    /// Print the unit and install nothing
    #[arg(long)]
    pub print: bool,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ServiceNameArgs {
    #[command(flatten)]
    pub name: NameArgs,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}
