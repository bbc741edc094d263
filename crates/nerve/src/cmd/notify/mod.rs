//! `nerve notify`: notifies about nodes and graphs that need a person.

mod channels;
mod claims;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use nerve_api::reply::NodeInfo;
use nerve_api::request::{ExplainNode, ListResults, ListRuns, Subscribe};
use nerve_api::value::Occasion;
use nerve_api::{EventKind, EventType};
use nerve_client::{NerveClient, Reconnect};
use nerve_notifications::{NotificationState, NotificationTracker};
use nerve_server::paths::ServerPaths;
use nerve_tui::settings::NotifySettings;
use nerve_types::activity::TsMs;
use serde_json::json;
use tokio::sync::Semaphore;

use self::channels::{Channel, Message};
use self::claims::Claims;
use super::events::end_of_events;
use super::server::connect;
use crate::exit::{FAILED, Failure, USAGE};
use crate::{out, settings};
use nerve_cli::notify::NotifyArgs;
use nerve_commands::clock::local_time;

/// Maximum number of notifications being sent on one channel. Further ones are only printed.
const MAX_PENDING: u32 = 32;

/// Time after which a server that has ended without stopping its nodes counts as gone. Long enough for an upgrade.
const RESTART_PATIENCE: Duration = Duration::from_secs(300);

/// Runs the command until the server ends. A restart of the server does not end it.
pub(crate) async fn run(args: NotifyArgs) -> Result<()> {
    let settings = apply_options(settings::load()?.notify, &args);
    let channels = Channel::configured(&settings);
    // A program that reads the output can notify by itself.
    if channels.is_empty() && (!args.json || args.test) {
        return Err(Failure::new(
            USAGE,
            "no way to notify: this is no terminal, and no channel is configured",
        )
        .hint("add --desktop, --command, --webhook or --ntfy, or [notify] to the settings")
        .into());
    }
    if args.test {
        send_test(&channels).await?;
        return if args.json { out::json(&json!({ "sent": true })) } else { out::line("sent") };
    }
    let client = connect(&args.server).await?.reconnect(Reconnect::Within(RESTART_PATIENCE));
    let types = NotificationTracker::EVENT_TYPES.iter();
    let types = types.chain(&[EventType::ServerShutdown, EventType::EventsDropped]);
    let types = Some(types.map(|kind| kind.as_str().to_string()).collect());
    let mut events = client.subscribe(&Subscribe { types, ..Subscribe::default() }).await?;
    out::note(format_args!("notifying about server '{}' until Ctrl+C", args.server));
    let mut tracker = NotificationTracker::new(settings.min_turn);
    print_open_dialogs(&client, &mut tracker).await?;
    let claims = Claims::new(&ServerPaths::from_env());
    let senders: Vec<Sender> = channels.into_iter().map(|channel| Sender::new(channel, &claims)).collect();
    while let Some(event) = events.next().await {
        let details = event.details();
        let notified = match details {
            // A new server reports open dialogs again by itself. Its events are dropped without a count.
            Some(EventKind::EventsDropped { dropped: Some(_) }) => {
                tracker.catch_up(&read_state(&client).await?, Instant::now())
            }
            _ => tracker.observe(&event, Instant::now()).map(|it| (event, it)).into_iter().collect(),
        };
        for (event, notification) in notified {
            if settings.on.contains(&notification.occasion) {
                let message = Arc::new(Message::new(notification, event));
                print_message(&message, args.json)?;
                senders.iter().for_each(|sender| sender.send(&message));
            }
        }
        match details {
            Some(EventKind::ServerShutdown { keep_nodes: false }) => break,
            Some(EventKind::ServerShutdown { keep_nodes: true }) => {
                let limit = RESTART_PATIENCE.as_secs();
                out::note(format_args!(
                    "the server has stopped and its nodes run on: waiting {limit} s for its restart"
                ));
            }
            _ => {}
        }
    }
    for sender in &senders {
        sender.flush().await;
    }
    end_of_events(&args.server).await
}

fn print_message(message: &Message, json: bool) -> Result<()> {
    if json {
        return out::json_line(&message.as_json());
    }
    let time = local_time(message.event.emitted_at.seconds());
    out::line(out::sanitize(&format!("{time}  {}", message.text)))
}

