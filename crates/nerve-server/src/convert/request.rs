//! From a line to something the engine or the connection can do.

use std::path::PathBuf;
use std::str::FromStr;

use nerve_api::reply::ErrorDetails;
use nerve_api::{DecodeError, EventType, Message, RequestName, ResultMessage, params};
use nerve_core::command::{
    BackendKind, Choice, Command, CommandLine, Execute, HistoryQuery, Like, NodeRef, NodeSpec, PanePlace,
    StateName,
};
use nerve_core::error::{EngineError, ErrorKind};
use nerve_core::session::DEFAULT;
use nerve_term::event::Size;
use nerve_term::parse::ParserKind;

use super::{Answer, chat, graph, line_of, proxy, result, trace};
use crate::events::Filter;

/// A request, understood.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "moved once or twice, and kept nowhere: most are of the large one"
)]
pub(crate) enum Request {
    /// For the engine.
    Command { command: Command, answer: Answer },
    /// For the connection: from now on other events.
    Subscribe { filter: Filter, since: Option<u64>, answer: Answer },
    /// For nobody: this connection is let in already.
    Authenticated { answer: Answer },
    /// For the server.
    Shutdown { keep_nodes: bool, answer: Answer },
}

/// Reads a line. The error is the line that answers it.
pub(crate) fn request(line: &[u8]) -> Result<Request, Vec<u8>> {
    let request = nerve_api::decode_request(line).map_err(|error| line_of(&error.reply()))?;
    let answer = Answer {
        request_id: request.request_id.clone(),
        command: Some(request.command),
        warnings: request.warnings.clone(),
        last: None,
    };
    understand(&request, answer.clone()).map_err(|problem| match problem {
        Problem::Decode(error) => {
            let data = ErrorDetails::of(ErrorDetails::INVALID_REQUEST);
            let failed = ResultMessage::failed(answer.request_id, error.message, &data);
            line_of(&Message::Result(failed.with_warnings(answer.warnings)))
        }
        Problem::Meaning(error) => answer.failed(error),
    })
}

/// What a client shows to be let in.
pub(crate) struct Authenticate {
    pub(crate) token: Option<Vec<u8>>,
    pub(crate) answer: Answer,
}

/// Reads the first line of a client that is not let in yet. The error is the line that answers anything but AUTHENTICATE.
pub(crate) fn authenticate(line: &[u8]) -> Result<Authenticate, Vec<u8>> {
    let request = nerve_api::decode_request(line).map_err(|error| line_of(&error.reply()))?;
    let answer = Answer {
        request_id: request.request_id.clone(),
        command: Some(request.command),
        warnings: Vec::new(),
        last: None,
    };
    if request.command != RequestName::Authenticate {
        let error = EngineError::new(ErrorKind::Authentication, "AUTHENTICATE must come first");
        return Err(
            answer.failed(error.hint("send the token: 'nerve token show' on the server's machine prints it"))
        );
    }
    let params: params::Authenticate = request
        .read()
        .map_err(|error| answer.clone().failed(EngineError::new(ErrorKind::InvalidRequest, error.message)))?;
    Ok(Authenticate { token: params.token.map(String::into_bytes), answer })
}

/// The line that answers a line that was too long to be kept.
pub(crate) fn too_long(bytes: u64) -> Vec<u8> {
    line_of(&DecodeError::too_long(bytes).reply())
}

/// Nothing is lost when such a command is given up because nobody waits for its answer any more.
pub(crate) fn changes_nothing(command: &Command) -> bool {
    match command {
        Command::ListNodes { .. }
        | Command::GetNode(_)
        | Command::GetBuffer { .. }
        | Command::GetHistory(_)
        | Command::ExplainNode(_)
        | Command::WaitNode { .. }
        | Command::GetSession { .. }
        | Command::ListSessions
        | Command::GetGraph(_)
        | Command::ListGraphs { .. }
        | Command::ListRuns
        | Command::GetRun { .. }
        | Command::GetResult { .. }
        | Command::ListResults { .. }
        | Command::Ping => true,
        Command::CreateNode(_)
        | Command::StopNode(_)
        | Command::RunCommand { .. }
        | Command::ExecuteInput(_)
        | Command::SendInterrupt(_)
        | Command::WriteData { .. }
        | Command::ResizeNode { .. }
        | Command::ClearBuffer(_)
        | Command::AnswerNode { .. }
        | Command::CreateSession { .. }
        | Command::DeleteSession { .. }
        | Command::StartNode(_)
        | Command::ForkNode { .. }
        | Command::StartSession { .. }
        | Command::StopSession { .. }
        | Command::CreateGraph { .. }
        | Command::DeleteGraph(_)
        // A run goes on when its client leaves: to end it is CANCEL_GRAPH's.
        | Command::RunGraph(_)
        | Command::ResumeRun(_)
        | Command::CancelGraph { .. }
        | Command::AnswerGate { .. }
        | Command::CancelResult { .. }
        | Command::Shutdown { .. } => false,
    }
}

