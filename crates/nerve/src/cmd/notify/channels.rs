//! Notification channels.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nerve_api::EventMessage;
use nerve_api::value::Occasion;
use nerve_commands::event_line;
use nerve_llm::http_client;
use nerve_notifications::Notification;
use nerve_tui::settings::NotifySettings;
use nerve_tui::terminal::{self, NotificationFormat};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::cmd::event_hook;

/// Time limit of sending on one channel.
const LIMIT: Duration = Duration::from_secs(30);
/// Maximum number of bytes read of a response, whose content is ignored.
const MAX_RESPONSE: usize = 64 << 10;

/// The content of a notification.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) occasion: Occasion,
    /// The text, one sentence.
    pub(super) text: String,
    pub(super) event: EventMessage,
}

impl Message {
    pub(super) fn new(notification: Notification, event: EventMessage) -> Message {
        let text = match (notification.turn_seconds, &event.node_id) {
            (Some(seconds), Some(node)) => event_line::format_turn_end(node, seconds),
            _ => event_line::format_event(&event).unwrap_or_default(),
        };
        Message { occasion: notification.occasion, text, event }
    }

    /// Returns the notification as JSON.
    pub(super) fn as_json(&self) -> Value {
        json!({ "occasion": <&str>::from(self.occasion), "text": self.text, "event": self.event })
    }
}

/// A notification channel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Channel {
    /// The terminal of this process. A format replaces the one that nerve chooses for the terminal.
    Terminal(Option<NotificationFormat>),
    /// `notify-send`.
    Desktop,
    /// A shell command.
    Command(String),
    /// A URL that receives JSON.
    Webhook(String),
    /// A topic of ntfy: the text is the body.
    Ntfy(String),
}

impl Channel {
    /// Returns the configured channels.
    pub(super) fn configured(settings: &NotifySettings) -> Vec<Channel> {
        let NotifySettings { terminal, terminal_format, desktop, command, webhook, ntfy, .. } =
            settings.clone();
        let has_terminal = terminal && std::io::stdout().is_terminal();
        [
            has_terminal.then_some(Channel::Terminal(terminal_format)),
            desktop.then_some(Channel::Desktop),
            command.map(Channel::Command),
            webhook.map(Channel::Webhook),
            ntfy.map(Channel::Ntfy),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Sends a notification. Errors name the channel, but no URL: it may contain a secret.
    pub(super) async fn send(&self, message: &Message) -> Result<()> {
        let (text, occasion) = (message.text.as_str(), <&str>::from(message.occasion));
        match self {
            Channel::Terminal(format) => {
                let mut stdout = std::io::stdout();
                stdout.write_all(&terminal::notification(text, *format))?;
                Ok(stdout.flush()?)
            }
            Channel::Desktop => {
                let mut command = tokio::process::Command::new("notify-send");
                command.args(["--app-name=nerve", "--", "nerve", text]).kill_on_drop(true);
                let status = timeout(LIMIT, command.status()).await.context("notify-send did not end")?;
                let status = status.context("cannot run notify-send")?;
                if status.success() { Ok(()) } else { bail!("notify-send failed: {status}") }
            }
            Channel::Command(command) => {
                let variables = [("NERVE_NOTIFY_OCCASION", occasion), ("NERVE_NOTIFY_TEXT", text)];
                event_hook::run(command, &message.event, text, &variables).await
            }
            Channel::Webhook(url) => {
                let body = message.as_json().to_string();
                post(url, "application/json", body).await.context("webhook")
            }
            Channel::Ntfy(url) => {
                post(url, "text/plain; charset=utf-8", text.to_string()).await.context("ntfy")
            }
        }
    }
}

async fn post(url: &str, content_type: &str, body: String) -> Result<()> {
    let request = http::Request::post(url)
        .header("content-type", content_type)
        .header("user-agent", concat!("nerve/", env!("CARGO_PKG_VERSION")))
        .body(body.into())
        .context("the URL is invalid")?;
    let response = timeout(LIMIT, http_client::send(request, MAX_RESPONSE)).await;
    let response = response.context("no response in time")?.map_err(anyhow::Error::msg)?;
    if response.status().is_success() { Ok(()) } else { bail!("the server answered {}", response.status()) }
}
