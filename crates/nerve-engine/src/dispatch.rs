//! Finds the engine's method for a request.
//!
//! The dispatcher reads the parameters of a request into its type, calls the method, and returns the reply. Transports encode the reply.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use nerve_api::AnyReply;
use nerve_api::request::{
    AnswerGate, AnswerNode, CancelGraph, CancelResult, ClearBuffer, CreateBranch, CreateGraph, CreateNode,
    CreateSession, DeleteBranch, DeleteGraph, DeleteSession, ExecuteGraph, ExecuteInput, ExplainNode,
    ForkNode, GetBuffer, GetGraph, GetHistory, GetNode, GetRecordingFile, GetResult, GetRun, GetSession,
    GetTimeline, GetTranscript, GetUsage, ListBranches, ListGraphs, ListNodes, ListRecordings, ListResults,
    ListRuns, ListSessions, ListSnapshots, Ping, PruneNodes, PruneRecordings, ReadRecording, RemoveNode,
    ResizeNode, RestoreNodes, RestoreSnapshot, ResumeRun, RunCommand, RunGraph, Search, SendInterrupt,
    SetBudget, ShowNode, StartNode, StartSession, StopNode, StopSession, TakeSnapshot, WaitNode, WriteData,
    read,
};
use nerve_api::{Params, Request, RequestName};
use nerve_node::error::EngineError;

use crate::engine::Engine;
use crate::requests::context::RequestContext;

/// Returns the dispatcher of an engine. The table has all requests that the engine handles.
pub fn dispatcher(engine: Engine) -> Dispatcher {
    Dispatcher::new(engine)
        .on::<CreateNode>(Engine::create_node)
        .on::<StartNode>(Engine::start_node)
        .on::<ForkNode>(Engine::fork_node)
        .on::<StopNode>(Engine::stop_node)
        .on::<RemoveNode>(Engine::remove_node)
        .on::<PruneNodes>(Engine::prune_nodes)
        .on::<RestoreNodes>(Engine::restore_nodes)
        .on_with::<ListNodes>(RequestTraits::brief(), Engine::list_nodes)
        .on_with::<GetNode>(RequestTraits::brief(), Engine::get_node)
        .on_with::<RunCommand>(RequestTraits::brief(), Engine::run_command)
        .on_with::<ExecuteInput>(
            RequestTraits {
                streams: |request| request.stream && !request.is_async,
                ..RequestTraits::default()
            },
            Engine::execute_input,
        )
        .on_with::<GetResult>(
            RequestTraits {
                size: |request| if request.wait { ReplySize::LargeAtEnd } else { ReplySize::Large },
                ..RequestTraits::default()
            },
            Engine::get_result,
        )
        .on_with::<ListResults>(RequestTraits::large(), Engine::list_results)
        .on::<CancelResult>(Engine::cancel_result)
        .on_with::<SendInterrupt>(RequestTraits::brief(), Engine::send_interrupt)
        .on_with::<WriteData>(RequestTraits::brief(), Engine::write_data)
        .on_with::<ResizeNode>(RequestTraits::brief(), Engine::resize_node)
        .on::<ShowNode>(Engine::show_node)
        .on_with::<GetBuffer>(RequestTraits::large(), Engine::get_buffer)
        .on::<ClearBuffer>(Engine::clear_buffer)
        .on_with::<GetHistory>(RequestTraits::large(), Engine::get_history)
        .on_with::<GetTranscript>(RequestTraits::large(), Engine::get_transcript)
        .on_with::<Search>(RequestTraits::large_at_end(), Engine::search)
        .on_with::<GetUsage>(RequestTraits::large_at_end(), Engine::get_usage)
        .on_with::<WaitNode>(RequestTraits::brief(), Engine::wait_node)
        .on_with::<ExplainNode>(RequestTraits::brief(), Engine::explain_node)
        .on::<AnswerNode>(Engine::answer_node)
        .on_with::<CreateGraph>(RequestTraits::large(), Engine::create_graph)
        .on_with::<GetGraph>(RequestTraits::large(), Engine::get_graph)
        .on_with::<ListGraphs>(RequestTraits::large(), Engine::list_graphs)
        .on::<DeleteGraph>(Engine::delete_graph)
        .on_with::<ExecuteGraph>(RequestTraits::large_at_end(), Engine::execute_graph)
        .on_with::<RunGraph>(RequestTraits::large_at_end(), Engine::run_graph)
        .on::<CancelGraph>(Engine::cancel_graph)
        .on_with::<ListRuns>(RequestTraits::large(), Engine::list_runs)
        .on_with::<GetRun>(RequestTraits::large(), Engine::get_run)
        .on_with::<ResumeRun>(RequestTraits::large_at_end(), Engine::resume_run)
        .on::<AnswerGate>(Engine::answer_gate)
        .on_with::<SetBudget>(RequestTraits::brief(), Engine::set_budget)
        .on::<CreateSession>(Engine::create_session)
        .on_with::<GetSession>(RequestTraits::brief(), Engine::get_session)
        .on_with::<ListSessions>(RequestTraits::brief(), Engine::list_sessions)
        .on::<DeleteSession>(Engine::delete_session)
        .on::<StartSession>(Engine::start_session)
        .on::<StopSession>(Engine::stop_session)
        .on_with::<ListRecordings>(RequestTraits::large(), Engine::list_recordings)
        .on_with::<PruneRecordings>(RequestTraits::large_at_end(), Engine::prune_recordings)
        .on_with::<GetTimeline>(
            RequestTraits {
                size: |request| {
                    if request.since.is_some() { ReplySize::LargeAtEnd } else { ReplySize::Large }
                },
                ..RequestTraits::default()
            },
            Engine::get_timeline,
        )
        .on_with::<ReadRecording>(RequestTraits::large(), Engine::read_recording)
        .on_with::<GetRecordingFile>(RequestTraits::large(), Engine::get_recording_file)
        .on_with::<ListSnapshots>(RequestTraits::large(), Engine::list_snapshots)
        .on::<TakeSnapshot>(Engine::take_snapshot)
        .on::<RestoreSnapshot>(Engine::restore_snapshot)
        .on_with::<CreateBranch>(
            RequestTraits { streams: |request| !request.dry_run, ..RequestTraits::large_at_end() },
            Engine::create_branch,
        )
        .on_with::<ListBranches>(RequestTraits::large(), Engine::list_branches)
        .on::<DeleteBranch>(Engine::delete_branch)
        .on_with::<Ping>(RequestTraits::brief(), Engine::ping)
}