/// It takes no time to begin with: it looks at what is in memory, or asks a node. Whatever reads a file, starts a program or puts together a
/// long answer is not brief.
pub(crate) fn is_brief(command: &Command) -> bool {
    matches!(
        command,
        Command::Ping
            | Command::ListNodes { .. }
            | Command::GetNode(_)
            | Command::WaitNode { .. }
            | Command::ExplainNode(_)
            | Command::RunCommand { .. }
            | Command::WriteData { .. }
            | Command::ResizeNode { .. }
            | Command::SendInterrupt(_)
            | Command::GetSession { .. }
            | Command::ListSessions
    )
}

/// The answer may be megabytes long, at once.
pub(crate) fn may_answer_much(command: &Command) -> bool {
    matches!(
        command,
        Command::GetBuffer { .. }
            | Command::GetHistory(_)
            | Command::CreateGraph { .. }
            | Command::GetGraph(_)
            | Command::ListGraphs { .. }
            | Command::ListRuns
            | Command::GetRun { .. }
            | Command::ListResults { .. }
            | Command::GetResult { wait: false, .. }
    )
}

/// The answer may be megabytes long, after a time that may be hours.
pub(crate) fn may_end_with_much(command: &Command) -> bool {
    matches!(command, Command::RunGraph(_) | Command::ResumeRun(_) | Command::GetResult { wait: true, .. })
}

/// Why a request cannot be done.
enum Problem {
    /// Its form is wrong.
    Decode(DecodeError),
    /// Its form is right, and what it asks for is not.
    Meaning(EngineError),
}

