//! Observes the recorded program: its activity for the events pipe, its tools and its conversation.

use std::fs::File;
use std::io;
use std::time::Duration;

use nerve_api::event::{Event, EventKind};
use nerve_api::value::NodeState;
use nerve_host::HostSpec;
use nerve_host::clock::Clock;
use nerve_host::process::Host;
use nerve_node::Node;
use nerve_node::observer::{Observer, RunningObserver};
use nerve_record::activity::{Activity, Level, TsMs};
use nerve_record::events_pipe::EventsPipe;
use nerve_server::paths::ServerPaths;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::task::JoinHandle;

use crate::out;
use nerve_cli::record::RecordArgs;

/// Time limit for the last event after the program's end.
const LAST_EVENT_TIMEOUT: Duration = Duration::from_secs(2);

/// A running observer, with the task that forwards its events.
pub(super) struct Observation {
    observer: RunningObserver,
    forward_task: Option<JoinHandle<()>>,
}

impl Observation {
    /// Connects the observer to the host, and forwards its events to the pipe.
    pub(super) async fn start(
        observer: Observer,
        host: &Host,
        events_pipe: Option<File>,
    ) -> io::Result<Observation> {
        let observer = observer.start(host).await?;
        let forward_task = events_pipe.map(|pipe| tokio::spawn(forward_events(observer.events(), pipe)));
        Ok(Observation { observer, forward_task })
    }

    /// Waits until the program's end is forwarded.
    pub(super) async fn finish(self) {
        let Observation { observer, forward_task } = self;
        // The last event is the program's end, which readers of the pipe wait for.
        let _ = observer.node().wait(&[NodeState::Stopped], Some(LAST_EVENT_TIMEOUT)).await;
        if let Some(list) = observer.node().failed_execution_log() {
            let list = list.display();
            out::warning(format_args!("the list of executions is incomplete: cannot write {list}"));
        }
        // The task ends with the node.
        drop(observer);
        if let Some(forward_task) = forward_task {
            let _ = forward_task.await;
        }
    }
}

/// Prepares the program to be observed if a part of the command needs it. `answers_queries`: the observer answers
/// terminal queries.
pub(super) fn prepare_observer(
    args: &RecordArgs,
    spec: &mut HostSpec,
    paths: &ServerPaths,
    answers_queries: bool,
) -> Option<Observer> {
    let relay = crate::current_exe::path().ok();
    let is_needed = answers_queries || args.events_pipe_fd.is_some() || args.trace_tools;
    // The observer also records tools and the conversation, which branches need.
    let observer = Observer::prepare(spec, Some(&paths.data.profiles), relay.as_deref(), answers_queries)
        .filter(|observer| is_needed || observer.has_conversations());
    let tracing_problem = match &observer {
        Some(observer) => observer.tracing_problem(),
        None => Some("only Claude Code is supported, and no profile matches this program".to_string()),
    };
    if let Some(reason) = tracing_problem.filter(|_| args.trace_tools) {
        out::warning(format_args!("cannot trace tools: {reason}"));
    }
    observer
}

/// Forwards events to the pipe until either ends.
async fn forward_events(mut events: broadcast::Receiver<Event>, pipe: File) {
    let pipe = match EventsPipe::new(pipe) {
        Ok(pipe) => pipe,
        Err(error) => return out::warning(format_args!("cannot send events: {error}")),
    };
    loop {
        let sent = match events.recv().await {
            Ok(Event { kind: EventKind::NodeActivity(activity), .. }) => pipe.send(&activity),
            Ok(_) => Ok(()),
            Err(RecvError::Lagged(lost)) => pipe.send(&Activity::Log {
                level: Level::Warn,
                message: format!("{lost} events are missing here: they came too fast"),
                execution: None,
                at: TsMs::from(Clock::start().now()),
            }),
            Err(RecvError::Closed) => return,
        };
        if let Err(error) = sent {
            return out::warning(error);
        }
    }
}