/// Limit for the size of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplySize {
    /// Bounded by a few limits of the engine.
    Small,
    /// Megabytes, at once.
    Large,
    /// Megabytes, after a time that may be hours.
    LargeAtEnd,
}

/// Properties of a request that a connection needs before it calls the engine.
struct RequestTraits<R> {
    /// The first poll takes no time: it reads memory or sends a message to a node. Requests that read a file, start a program or build
    /// a long reply are not brief.
    is_brief: bool,
    size: fn(&R) -> ReplySize,
    /// OUTPUT_CHUNK or BRANCH_PROGRESS events of this request precede its reply.
    streams: fn(&R) -> bool,
}

impl<R> Default for RequestTraits<R> {
    fn default() -> RequestTraits<R> {
        RequestTraits { is_brief: false, size: |_| ReplySize::Small, streams: |_| false }
    }
}

impl<R> RequestTraits<R> {
    fn brief() -> RequestTraits<R> {
        RequestTraits { is_brief: true, ..RequestTraits::default() }
    }

    fn large() -> RequestTraits<R> {
        RequestTraits { size: |_| ReplySize::Large, ..RequestTraits::default() }
    }

    fn large_at_end() -> RequestTraits<R> {
        RequestTraits { size: |_| ReplySize::LargeAtEnd, ..RequestTraits::default() }
    }
}

/// A method of the engine that handles a request.
trait Handler<'a, R: Request>: Send + Sync {
    type Future: Future<Output = Result<R::Reply, EngineError>> + Send + 'a;

    fn call(&self, engine: &'a Engine, request: R, context: RequestContext) -> Self::Future;
}

impl<'a, R, F, T> Handler<'a, R> for F
where
    R: Request,
    F: Fn(&'a Engine, R, RequestContext) -> T + Send + Sync,
    T: Future<Output = Result<R::Reply, EngineError>> + Send + 'a,
{
    type Future = T;

    fn call(&self, engine: &'a Engine, request: R, context: RequestContext) -> T {
        self(engine, request, context)
    }
}

/// Handlers by the names of their requests.
pub struct Dispatcher {
    engine: Engine,
    entries: HashMap<RequestName, Entry>,
}

/// The handler of one type of request.
struct Entry {
    decode: Decode,
    /// A [`Prepare`] of the type of the request.
    prepare: Box<dyn Any + Send + Sync>,
}

type Prepare<R> = Arc<dyn Fn(&Engine, R) -> PreparedRequest + Send + Sync>;
type Decode = Box<dyn Fn(&Engine, &Params<'_>) -> Result<PreparedRequest, String> + Send + Sync>;
type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;
/// Outcome of a request: its reply, of whatever type, or an error.
pub type Outcome = Result<Box<dyn AnyReply>, EngineError>;

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher").field("requests", &self.entries.keys()).finish_non_exhaustive()
    }
}

impl Dispatcher {
    fn new(engine: Engine) -> Dispatcher {
        Dispatcher { engine, entries: HashMap::new() }
    }

    /// Registers the handler of a request with a small reply.
    fn on<R: Request>(self, handler: impl for<'a> Handler<'a, R> + Copy + 'static) -> Dispatcher {
        self.on_with::<R>(RequestTraits::default(), handler)
    }

