//! Everything that an actor waits for.

use nerve_host::backend::{Backend, BackendEvent};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::backend_link::BackendLink;
use super::request::Request;
use super::scrollback_share::ScrollbackShare;
use crate::hooks::{HookMessage, HookSocket};

/// An input of an actor.
pub(super) enum Input {
    /// An event of the terminal.
    Backend(BackendEvent),
    /// A request of a handle or of a task.
    Request(Request),
    /// The last handle was dropped.
    HandlesDropped,
    /// A message of the agent's hooks.
    Hook(HookMessage),
    /// The usage or the limits of the node or its session have changed.
    Budget,
    /// The share in the scrollback memory has changed.
    Scrollback,
    /// The deadline was reached.
    Timer,
}

/// The sources of an actor's inputs, except the backend. A source is dropped when it ends.
pub(super) struct Inputs {
    pub(super) inbox: Option<mpsc::Receiver<Request>>,
    pub(super) hooks: Option<HookSocket>,
    pub(super) budget: watch::Receiver<()>,
    pub(super) scrollback: ScrollbackShare,
}

impl Inputs {
    /// Waits for the next input.
    pub(super) async fn next(
        &mut self,
        link: &mut BackendLink<impl Backend>,
        deadline: Option<Instant>,
    ) -> Input {
        let timer = tokio::time::sleep_until(deadline.unwrap_or_else(Instant::now));
        tokio::pin!(timer);
        loop {
            tokio::select! {
                event = link.next() => return Input::Backend(event),
                request = next_request(&mut self.inbox) => match request {
                    Some(request) => return Input::Request(request),
                    None => {
                        self.inbox = None;
                        return Input::HandlesDropped;
                    }
                },
                message = next_hook(&mut self.hooks) => match message {
                    Ok(message) => return Input::Hook(message),
                    Err(_) => self.hooks = None,
                },
                // The node holds the sender.
                Ok(()) = self.budget.changed() => return Input::Budget,
                () = self.scrollback.changed() => return Input::Scrollback,
                () = &mut timer, if deadline.is_some() => return Input::Timer,
            }
        }
    }
}

/// Returns the next request, or `None` after the last; never completes without an inbox.
async fn next_request(inbox: &mut Option<mpsc::Receiver<Request>>) -> Option<Request> {
    match inbox {
        Some(inbox) => inbox.recv().await,
        None => std::future::pending().await,
    }
}

/// Returns the next message of the agent's hooks; never completes without hooks.
async fn next_hook(hooks: &mut Option<HookSocket>) -> std::io::Result<HookMessage> {
    match hooks {
        Some(hooks) => hooks.next().await,
        None => std::future::pending().await,
    }
}
