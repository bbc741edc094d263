//! `nerve events`: prints the events of a server, or runs a command for each.

use anyhow::Result;
use nerve_api::request::Subscribe;
use nerve_api::{EventKind, EventMessage, EventType};
use nerve_client::Reconnect;
use nerve_commands::event_line;

use super::event_hook;
use super::machine::resolve_node;
use super::server::connect;
use crate::exit::{FAILED, Failure};
use crate::out;
use nerve_cli::events::EventsArgs;
use nerve_commands::activity_text;
use nerve_commands::clock::local_time;

/// Maximum length of the description of an event, in characters.
const MAX_DETAILS: usize = 160;

/// Runs the command until the server ends. A restart of the server does not end it.
pub(crate) async fn run(mut args: EventsArgs) -> Result<()> {
    if let Some(node) = &mut args.node {
        resolve_node(node, &mut args.session, &mut args.server.server)?;
    }
    let client = connect(&args.server.server).await?.reconnect(Reconnect::default());
    let is_requested = |kind| args.types.is_empty() || args.types.contains(&kind);
    let types = args.types.iter().chain([&EventType::ServerShutdown]).map(ToString::to_string).collect();
    let filter = Subscribe {
        types: Some(types).filter(|_| !args.types.is_empty()),
        node_id: args.node,
        session_id: args.session,
        ..Subscribe::default()
    };
    let mut events = client.subscribe(&filter).await?;
    while let Some(event) = events.next().await {
        let details = event.details();
        match &args.exec {
            _ if event.kind() == Some(EventType::ServerShutdown)
                && !is_requested(EventType::ServerShutdown) => {}
            // These events are about the stream, not for the command.
            Some(_) if is_about_events(event.kind()) => {
                out::warning(describe(&event));
            }
            Some(command) => {
                if let Err(problem) = event_hook::run(command, &event, &describe(&event), &[]).await {
                    out::warning(format_args!("{}: {problem:#}", event.event_type));
                }
            }
            None if args.server.json => out::json_line(&event)?,
            None => out::line(format_line(&event))?,
        }
        if details == Some(EventKind::ServerShutdown { keep_nodes: false }) {
            return Ok(());
        }
    }
    end_of_events(&args.server.server).await
}

/// Returns true for events about the stream itself, which pass every filter.
fn is_about_events(kind: Option<EventType>) -> bool {
    matches!(kind, Some(EventType::EventsDropped | EventType::ServerShutdown))
}

/// Prints why a stream of events has ended. The server's announcement may be missing, because the filter excluded it.
///
/// # Errors
/// The server still runs.
pub(crate) async fn end_of_events(server: &str) -> Result<()> {
    let is_running = match connect(server).await {
        Ok(client) => client.ping().await.is_ok(),
        Err(_) => false,
    };
    if is_running {
        return Err(Failure::new(FAILED, "the connection to the server was lost").into());
    }
    out::note(format_args!("server '{server}' has ended"));
    Ok(())
}

/// Formats an event: its time, type, node and a sentence.
fn format_line(event: &EventMessage) -> String {
    let node = match (&event.session_id, &event.node_id) {
        (Some(session), Some(node)) => format!("{session}/{node}"),
        (_, node) => node.clone().unwrap_or_default(),
    };
    let time = local_time(event.emitted_at.seconds());
    out::sanitize(&format!("{time}  {:16}  {node:16}  {}", event.event_type, describe(event)))
}

/// Returns a sentence about the event, or its details as JSON.
fn describe(event: &EventMessage) -> String {
    let activity = match event.details() {
        Some(EventKind::NodeActivity(activity)) => activity_text::format(&activity),
        _ => None,
    };
    let text = activity.or_else(|| event_line::format_event(event));
    out::preview(&text.unwrap_or_else(|| event.data.to_string()), MAX_DETAILS)
}