impl From<DecodeError> for Problem {
    fn from(error: DecodeError) -> Problem {
        Problem::Decode(error)
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Problem {
        Problem::Meaning(error)
    }
}

fn understand(request: &nerve_api::Request, answer: Answer) -> Result<Request, Problem> {
    match request.command {
        RequestName::Subscribe => {
            let params: params::Subscribe = request.read()?;
            let since = params.since;
            Ok(Request::Subscribe { filter: filter(params)?, since, answer })
        }
        RequestName::Authenticate => Ok(Request::Authenticated { answer }),
        RequestName::Shutdown => {
            let params: params::Shutdown = request.read()?;
            Ok(Request::Shutdown { keep_nodes: params.keep_nodes, answer })
        }
        RequestName::GetRun => {
            let params: params::GetRun = request.read()?;
            let answer = Answer { last: params.last, ..answer };
            Ok(Request::Command { command: Command::GetRun { run: params.run_id }, answer })
        }
        _ => {
            let (mut command, mut answer) = (command(request)?, answer);
            trace::put(&mut command, request, &mut answer.warnings);
            Ok(Request::Command { command, answer })
        }
    }
}

fn command(request: &nerve_api::Request) -> Result<Command, Problem> {
    Ok(match request.command {
        RequestName::CreateNode => Command::CreateNode(node_spec(request.read()?)?),
        RequestName::StartNode => Command::StartNode(node_ref(request.read()?)),
        RequestName::ForkNode => {
            let params: params::ForkNode = request.read()?;
            let source = node(params.session_id, params.source_id);
            Command::ForkNode { source, target: params.target_id, at: params.at }
        }
        RequestName::StopNode => Command::StopNode(node_ref(request.read()?)),
        RequestName::ListNodes => {
            let params: params::ListNodes = request.read()?;
            Command::ListNodes { session: params.session_id }
        }
        RequestName::GetNode => Command::GetNode(node_ref(request.read()?)),
        RequestName::RunCommand => {
            let params: params::RunCommand = request.read()?;
            let node = node(params.session_id, params.node_id);
            Command::RunCommand { node, command: params.command, trace: None }
        }
        RequestName::ExecuteInput => Command::ExecuteInput(execute(request.read()?)?),
        RequestName::GetResult => result::get(request.read()?),
        RequestName::ListResults => result::list(request.read()?),
        RequestName::CancelResult => {
            let params: params::CancelResult = request.read()?;
            Command::CancelResult { result: params.result_id }
        }
        RequestName::SendInterrupt => Command::SendInterrupt(node_ref(request.read()?)),
        RequestName::WriteData => {
            let params: params::WriteData = request.read()?;
            Command::WriteData {
                node: node(params.session_id, params.node_id),
                data: params.data.into_bytes(),
            }
        }
        RequestName::ResizeNode => {
            let params: params::ResizeNode = request.read()?;
            let size = size(params.cols, params.rows)?;
            Command::ResizeNode { node: node(params.session_id, params.node_id), size }
        }
        RequestName::GetBuffer => {
            let params: params::GetBuffer = request.read()?;
            Command::GetBuffer { node: node(params.session_id, params.node_id), lines: params.lines }
        }
        RequestName::ClearBuffer => Command::ClearBuffer(node_ref(request.read()?)),
        RequestName::GetHistory => Command::GetHistory(history(request.read()?)),
        RequestName::WaitNode => wait(request.read()?)?,
        RequestName::ExplainNode => Command::ExplainNode(node_ref(request.read()?)),
        RequestName::AnswerNode => answer_node(request.read()?)?,
        RequestName::CreateSession => {
            let params: params::CreateSession = request.read()?;
            Command::CreateSession { name: params.name, description: params.description, tags: params.tags }
        }
        RequestName::GetSession => Command::GetSession { name: session(&request.read()?) },
        RequestName::ListSessions => Command::ListSessions,
        RequestName::DeleteSession => Command::DeleteSession { name: session(&request.read()?) },
        RequestName::StartSession => Command::StartSession { name: session(&request.read()?) },
        RequestName::StopSession => Command::StopSession { name: session(&request.read()?) },
        RequestName::CreateGraph => graph::create(request.read()?),
        RequestName::GetGraph => Command::GetGraph(graph::graph_ref(request.read()?)),
        RequestName::ListGraphs => graph::list(request.read()?),
        RequestName::DeleteGraph => Command::DeleteGraph(graph::graph_ref(request.read()?)),
        RequestName::ExecuteGraph => graph::execute(request.read()?),
        RequestName::RunGraph => graph::run(request.read()?),
        RequestName::CancelGraph => graph::cancel(request.read()?)?,
        RequestName::ListRuns => Command::ListRuns,
        RequestName::ResumeRun => graph::resume(request.read()?),
        RequestName::AnswerGate => graph::answer_gate(request.read()?),
        RequestName::Ping => Command::Ping,
        other => return Err(invalid(format!("{other} is not supported by this version")).into()),
    })
}

fn node(session: Option<String>, node: String) -> NodeRef {
    NodeRef { session, node }
}

fn node_ref(params: params::NodeParams) -> NodeRef {
    node(params.session_id, params.node_id)
}

fn session(params: &params::SessionParams) -> String {
    params.session().unwrap_or(DEFAULT).to_string()
}

fn node_spec(params: params::CreateNode) -> Result<NodeSpec, EngineError> {
    let backend = BackendKind::parse(&params.backend).ok_or_else(|| {
        let known = BackendKind::ALL.map(BackendKind::as_str).join(", ");
        invalid(format!("params.backend: unknown backend {:?}", params.backend))
            .hint(format!("there are {known}"))
    })?;
    if params.chat.is_some() && backend != BackendKind::Chat {
        return Err(invalid(format!("params.chat is for backend chat, not {}", backend.as_str())));
    }
    let command = match params.command {
        None => CommandLine::Argv(Vec::new()),
        Some(params::CommandLine::Text(text)) => CommandLine::Text(text),
        Some(params::CommandLine::Argv(argv)) => CommandLine::Argv(argv),
    };
    let default = Size::default();
    Ok(NodeSpec {
        cwd: params.cwd.map(PathBuf::from),
        env: params.env,
        size: size(params.cols.unwrap_or(default.cols), params.rows.unwrap_or(default.rows))?,
        profile: params.profile,
        parser: parser(params.parser)?,
        history: params.history,
        record: params.record,
        ready_timeout: params.ready_timeout.duration(),
        response_timeout: params.response_timeout.duration(),
        place: PanePlace { pane: params.pane_id, session: params.tmux_session, socket: params.socket },
        agent_session: params.claude_session_id,
        chat: params.chat.map(chat::spec).transpose()?.map(Box::new),
        conversation: params.conversation.map(result::conversation_id).transpose()?.flatten().map(Box::new),
        proxy: params.proxy.map(proxy::spec).transpose()?.map(Box::new),
        like: params
            .like
            .map(|like| Box::new(Like { node: node(like.session_id, like.node_id), proxy: like.proxy })),
        ..NodeSpec::new(node(params.session_id, params.node_id), backend, command)
    })
}

fn execute(params: params::ExecuteInput) -> Result<Execute, EngineError> {
    Ok(Execute {
        parser: parser(params.parser)?,
        stream: params.stream,
        timeout: params.timeout.map(params::Seconds::duration),
        fail_if_busy: params.fail_if_busy,
        detach_on_timeout: params.detach_on_timeout,
        conversation: params.conversation.map(result::conversation).transpose()?,
        background: result::background(params.is_async, params.webhook)?,
        ..Execute::new(node(params.session_id, params.node_id), params.text)
    })
}

fn history(params: params::GetHistory) -> HistoryQuery {
    HistoryQuery {
        node: params.node_id,
        session: params.session_id,
        server: params.server_name,
        last: params.last,
        op: params.op,
        seq: params.seq,
        inputs_only: params.inputs_only,
    }
}

fn wait(params: params::WaitNode) -> Result<Command, EngineError> {
    let mut until = Vec::new();
    for name in &params.until.0 {
        until.push(state(name)?);
    }
    if until.is_empty() {
        return Err(invalid("params.until: name at least one state"));
    }
    let timeout = params.timeout.map(params::Seconds::duration);
    Ok(Command::WaitNode { node: node(params.session_id, params.node_id), until, timeout })
}

fn state(name: &str) -> Result<StateName, EngineError> {
    const STATES: [StateName; 8] = [
        StateName::Created,
        StateName::Starting,
        StateName::Ready,
        StateName::Busy,
        StateName::Blocked,
        StateName::Suspended,
        StateName::Stopping,
        StateName::Stopped,
    ];
    STATES.into_iter().find(|state| state.as_str() == name).ok_or_else(|| {
        let known = STATES.map(StateName::as_str).join(", ");
        invalid(format!("params.until: unknown state {name:?}")).hint(format!("the states are {known}"))
    })
}

fn answer_node(params: params::AnswerNode) -> Result<Command, EngineError> {
    let choice = match (params.choice, params.cancel) {
        (Some(params::NodeChoice::Number(number)), false) => Choice::Number(number),
        (Some(params::NodeChoice::Label(label)), false) => Choice::Label(label),
        (None, true) => Choice::Cancel,
        (Some(_), true) | (None, false) => {
            return Err(invalid("give either params.choice or params.cancel = true"));
        }
    };
    let node = node(params.session_id, params.node_id);
    let timeout = params.timeout.map(params::Seconds::duration);
    Ok(Command::AnswerNode { node, choice, wait: params.wait, timeout })
}

fn filter(params: params::Subscribe) -> Result<Filter, EngineError> {
    let types = match params.types {
        None => None,
        Some(names) => {
            let known = |name: &String| {
                EventType::parse(name).ok_or_else(|| invalid(format!("params.types: unknown event {name:?}")))
            };
            Some(names.iter().map(known).collect::<Result<Vec<_>, _>>()?)
        }
    };
    let params::Subscribe { node_id, session_id, run_id, aliases, .. } = params;
    Ok(Filter { node: node_id, session: session_id, run: run_id, types, aliases })
}

fn parser(name: Option<String>) -> Result<Option<ParserKind>, EngineError> {
    let parse = |name: String| ParserKind::from_str(&name).map_err(|error| invalid(error.to_string()));
    name.map(parse).transpose()
}

fn size(cols: u16, rows: u16) -> Result<Size, EngineError> {
    let size = Size::new(cols, rows);
    if (size.cols, size.rows) == (cols, rows) {
        return Ok(size);
    }
    Err(invalid(format!("a terminal of {cols} columns and {rows} rows cannot be"))
        .hint("2-4096 columns, 1-4096 rows"))
}

fn invalid(message: impl Into<String>) -> EngineError {
    EngineError::new(ErrorKind::InvalidRequest, message)
}