    /// Registers the handler of a request.
    fn on_with<R: Request>(
        mut self,
        traits: RequestTraits<R>,
        handler: impl for<'a> Handler<'a, R> + Copy + 'static,
    ) -> Dispatcher {
        let prepare: Prepare<R> = Arc::new(move |engine, request| {
            let engine = engine.clone();
            PreparedRequest {
                is_brief: traits.is_brief,
                size: (traits.size)(&request),
                streams: (traits.streams)(&request),
                ends_with_client: R::CANCEL_ON_DISCONNECT,
                work: Box::new(move |context| {
                    Box::pin(async move {
                        let reply = handler.call(&engine, request, context).await?;
                        Ok(Box::new(reply) as Box<dyn AnyReply>)
                    })
                }),
            }
        });
        let read_and_prepare = prepare.clone();
        let decode: Decode = Box::new(move |engine, params| {
            let request: R = read(R::NAME, params)?;
            Ok(read_and_prepare(engine, request))
        });
        self.entries.insert(R::NAME, Entry { decode, prepare: Box::new(prepare) });
        self
    }

    /// Reads the parameters of a request.
    ///
    /// # Errors
    /// A message for the client: the request is not supported, or a parameter is missing or of the wrong type.
    pub fn decode(&self, name: RequestName, params: &Params<'_>) -> Result<PreparedRequest, String> {
        match self.entries.get(&name) {
            Some(entry) => (entry.decode)(&self.engine, params),
            None => Err(format!("{name} is not supported by this version")),
        }
    }

    /// Prepares a request that was made in this process. Its reply is an [`R::Reply`](Request::Reply). Returns `None` for a request that the
    /// engine does not handle.
    pub fn prepare<R: Request>(&self, request: R) -> Option<PreparedRequest> {
        let prepare = self.entries.get(&R::NAME)?.prepare.downcast_ref::<Prepare<R>>()?;
        Some(prepare(&self.engine, request))
    }
}

/// A request that can be executed.
pub struct PreparedRequest {
    /// The first poll of the request takes no time.
    pub is_brief: bool,
    /// Limit for the size of the reply.
    pub size: ReplySize,
    /// Events of the request precede its reply.
    pub streams: bool,
    /// True if the request is abandoned when its client disconnects.
    pub ends_with_client: bool,
    work: Box<dyn FnOnce(RequestContext) -> Work + Send>,
}

impl fmt::Debug for PreparedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("size", &self.size).finish_non_exhaustive()
    }
}

impl PreparedRequest {
    /// Executes the request.
    pub fn execute(self, context: RequestContext) -> Work {
        (self.work)(context)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::engine::EngineConfig;

    fn decode(name: &str, params: Value) -> Result<PreparedRequest, String> {
        let (name, _) = RequestName::parse(name).unwrap();
        let params = params.as_object().unwrap().clone().into();
        dispatcher(Engine::new(EngineConfig::default())).decode(name, &params)
    }

    #[tokio::test]
    async fn all_requests_to_the_engine_have_handlers() {
        let dispatcher = dispatcher(Engine::new(EngineConfig::default()));
        let others = [RequestName::Subscribe, RequestName::Authenticate, RequestName::Shutdown];
        for name in RequestName::ALL {
            assert_ne!(dispatcher.entries.contains_key(name), others.contains(name), "{name}");
        }
    }

    #[tokio::test]
    async fn prepared_requests_have_typed_replies() {
        let dispatcher = dispatcher(Engine::new(EngineConfig::default()));
        let call = dispatcher.prepare(Ping {}).unwrap();
        let reply: Box<dyn Any> = call.execute(RequestContext::default()).await.unwrap();
        assert!(reply.is::<nerve_api::reply::Pong>());
        assert!(dispatcher.prepare(nerve_api::request::Shutdown::default()).is_none());
    }

    #[tokio::test]
    async fn disconnects_end_no_run() {
        for (name, params) in
            [("RUN_GRAPH", json!({ "graph_id": "g" })), ("RESUME_RUN", json!({ "run_id": "r" }))]
        {
            let call = decode(name, params).unwrap();
            assert!(!call.ends_with_client && call.size == ReplySize::LargeAtEnd);
        }
        for name in ["LIST_GRAPHS", "LIST_RUNS"] {
            let call = decode(name, json!({})).unwrap();
            assert!(call.ends_with_client && call.size == ReplySize::Large);
        }
        let wait = decode("WAIT_NODE", json!({ "node_id": "a" })).unwrap();
        assert!(wait.ends_with_client && wait.is_brief);
    }

    #[tokio::test]
    async fn results_are_large_at_once_or_at_the_end_of_a_wait() {
        let size = |params| decode("GET_RESULT", params).unwrap().size;
        assert_eq!(size(json!({ "result_id": "r" })), ReplySize::Large);
        assert_eq!(size(json!({ "result_id": "r", "wait": true })), ReplySize::LargeAtEnd);
    }

    #[tokio::test]
    async fn synchronous_streams_are_tagged() {
        let streams = |options: Value| {
            let mut params = json!({ "node_id": "a", "text": "hi" });
            params.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
            decode("EXECUTE_INPUT", params).unwrap().streams
        };
        assert!(streams(json!({ "stream": true })));
        assert!(!streams(json!({})) && !streams(json!({ "stream": true, "async": true })));
    }
}
