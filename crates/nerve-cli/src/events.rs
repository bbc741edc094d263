//! `nerve events`: the events of a server.

use clap::Args;

use super::node::ServerOption;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Prints events until Ctrl+C or the end of the server. A restart of the server does not end it; events during the restart may be lost.

With --exec, a shell runs COMMAND for each event, one after another. It finds the event as JSON on its standard input, and in these
variables: NERVE_EVENT_TYPE, NERVE_EVENT_NODE, NERVE_EVENT_SESSION, NERVE_EVENT_TEXT. A command that takes longer than 30 s is killed. It does not run for lost
events and the end of the server, which are warnings.

EXAMPLES
  nerve events                                       all events
  nerve events --node me --type node_blocked         one node, one type
  nerve events --json | jq .event_type
  nerve events --type node_blocked --exec 'say \"$NERVE_EVENT_TEXT\"'")]
pub struct EventsArgs {
    #[command(flatten)]
    pub server: ServerOption,
    /// Only events of these types, such as node_ready or graph_completed
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = event_type)]
    pub types: Vec<nerve_api::EventType>,
    /// Only events of this node
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    /// Only events of this session
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    /// Run a shell command for each event, instead of printing it
    #[arg(long, value_name = "COMMAND", conflicts_with = "json")]
    pub exec: Option<String>,
}

/// Parses the type of an event in any case, with `-` or `_`.
fn event_type(text: &str) -> Result<nerve_api::EventType, String> {
    let name = text.to_uppercase().replace('-', "_");
    nerve_api::EventType::parse(&name).ok_or_else(|| {
        let names = nerve_api::EventType::ALL.iter().map(|kind| kind.as_str().to_lowercase());
        format!("unknown type; there are {}", names.collect::<Vec<_>>().join(", "))
    })
}