/// Prints the nodes that already wait for an answer. They cause no notification, because their dialogs appeared earlier.
async fn print_open_dialogs(client: &NerveClient, tracker: &mut NotificationTracker) -> Result<()> {
    let state = read_nodes(client).await?;
    for NodeInfo { node_id, metadata, .. } in &state.nodes {
        let key = (metadata.session_id.clone(), node_id.clone());
        let Some(choices) = state.choices.get(&key) else { continue };
        let kind = metadata.text("blocked");
        out::note(out::sanitize(&format!("{node_id} is blocked ({kind}) since before")));
        tracker.add_open_dialog(Some(key.0), key.1, kind, choices.clone());
    }
    Ok(())
}

/// Returns what the tracker needs after events were dropped.
async fn read_state(client: &NerveClient) -> Result<NotificationState> {
    let mut state = read_nodes(client).await?;
    state.runs = client.request(&ListRuns::default()).await?.runs;
    state.results = client.request(&ListResults::default()).await?.results;
    Ok(state)
}

/// Returns all nodes, and the choices of those that wait for an answer.
async fn read_nodes(client: &NerveClient) -> Result<NotificationState> {
    let nodes = client.list_all_nodes().await?;
    let mut state = NotificationState { nodes, ..NotificationState::default() };
    for session in client.sessions().await? {
        state.nodes.extend(client.list_stopped_nodes(Some(&session.name)).await.unwrap_or_default());
    }
    for (session, node) in state.blocked_nodes() {
        let request = ExplainNode { node_id: node.clone(), session_id: Some(session.clone()) };
        // The dialog may have closed meanwhile.
        if let Ok(explanation) = client.request(&request).await {
            state.choices.insert((session, node), explanation.choices);
        }
    }
    Ok(state)
}

/// Sends notifications on a channel in the background: a slow channel delays no other.
struct Sender {
    channel: Channel,
    claims: Claims,
    permits: Arc<Semaphore>,
}

impl Sender {
    fn new(channel: Channel, claims: &Claims) -> Sender {
        let permits = Arc::new(Semaphore::new(MAX_PENDING as usize));
        Sender { channel, claims: claims.clone(), permits }
    }

    /// Sends a message, unless another process has claimed it. Each terminal shows all messages.
    fn send(&self, message: &Arc<Message>) {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            return out::warning("not sent: too many notifications are pending");
        };
        if !matches!(self.channel, Channel::Terminal(_)) && !self.claims.claim(&self.channel, message) {
            return;
        }
        let (channel, message) = (self.channel.clone(), Arc::clone(message));
        tokio::spawn(async move {
            if let Err(problem) = channel.send(&message).await {
                out::warning(format_args!("not notified: {problem:#}"));
            }
            drop(permit);
        });
    }

    /// Waits until all notifications were sent. Each has a time limit.
    async fn flush(&self) {
        let _ = self.permits.acquire_many(MAX_PENDING).await;
    }
}

/// Sends one notification on all channels and waits for the outcome.
async fn send_test(channels: &[Channel]) -> Result<()> {
    let event = json!({ "type": "event", "event_type": "TEST", "data": {}, "emitted_at": TsMs(0), "seq": 0 });
    let text = "notifications of nerve arrive".to_string();
    let message = Message { occasion: Occasion::Done, text, event: serde_json::from_value(event)? };
    let mut problems = Vec::new();
    for channel in channels {
        if let Err(problem) = channel.send(&message).await {
            problems.push(format!("{problem:#}"));
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(FAILED, format!("not notified: {}", problems.join("; "))).into()),
    }
}

/// Returns the settings with the options of the command line.
fn apply_options(settings: NotifySettings, args: &NotifyArgs) -> NotifySettings {
    NotifySettings {
        on: args.on.clone().unwrap_or(settings.on),
        min_turn: args.min_turn.unwrap_or(settings.min_turn),
        terminal: settings.terminal,
        terminal_format: settings.terminal_format,
        desktop: settings.desktop || args.desktop,
        command: args.command.clone().or(settings.command),
        webhook: args.webhook.clone().or(settings.webhook),
        ntfy: args.ntfy.clone().or(settings.ntfy),
    }
}
