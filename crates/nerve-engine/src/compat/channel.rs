//! Channels as nodes.

use std::sync::Arc;
use std::time::Duration;

use nerve_agent::parse::ParserKind;
use nerve_api::reply::NodeInfo;
use nerve_api::value::NodeState;
use serde_json::Value;

use nerve_graph::warn_deprecated;
use nerve_node::cancellation::cancelled_error;
use nerve_node::context::TurnContext;
use nerve_node::terminal::{Prompt, TerminalNode};
use nerve_node::{BoxFuture, Node, NodeFuture};

/// Type of a channel's peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[deprecated(note = "use Node::kind")]
pub enum ChannelType {
    /// A program in a terminal.
    #[default]
    Terminal,
    /// A database.
    Sql,
    /// A server that speaks HTTP.
    Http,
}

/// State of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[deprecated(note = "use command::NodeState")]
pub enum ChannelState {
    /// Starting: [`NodeState::Starting`].
    Connecting,
    /// Idle: [`NodeState::Ready`].
    Open,
    /// Working: [`NodeState::Busy`].
    Busy,
    /// Ended: [`NodeState::Stopped`].
    Closed,
}

/// A connection to a peer that answers. [`ChannelNode`] turns it into a node.
#[deprecated(note = "implement Node")]
pub trait Channel: std::fmt::Debug + Send + Sync + 'static {
    /// Returns the name of the channel.
    fn id(&self) -> &str;

    /// Returns the type of the peer.
    fn channel_type(&self) -> ChannelType {
        ChannelType::default()
    }

    /// Returns the state.
    fn state(&self) -> ChannelState;

    /// Returns true unless the channel has ended.
    fn is_open(&self) -> bool {
        self.state() != ChannelState::Closed
    }

    /// Sends an input, waits for the answer and parses it. `timeout` limits the whole operation.
    ///
    /// # Errors
    /// Depends on the channel.
    fn send<'a>(
        &'a self,
        input: &'a str,
        parser: Option<ParserKind>,
        timeout: Option<Duration>,
    ) -> NodeFuture<'a>;

    /// Sends a command without waiting for its end.
    ///
    /// # Errors
    /// The channel is closed.
    fn run<'a>(&'a self, command: &'a str) -> NodeFuture<'a, ()>;

    /// Sends raw bytes.
    ///
    /// # Errors
    /// The channel is closed.
    fn write<'a>(&'a self, data: &'a [u8]) -> NodeFuture<'a, ()>;

    /// Returns all output.
    ///
    /// # Errors
    /// The channel is closed.
    fn read(&self) -> NodeFuture<'_, String>;

    /// Returns the last `lines` lines of output.
    ///
    /// # Errors
    /// See [`Channel::read`].
    fn read_tail(&self, lines: usize) -> NodeFuture<'_, String> {
        Box::pin(async move {
            let all = self.read().await?;
            let rows: Vec<&str> = all.lines().collect();
            Ok(rows[rows.len().saturating_sub(lines)..].join("\n"))
        })
    }

    /// Interrupts the current work.
    ///
    /// # Errors
    /// The channel is closed.
    fn interrupt(&self) -> NodeFuture<'_, ()>;

    /// Closes the channel and waits until it has ended. Idempotent.
    ///
    /// # Errors
    /// The channel does not end.
    fn close(&self) -> NodeFuture<'_, ()>;
}

/// A channel as a node: `execute` is its `send`, `stop` its `close`.
#[derive(Debug, Clone)]
#[deprecated(note = "implement Node")]
pub struct ChannelNode {
    channel: Arc<dyn Channel>,
}

impl ChannelNode {
    /// Wraps a channel that is open or opens by itself.
    pub fn new(channel: Arc<dyn Channel>) -> ChannelNode {
        warn_deprecated!("Channel is deprecated, implement Node");
        ChannelNode { channel }
    }

    /// Returns the channel.
    pub fn channel(&self) -> &Arc<dyn Channel> {
        &self.channel
    }
}

impl Node for ChannelNode {
    fn id(&self) -> &str {
        self.channel.id()
    }

    fn kind(&self) -> &'static str {
        "channel"
    }

    fn is_persistent(&self) -> bool {
        true
    }

    fn execute<'a>(&'a self, context: &'a TurnContext) -> NodeFuture<'a> {
        Box::pin(async move {
            let text = match &context.input {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let answer = self.channel.send(&text, context.parser, context.timeout);
            tokio::pin!(answer);
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = context.cancellation().cancelled() => {}
            }
            // Fails if the channel was closed in the meantime: then `send` ends by itself.
            let _ = self.channel.interrupt().await;
            let _ = answer.await;
            Err(cancelled_error())
        })
    }

    fn info(&self) -> NodeInfo {
        let state = match self.channel.state() {
            ChannelState::Connecting => NodeState::Starting,
            ChannelState::Open => NodeState::Ready,
            ChannelState::Busy => NodeState::Busy,
            ChannelState::Closed => NodeState::Stopped,
        };
        NodeInfo {
            node_id: self.id().to_string(),
            kind: self.kind().to_string(),
            state,
            persistent: true,
            approximate: false,
            progress: Default::default(),
            metadata: Default::default(),
        }
    }

    /// Time for an interrupt to take effect.
    fn cancel_grace(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn stop<'a>(&'a self, _reason: &'a str) -> BoxFuture<'a> {
        Box::pin(async move {
            if let Err(error) = self.channel.close().await {
                tracing::warn!(channel = self.id(), %error, "closing a channel failed");
            }
        })
    }

    fn interrupt(&self) -> NodeFuture<'_, ()> {
        self.channel.interrupt()
    }
}

impl Channel for TerminalNode {
    fn id(&self) -> &str {
        Node::id(self)
    }

    fn state(&self) -> ChannelState {
        match Node::info(self).state {
            NodeState::Created | NodeState::Starting => ChannelState::Connecting,
            NodeState::Busy => ChannelState::Busy,
            NodeState::Stopping | NodeState::Stopped => ChannelState::Closed,
            _ => ChannelState::Open,
        }
    }

    fn send<'a>(
        &'a self,
        input: &'a str,
        parser: Option<ParserKind>,
        timeout: Option<Duration>,
    ) -> NodeFuture<'a> {
        let prompt = Prompt {
            text: input.into(),
            parser,
            stream: false,
            tag: None,
            timeout,
            fail_if_busy: false,
            at_dialog: Default::default(),
            detach_on_timeout: false,
            trace: None,
            origin: Default::default(),
        };
        Box::pin(async move { Ok(TerminalNode::execute(self, prompt).await?.into_value()) })
    }

    fn run<'a>(&'a self, command: &'a str) -> NodeFuture<'a, ()> {
        Node::run_command(self, command.to_string())
    }

    fn write<'a>(&'a self, data: &'a [u8]) -> NodeFuture<'a, ()> {
        Box::pin(async move { Node::write(self, data.to_vec()).await.map(drop) })
    }

    fn read(&self) -> NodeFuture<'_, String> {
        Node::read(self, None)
    }

    fn read_tail(&self, lines: usize) -> NodeFuture<'_, String> {
        Node::read(self, Some(lines))
    }

    fn interrupt(&self) -> NodeFuture<'_, ()> {
        Node::interrupt(self)
    }

    fn close(&self) -> NodeFuture<'_, ()> {
        Box::pin(async {
            Node::stop(self, "its channel was closed").await;
            Ok(())
        })
    }
}
