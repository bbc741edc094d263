//! `nerve notify`: notifies about nodes and graphs that need a person.

mod channels;
mod occurrences;

use std::sync::Arc;

use anyhow::Result;
use nerve_api::request::Subscribe;
use nerve_api::{EventKind, EventMessage};
use nerve_tui::settings::{NotifySettings, Occasion};
use serde_json::json;
use tokio::sync::Semaphore;

use self::channels::Channel;
use self::occurrences::{Occurrence, Occurrences};
use super::local_time::local_time;
use super::server::connect;
use crate::cli::notify::NotifyArgs;
use crate::exit::{FAILED, Failure, USAGE};
use crate::{out, settings};

/// Notifications on their way at the same time. Further ones are printed only.
const MAX_PENDING: usize = 32;

/// Runs the command until the server ends.
pub(crate) async fn run(args: NotifyArgs) -> Result<()> {
    let settings = overridden(settings::load()?.notify, &args);
    let channels = Channel::configured(&settings);
    if channels.is_empty() {
        return Err(Failure::new(
            USAGE,
            "no way to notify: this is no terminal, and no channel is configured",
        )
        .hint("add --desktop, --command, --webhook or --ntfy, or [notify] to the settings")
        .into());
    }
    if args.test {
        return test(&channels).await;
    }
    let client = connect(&args.server).await?;
    let mut events = client.subscribe(&Subscribe::default()).await?;
    out::note(format_args!("notifying about server '{}' until Ctrl+C", args.server));
    let mut occurrences = Occurrences::new(settings.min_turn);
    let pending = Arc::new(Semaphore::new(MAX_PENDING));
    while let Some(event) = events.next().await {
        let is_shutdown = event.details() == Some(EventKind::ServerShutdown {});
        if let Some(occurrence) = occurrences.observe(&event)
            && settings.on.contains(&occurrence.occasion)
        {
            out::line(out::sanitize(&format!("{}  {}", local_time(event.timestamp), occurrence.text)))?;
            notify(&channels, &Arc::new(event), &occurrence, &pending);
        }
        if is_shutdown {
            return Ok(());
        }
    }
    Err(Failure::new(FAILED, "the connection to the server was lost").into())
}

/// Sends a notification on all channels in the background: a slow one delays no other.
fn notify(
    channels: &[Channel],
    event: &Arc<EventMessage>,
    occurrence: &Occurrence,
    pending: &Arc<Semaphore>,
) {
    for channel in channels {
        let Ok(permit) = Arc::clone(pending).try_acquire_owned() else {
            out::warning("not sent: too many notifications are pending");
            return;
        };
        let (channel, event, occurrence) = (channel.clone(), Arc::clone(event), occurrence.clone());
        tokio::spawn(async move {
            if let Err(problem) = channel.send(event, &occurrence).await {
                out::warning(format_args!("not notified: {problem:#}"));
            }
            drop(permit);
        });
    }
}

/// Sends one notification on all channels and waits for the outcome.
async fn test(channels: &[Channel]) -> Result<()> {
    let occurrence =
        Occurrence { occasion: Occasion::Done, text: "notifications of nerve arrive".to_string() };
    let event = json!({ "type": "event", "event_type": "TEST", "data": {}, "timestamp": 0.0, "seq": 0 });
    let event: Arc<EventMessage> = Arc::new(serde_json::from_value(event)?);
    let mut problems = Vec::new();
    for channel in channels {
        if let Err(problem) = channel.send(Arc::clone(&event), &occurrence).await {
            problems.push(format!("{problem:#}"));
        }
    }
    match problems.is_empty() {
        true => out::line("sent"),
        false => Err(Failure::new(FAILED, format!("not notified: {}", problems.join("; "))).into()),
    }
}

/// Returns the settings with the options of the command line.
fn overridden(settings: NotifySettings, args: &NotifyArgs) -> NotifySettings {
    NotifySettings {
        on: args.on.clone().unwrap_or(settings.on),
        min_turn: args.min_turn.unwrap_or(settings.min_turn),
        terminal: settings.terminal,
        desktop: settings.desktop || args.desktop,
        command: args.command.clone().or(settings.command),
        webhook: args.webhook.clone().or(settings.webhook),
        ntfy: args.ntfy.clone().or(settings.ntfy),
    }
}
