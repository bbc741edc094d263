"""Replies of a server as frozen dataclasses. Times are seconds since the Unix epoch.

Generated from docs/openapi.json by tools/generate_types.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional


@dataclass(frozen=True)
class NodeInfo:
    """Description of a node. Reply to GET_NODE and START_NODE."""

    #: Id of the node.
    node_id: str
    #: Kind of node: `pty`, `bash` …
    type: str
    #: State of the node. One of `created`, `starting`, `ready`, `busy`, `blocked`, `suspended`, `stopping`, `stopped`.
    state: str
    #: True if the node keeps its state between executions.
    persistent: bool = False
    #: True for a node in an existing pane: nerve did not start the program, so state and answers are derived from the pane's content.
    approximate: Optional[bool] = None
    #: Current work; absent for nodes that do not report it.
    progress: Dict[str, Any] = field(default_factory=dict)
    #: Details for display.
    metadata: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """A section of an answer."""

    #: Kind of section. One of `text`, `thinking`, `tool_call`, `error`, `interrupted`.
    type: str
    #: Text of the section, without common indentation.
    content: str = ""
    #: Details of the section: `tool`, `args`, `id` (transcript only), `duration`, `label`, `status` (`ok`, `error`, `rejected`,
    #: `running`, `waiting`, `asking`, `pending`), `folded` (`true`: only a summary was shown).
    metadata: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tokens:
    """Token counts, as far as known."""

    #: Tokens of the prompt.
    input: Optional[int] = None
    #: Tokens of the answer.
    output: Optional[int] = None
    #: Sum of all tokens, if the agent shows only a sum.
    total: Optional[int] = None


@dataclass(frozen=True)
class Response:
    """Response of a node to a prompt."""

    #: All text of the turn as shown on the terminal. Empty or absent if it is the same as `text`.
    raw: Optional[str] = None
    #: Text of the agent's answer.
    text: str = ""
    #: Sections of the answer.
    sections: List[Section] = field(default_factory=list)
    #: Number of tokens, if the agent showed it.
    tokens: Optional[Tokens] = None
    #: Usage in this turn as counted by the node's proxy, if it has one.
    usage: Optional[Dict[str, Any]] = None
    #: True if the end of the turn was detected.
    is_complete: bool = False
    #: True if the node is ready for the next prompt.
    is_ready: bool = False
    #: Source of text and sections. One of `transcript`, `screen`, `process`, `api`, `acp`.
    source: str = "unknown"
    #: Confirmed delivery of the prompt. One of `unsent`, `typed`, `submitted`, `started`.
    delivery: str = "unknown"
    #: True if the turn was interrupted: `text` is what the agent answered before.
    interrupted: bool = False
    #: True if the node did the task. For a one-shot command: exit code 0.
    success: bool = False
    #: Error message.
    error: Optional[str] = None
    #: Kind of error. One of `invalid_request_error`, `not_found_error`, `already_exists_error`, `process_error`, `node_stopped`,
    #: `blocked`, `busy`, `too_large`, `timeout`, `interrupted`, `delivery_error`, `no_answer`, `incomplete`, `cancelled`,
    #: `budget_exceeded`, `api_error`, `authentication_error`, `permission_error`, `rate_limit_error`, `network_error`, `lost`,
    #: `internal_error`.
    error_type: Optional[str] = None
    #: Hint on how to solve the problem.
    hint: Optional[str] = None
    #: Additional attributes: `exit_code`, `stdout`, `stderr`, `started_at` …
    attributes: Dict[str, Any] = field(default_factory=dict)
    #: Id of the node.
    node_id: str = ""
    #: Number of the turn on this node, from 1.
    turn: int = 0

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class RunningTurn:
    """A running turn."""

    #: Number of the turn on the node, from 1.
    turn: int
    #: Delivery of the prompt so far. One of `unsent`, `typed`, `submitted`, `started`.
    delivery: str


@dataclass(frozen=True)
class Explanation:
    """A node's state and the evidence for it. Reply to EXPLAIN_NODE."""

    #: Id of the node.
    node_id: str
    #: State of the node. One of `created`, `starting`, `ready`, `busy`, `blocked`, `suspended`, `stopping`, `stopped`.
    state: str
    #: Description of the evidence for the state.
    evidence: str
    #: Kind of the signal. One of `exit`, `hook`, `mark`, `title`, `foreground`, `screen`, `quiet`, `input`, `budget`, `acp`.
    source: str
    #: Offset of the signal in the node's output, in bytes.
    offset: int
    #: Choices of the dialog, if the node is blocked.
    choices: List[str] = field(default_factory=list)
    #: Id of the dialog, if the node is blocked.
    dialog_id: Optional[str] = None
    #: Text on the terminal's screen.
    screen: str = ""
    #: The running turn, if there is one.
    turn: Optional[RunningTurn] = None
    #: Details for display.
    metadata: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class History:
    """Entries of a node's audit log."""

    #: Id of the node.
    node_id: str
    #: Entries, oldest first; their fields are in the order of the file.
    entries: List[Any]
    #: Number of entries.
    total: int
    #: Server that wrote the log.
    server_name: str = ""
    #: Reason why entries are missing.
    note: Optional[str] = None


@dataclass(frozen=True)
class TranscriptDialog:
    """A dialog of the agent, and who answered it through nerve."""

    #: Time of the answer (RFC 3339, UTC).
    answered_at: Optional[str] = None
    #: Kind of the dialog.
    dialog: str = ""
    #: The choice; null if the dialog was closed without one.
    choice: Optional[str] = None
    #: The client: its user and process, or its address.
    client: str = ""
    #: The transport of the client.
    transport: str = ""


@dataclass(frozen=True)
class TranscriptTurn:
    """One turn of a `Transcript`."""

    #: Number of the turn, from 1.
    turn: int = 0
    #: The prompt; empty if it is not known.
    prompt: str = ""
    #: Time of the prompt (RFC 3339, UTC).
    started_at: Optional[str] = None
    #: Time of the end of the answer.
    ended_at: Optional[str] = None
    #: The answer: text, thoughts, tool calls with their results, errors.
    sections: List[Section] = field(default_factory=list)
    #: Tokens of the turn.
    tokens: Optional[Tokens] = None
    #: True if the end of the answer is known.
    is_complete: bool = False
    #: Source of the turn.
    source: Any = "history"
    #: The dialogs of the turn and their answers.
    dialogs: List[TranscriptDialog] = field(default_factory=list)


@dataclass(frozen=True)
class Transcript:
    """The conversation of a node or a recording. Null stands for what is not known."""

    #: Id of the node.
    node_id: Optional[str] = None
    #: Session of the node.
    session_id: Optional[str] = None
    #: Server of the node.
    server_name: Optional[str] = None
    #: Id of the node's newest recording, or of the selected one.
    recording_id: Optional[str] = None
    #: Profile of the agent.
    profile: Optional[str] = None
    #: Id of the agent's conversation.
    conversation_id: Optional[str] = None
    #: Working directory of the program.
    cwd: Optional[str] = None
    #: The agent's own session file, if the turns were read from it.
    session_file: Optional[str] = None
    #: Number of all turns, also of those that were not requested.
    turn_count: int = 0
    #: The turns, oldest first.
    turns: List[TranscriptTurn] = field(default_factory=list)
    #: Reasons why something may be missing.
    notes: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class SearchHit:
    """A text that matches. Null stands for what is not known."""

    #: Kind of the text. One of `prompt`, `answer`, `tool`, `screen`.
    kind: str
    #: Time (RFC 3339, UTC): of the prompt, of the end of the answer, or of the moment on the screen.
    happened_at: str
    #: Time since the start of the recording, in milliseconds.
    offset_ms: int
    #: The text around the match, at most about 1000 characters.
    text: str
    #: The matched parts of `text`, each as the bytes of its UTF-8 form from the first up to the second number.
    matches: List[List[int]]
    #: Id of the node.
    node_id: Optional[str] = None
    #: Session of the node.
    session_id: Optional[str] = None
    #: Server of the node.
    server_name: Optional[str] = None
    #: Id of the recording; null for a node without one.
    recording_id: Optional[str] = None
    #: Number of the turn in the transcript of the recording, or of the node without one, from 1; null for text of the screen and for
    #: turns that no transcript has.
    turn: Optional[int] = None


@dataclass(frozen=True)
class UnsearchedFile:
    """A file that is not searched completely."""

    #: Path of the file.
    path: str
    #: Reason.
    reason: str


@dataclass(frozen=True)
class SearchResult:
    """The result of a search."""

    #: The hits, newest first.
    hits: List[SearchHit] = field(default_factory=list)
    #: Files that are not searched completely: at most 10 of them.
    unsearched: List[UnsearchedFile] = field(default_factory=list)
    #: Number of all such files.
    unsearched_count: int = 0
    #: True if the index was damaged or of an older version and was built again.
    was_rebuilt: bool = False


@dataclass(frozen=True)
class TokenUsage:
    """Tokens of one or more responses. Sums and differences stop at the limits of the counts."""

    #: Input tokens, without cached ones.
    input: int = 0
    #: Output tokens.
    output: int = 0
    #: Input tokens read from the cache.
    cache_read: int = 0
    #: Input tokens written to the cache.
    cache_write: int = 0


@dataclass(frozen=True)
class UsageRow:
    """The usage of a node, a session, a day or a model. Names are null for other groupings, or if they are not known."""

    #: Server of the node or session.
    server_name: Optional[str] = None
    #: Session.
    session_id: Optional[str] = None
    #: Node.
    node_id: Optional[str] = None
    #: Id of a recording without a node.
    recording_id: Optional[str] = None
    #: Day in the time zone of the machine, as `2026-01-31`.
    day: Optional[str] = None
    #: Model.
    model: Optional[str] = None
    #: Tokens.
    tokens: TokenUsage = field(default_factory=TokenUsage)
    #: Number of turns.
    turns: int = 0
    #: Number of responses of models.
    responses: int = 0
    #: Sum of the known costs in US dollars; null if no cost is known.
    cost_usd: Optional[float] = None
    #: True if some tokens have no price.
    has_unpriced: bool = False


@dataclass(frozen=True)
class UnpricedModel:
    """A model without a price."""

    #: Number of its tokens.
    tokens: int
    #: Model; null if it is not known.
    model: Optional[str] = None


@dataclass(frozen=True)
class UsageReport:
    """The usage of nodes and recordings. Costs are estimates by list prices."""

    #: The rows, in the order of their names or days.
    rows: List[UsageRow] = field(default_factory=list)
    #: The sum of all rows. It has no names.
    total: UsageRow = field(default_factory=UsageRow)
    #: Models without a price.
    unpriced: List[UnpricedModel] = field(default_factory=list)
    #: Files that were not read completely, with the reason.
    problems: List[str] = field(default_factory=list)
    #: Number of agents' recordings whose session file is gone or not known.
    missing_recordings: int = 0


@dataclass(frozen=True)
class Result:
    """Result of an asynchronous execution. Reply to GET_RESULT and CANCEL_RESULT."""

    #: Id of the result.
    result_id: str = ""
    #: Id of the node.
    node_id: str = ""
    #: Session of the node.
    session_id: str = ""
    #: State of the execution. One of `queued`, `running`, `done`, `failed`, `cancelled`, `lost`.
    state: str = "unknown"
    #: Beginning of the prompt.
    prompt: str = ""
    #: Time of the request.
    created_at: str = "1970-01-01T00:00:00.000Z"
    #: Time at which the turn started.
    started_at: Optional[str] = None
    #: Time at which the execution ended.
    ended_at: Optional[str] = None
    #: Number of the turn on the node, from 1.
    turn: Optional[int] = None
    #: Response of the node. Absent in lists.
    response: Optional[Response] = None
    #: Error message, if the execution failed.
    error: Optional[str] = None
    #: Kind of error. One of `invalid_request_error`, `not_found_error`, `already_exists_error`, `process_error`, `node_stopped`,
    #: `blocked`, `busy`, `too_large`, `timeout`, `interrupted`, `delivery_error`, `no_answer`, `incomplete`, `cancelled`,
    #: `budget_exceeded`, `api_error`, `authentication_error`, `permission_error`, `rate_limit_error`, `network_error`, `lost`,
    #: `internal_error`.
    error_type: Optional[str] = None
    #: Hint on how to solve the problem.
    hint: Optional[str] = None
    #: Text on the terminal's screen, if it explains the error.
    screen: Optional[str] = None
    #: Choices of the dialog that blocks the node, if there is one.
    choices: List[str] = field(default_factory=list)
    #: Delivery of the prompt, if the execution failed. One of `unsent`, `typed`, `submitted`, `started`.
    delivery: Optional[str] = None
    #: The part of the answer that arrived before the execution failed.
    text: Optional[str] = None
    #: Delivery of the webhook, if one was requested.
    webhook: Optional[Dict[str, Any]] = None


@dataclass(frozen=True)
class SessionInfo:
    """Description of a session."""

    #: Name of the session, unique on the server.
    name: str
    #: Description for users.
    description: str = ""
    #: Labels of the session.
    tags: List[str] = field(default_factory=list)
    #: Ids of its nodes, including those that are not running.
    nodes: List[str] = field(default_factory=list)
    #: Ids of those nodes that are stopped and can be started again.
    stopped: List[str] = field(default_factory=list)
    #: Ids of its graphs.
    graphs: List[str] = field(default_factory=list)
    #: Time of creation.
    created_at: str = "1970-01-01T00:00:00.000Z"
    #: Limits of all its nodes together, and their usage.
    budget: Optional[Dict[str, Any]] = None


@dataclass(frozen=True)
class NotDone:
    """A node that could not be started or stopped."""

    #: Id of the node.
    node_id: str
    #: Error message.
    error: str
    #: Kind of error. One of `invalid_request_error`, `not_found_error`, `already_exists_error`, `process_error`, `node_stopped`,
    #: `blocked`, `busy`, `too_large`, `timeout`, `interrupted`, `delivery_error`, `no_answer`, `incomplete`, `cancelled`,
    #: `budget_exceeded`, `api_error`, `authentication_error`, `permission_error`, `rate_limit_error`, `network_error`, `lost`,
    #: `internal_error`.
    error_type: str = "unknown"
    #: Hint on how to solve the problem.
    hint: Optional[str] = None


@dataclass(frozen=True)
class Lifecycle:
    """Reply to START_SESSION and STOP_SESSION."""

    #: Ids of the nodes that were started or stopped.
    nodes: List[str]
    #: Nodes that could not be started or stopped.
    failed: List[NotDone] = field(default_factory=list)


@dataclass(frozen=True)
class NodesPruned:
    """Reply to PRUNE_NODES."""

    #: Ids of the removed nodes.
    removed: List[str]


@dataclass(frozen=True)
class RestoredNode:
    """A node that was started again after its server or its machine went down, or could not be."""

    #: Id of the node.
    node_id: str
    #: Session of the node.
    session_id: str
    #: Error message of a node that could not be started.
    error: Optional[str] = None
    #: Kind of error. One of `invalid_request_error`, `not_found_error`, `already_exists_error`, `process_error`, `node_stopped`,
    #: `blocked`, `busy`, `too_large`, `timeout`, `interrupted`, `delivery_error`, `no_answer`, `incomplete`, `cancelled`,
    #: `budget_exceeded`, `api_error`, `authentication_error`, `permission_error`, `rate_limit_error`, `network_error`, `lost`,
    #: `internal_error`.
    error_type: Optional[str] = None
    #: Hint on how to solve the problem.
    hint: Optional[str] = None


@dataclass(frozen=True)
class GraphInfo:
    """A registered graph. Reply to CREATE_GRAPH and GET_GRAPH."""

    #: Id of the graph.
    graph_id: str
    #: Session of the graph.
    session_id: str = ""
    #: Ids of its steps in a valid order of execution.
    steps: List[str] = field(default_factory=list)
    #: Definition of the graph, as in a graph file. Absent in lists.
    definition: Any = None


@dataclass(frozen=True)
class PlannedStep:
    """A step as the graph defines it, started or not."""

    #: Id of the step.
    step_id: str
    #: Id of its node; empty for a gate.
    node_id: str = ""
    #: Steps that must be done before this one.
    depends_on: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class RunStep:
    """A step of a run."""

    #: Path of the step.
    step_id: str
    #: State of the step. One of `queued`, `running`, `waiting`, `completed`, `reused`, `skipped`, `failed`, `cancelled`.
    state: str
    #: Id of its node; empty if it has none.
    node_id: str = ""
    #: Start time.
    started_at: str = "1970-01-01T00:00:00.000Z"
    #: End time.
    ended_at: Optional[str] = None
    #: Number of the attempt, from 1.
    attempt: int = 0
    #: Tokens used by the step.
    tokens_used: int = 0
    #: Error message, if the step failed.
    error: Optional[str] = None
    #: Kind of error. One of `invalid_request_error`, `not_found_error`, `already_exists_error`, `process_error`, `node_stopped`,
    #: `blocked`, `busy`, `too_large`, `timeout`, `interrupted`, `delivery_error`, `no_answer`, `incomplete`, `cancelled`,
    #: `budget_exceeded`, `api_error`, `authentication_error`, `permission_error`, `rate_limit_error`, `network_error`, `lost`,
    #: `internal_error`.
    error_type: Optional[str] = None
    #: Hint on how to solve the problem.
    hint: Optional[str] = None


@dataclass(frozen=True)
class Gate:
    """A gate that waits for an answer."""

    #: Path of the step.
    step_id: str
    #: Question to the user.
    question: str
    #: Accepted answers; any text if empty.
    choices: List[str] = field(default_factory=list)
    #: Answer that is used after the deadline.
    default: Optional[str] = None
    #: Deadline for the answer.
    deadline_at: Optional[str] = None


@dataclass(frozen=True)
class RunInfo:
    """Current state of a run. Reply to GET_RUN and ANSWER_GATE, and to EXECUTE_GRAPH, RUN_GRAPH and RESUME_RUN with `detach`."""

    #: Id of the run.
    run_id: str
    #: Id of the graph.
    graph_id: str
    #: State of the run. One of `running`, `waiting`, `completed`, `failed`, `cancelled`, `interrupted`.
    state: str
    #: Session that provides the nodes not defined by the graph.
    session_id: str = ""
    #: Start time.
    started_at: str = "1970-01-01T00:00:00.000Z"
    #: End time.
    ended_at: Optional[str] = None
    #: Number of steps in the graph itself, without subgraphs.
    total_steps: int = 0
    #: Number of those steps that are completed or skipped.
    done_steps: int = 0
    #: Started steps in the order of their start; in large runs only the latest. Absent in lists of runs and for interrupted runs.
    steps: List[RunStep] = field(default_factory=list)
    #: Gates that wait for an answer.
    gates: List[Gate] = field(default_factory=list)
    #: Tokens used so far.
    tokens_used: int = 0
    #: Error message, if the run failed.
    error: Optional[str] = None
    #: Kind of error. One of `invalid_request_error`, `not_found_error`, `already_exists_error`, `process_error`, `node_stopped`,
    #: `blocked`, `busy`, `too_large`, `timeout`, `interrupted`, `delivery_error`, `no_answer`, `incomplete`, `cancelled`,
    #: `budget_exceeded`, `api_error`, `authentication_error`, `permission_error`, `rate_limit_error`, `network_error`, `lost`,
    #: `internal_error`.
    error_type: Optional[str] = None
    #: Hint on how to solve the problem.
    hint: Optional[str] = None
    #: Path of the journal on the server's machine.
    journal: Optional[str] = None
    #: Problems that do not stop the run.
    faults: List[str] = field(default_factory=list)
    #: Steps of the graph itself, in the order of its file, if `plan` was requested.
    plan: List[PlannedStep] = field(default_factory=list)
    #: Result of the step `result_of`; absent while it has none.
    result: Any = None


@dataclass(frozen=True)
class RunEnded:
    """A finished run with its results. Reply to EXECUTE_GRAPH, RUN_GRAPH and RESUME_RUN. If the run failed or was cancelled, the `data`
    of the error contains it.
    """

    #: Id of the graph.
    graph_id: str
    #: Id of the run.
    run_id: str
    #: State: `completed`, `failed` or `cancelled`.
    state: str
    #: Results of the steps by id, nested like the graphs. A run that failed contains partial results.
    results: Dict[str, Any] = field(default_factory=dict)
    #: Start time.
    started_at: str = "1970-01-01T00:00:00.000Z"
    #: End time.
    ended_at: Optional[str] = None
    #: Tokens used by all steps.
    tokens_used: int = 0
    #: Path of the journal on the server's machine.
    journal: Optional[str] = None
    #: Problems that did not stop the run.
    faults: List[str] = field(default_factory=list)
    #: Trace, if requested: `graph_id`, `state`, `started_at`, `ended_at`, `duration_ms`, `steps`, `total_tokens`, `total_cost_usd`,
    #: `error`, `error_type`, `hint`.
    trace: Any = None


@dataclass(frozen=True)
class Pong:
    """Reply to PING."""

    #: Always true.
    pong: bool
    #: Number of nodes.
    nodes: int = 0
    #: Number of graphs.
    graphs: int = 0
    #: Number of sessions.
    sessions: int = 0
    #: Version of the server.
    version: str = ""


@dataclass(frozen=True)
class Event:
    """An event as a client reads it, also of a type that this version does not know."""

    #: Type of the event: the name of an `EventType`, or an unknown name from a newer server.
    event_type: str
    #: Id of the node, if the event concerns one.
    node_id: Optional[str] = None
    #: Older name of `node_id`; only in events under an older name.
    channel_id: Optional[str] = None
    #: Session of the node.
    session_id: Optional[str] = None
    #: Details of the event; `{}` if there are none.
    data: Dict[str, Any] = field(default_factory=dict)
    #: Time of the event.
    emitted_at: str = "1970-01-01T00:00:00.000Z"
    #: The time in seconds since the Unix epoch; only in events under an older name.
    timestamp: Optional[float] = None
    #: Sequence number of the event on this server, from 1; 0 if the server does not count events.
    seq: int = 0


@dataclass(frozen=True)
class RecordedExit:
    """Exit status of a program: `code` or `signal`, or neither if the status is not available."""

    #: Exit code.
    code: Optional[int] = None
    #: Number of the signal that terminated the program.
    signal: Optional[int] = None


@dataclass(frozen=True)
class RecordingInfo:
    """A recording on the server's machine."""

    #: Id: the file name without extension.
    recording_id: str = ""
    #: Path of the recording.
    path: str = ""
    #: Time of the last write to the file (RFC 3339); null if unknown.
    written_at: Optional[str] = None
    #: Start time (RFC 3339); null if unknown.
    started_at: Optional[str] = None
    #: Duration in milliseconds; null if unknown.
    duration_ms: Optional[int] = None
    #: Size on disk in bytes, with the files that belong to the recording.
    bytes: int = 0
    #: Columns of the terminal at the start; null if unknown.
    cols: Optional[int] = None
    #: Rows of the terminal at the start; null if unknown.
    rows: Optional[int] = None
    #: Program and arguments; empty if unknown.
    command: List[str] = field(default_factory=list)
    #: Working directory of the program; null if unknown.
    cwd: Optional[str] = None
    #: Node whose terminal it is; null if unknown.
    node_id: Optional[str] = None
    #: Session of the node; null if unknown.
    session_id: Optional[str] = None
    #: Server that created the node; null if unknown.
    server_name: Optional[str] = None
    #: Profile of the agent; null if unknown.
    profile: Optional[str] = None
    #: Id of the agent's conversation, as last reported; null if unknown.
    conversation_id: Optional[str] = None
    #: Exit status of the program; null while it runs, or if unknown.
    exit: Optional[RecordedExit] = None
    #: Number of snapshots.
    snapshots: int = 0
    #: True while it is being recorded.
    live: bool = False
    #: True if it contains nothing yet: it has just begun, or its recorder died at once.
    empty: bool = False


@dataclass(frozen=True)
class PrunedRecording:
    """A recording that was removed."""

    #: Id of the recording.
    recording_id: str = ""
    #: Path of the recording.
    path: str = ""
    #: Size on disk in bytes.
    bytes: int = 0
    #: Rule that selected it. One of `age`, `size`.
    reason: str = "unknown"


@dataclass(frozen=True)
class PrunedBranch:
    """The folder of a branch after PRUNE_RECORDINGS."""

    #: Path of the folder.
    path: str = ""
    #: True if it was removed, or with `dry_run` would be.
    removed: bool = False
    #: Reason why the folder was kept, or a note on its removal.
    why: Optional[str] = None
    #: True if the folder was kept because a node or a recording needs it.
    needed: bool = False
    #: True if the folder was kept although nothing needs it; `force` removes it.
    orphaned: bool = False


@dataclass(frozen=True)
class RecordingsPruned:
    """Reply to PRUNE_RECORDINGS: what was removed, or with `dry_run` what would be."""

    #: Recordings that were removed.
    removed: List[PrunedRecording] = field(default_factory=list)
    #: Their total size in bytes.
    bytes: int = 0
    #: Folders of branches, also those that were kept.
    branches: List[PrunedBranch] = field(default_factory=list)
    #: Number of recordings before.
    total: int = 0
    #: True if nothing was removed because the request was a dry run.
    dry_run: bool = False


@dataclass(frozen=True)
class TimelineTurn:
    """A turn in a `RecordingTimeline`."""

    #: Number of the turn in the transcript of the node, or of the recording if that was requested.
    turn: int = 0
    #: Time of the prompt.
    at_ms: int = 0
    #: Beginning of the prompt, at most 200 characters.
    prompt: str = ""


@dataclass(frozen=True)
class TimelineSnapshot:
    """A snapshot in a `RecordingTimeline`."""

    #: Number of the snapshot.
    snapshot_id: int = 0
    #: Time of the snapshot.
    at_ms: int = 0
    #: Output bytes before it.
    anchor_byte: int = 0
    #: Label.
    label: Optional[str] = None
    #: True if its files are stored.
    has_files: bool = False


@dataclass(frozen=True)
class TimelineDialog:
    """A dialog in a `RecordingTimeline`."""

    #: Time of the answer.
    at_ms: int = 0
    #: Kind of the dialog.
    dialog: str = ""
    #: The choice; null if the dialog was closed without one.
    choice: Optional[str] = None


@dataclass(frozen=True)
class TimelineSize:
    """A size of the terminal in a `RecordingTimeline`."""

    #: Time from which on it applies.
    at_ms: int = 0
    #: Columns.
    cols: int = 0
    #: Rows.
    rows: int = 0


@dataclass(frozen=True)
class RecordingDamage:
    """A damaged part of a recording."""

    #: Time of the last record before it; null if unknown.
    at_ms: Optional[int] = None
    #: Output bytes before it; null if unknown.
    offset: Optional[int] = None
    #: Missing bytes of output; null if unknown.
    missing: Optional[int] = None
    #: The kind of damage, with the range of the file.
    reason: str = ""


@dataclass(frozen=True)
class RecordingTimeline:
    """An overview of a recording."""

    #: Id of the recording.
    recording_id: str = ""
    #: Node whose terminal it is; null if unknown.
    node_id: Optional[str] = None
    #: Session of the node; null if unknown.
    session_id: Optional[str] = None
    #: Start of the recording (RFC 3339, UTC): the zero of all times; null without output.
    started_at: Optional[str] = None
    #: Time of the latest output, input or resize.
    duration_ms: int = 0
    #: Bytes of output.
    end_offset: int = 0
    #: True while it is being recorded.
    live: bool = False
    #: False if the rest of a long recording has not been read yet: a further request continues.
    is_complete: bool = False
    #: Bytes of the file that have been read.
    read_bytes: int = 0
    #: Bytes of the file.
    file_bytes: int = 0
    #: Duration of a slice of `activity` in milliseconds.
    slice_ms: int = 0
    #: Bytes of output in each slice, at most 500 slices.
    activity: List[int] = field(default_factory=list)
    #: The turns that began while it was recorded and whose time is known, oldest first: the newest 2000.
    turns: List[TimelineTurn] = field(default_factory=list)
    #: The snapshots, in the order in which they were taken: the newest 2000.
    snapshots: List[TimelineSnapshot] = field(default_factory=list)
    #: The dialogs that were answered, oldest first: the newest 2000.
    dialogs: List[TimelineDialog] = field(default_factory=list)
    #: The sizes of the terminal: the first 1000.
    sizes: List[TimelineSize] = field(default_factory=list)
    #: The damaged parts of the file: the first 1000.
    damage: List[RecordingDamage] = field(default_factory=list)
    #: Reasons why something is missing.
    notes: List[str] = field(default_factory=list)
    #: Changes with everything else in the reply: the `since` of a request that waits for a change.
    version: str = ""


@dataclass(frozen=True)
class RecordedTerminal:
    """A recorded terminal at a position."""

    #: Output bytes before the position.
    offset: int = 0
    #: Time of the last record before the position.
    at_ms: int = 0
    #: Columns.
    cols: int = 0
    #: Rows.
    rows: int = 0
    #: Bytes that recreate the terminal in a new one of this size, in Base64 (RFC 4648, section 4).
    dump: str = ""


@dataclass(frozen=True)
class RecordedChunk:
    """Output or a resize: it has `data`, or `cols` and `rows`."""

    #: Time, which never decreases.
    at_ms: int = 0
    #: Output bytes before it.
    offset: int = 0
    #: The output in Base64 (RFC 4648, section 4).
    data: Optional[str] = None
    #: Columns of the resized terminal.
    cols: Optional[int] = None
    #: Rows of the resized terminal.
    rows: Optional[int] = None


@dataclass(frozen=True)
class RecordedOutput:
    """The terminal of a recording at a position, and the output that follows."""

    #: Id of the recording.
    recording_id: str = ""
    #: False if a long recording has to be indexed first: the same request continues, and has no output yet.
    is_ready: bool = False
    #: Part of the file that is indexed, from 0 to 1, if `is_ready` is false.
    indexed: Optional[float] = None
    #: The terminal at the position; null with `output_only`.
    terminal: Optional[RecordedTerminal] = None
    #: The output after the position, and the resizes between it, in order.
    chunks: List[RecordedChunk] = field(default_factory=list)
    #: Offset of the next page.
    next_offset: int = 0
    #: True if the recording ends with this page. A live one continues.
    is_end: bool = False
    #: The damaged parts of the file in this page.
    damage: List[RecordingDamage] = field(default_factory=list)


@dataclass(frozen=True)
class RecordingFile:
    """A range of a recording's file."""

    #: Id of the recording.
    recording_id: str = ""
    #: Length of the whole file in bytes.
    file_bytes: int = 0
    #: Bytes of the file before the range.
    offset: int = 0
    #: The bytes in Base64 (RFC 4648, section 4); empty behind the end of the file.
    data: str = ""
    #: CRC-32C (RFC 3720, appendix B.4) of the bytes.
    checksum: int = 0
    #: True while it is being recorded.
    live: bool = False
    #: Text of the file with its metadata (JSON), if the range reaches the end; null if there is none.
    metadata: Optional[str] = None
    #: Text of the file with its snapshots (a line of JSON each), if the range reaches the end; null if there is none.
    snapshots: Optional[str] = None


@dataclass(frozen=True)
class SnapshotFiles:
    """Reference to the files of a snapshot."""

    #: Provider: `git`, `copy` or `reflink`.
    provider: str = "unknown"
    #: Directory whose files were stored; null if only the copy is known, because its recording is gone.
    source: Optional[str] = None
    #: Reference of the provider: a git reference, or the name of the copy.
    reference: str = ""


@dataclass(frozen=True)
class SnapshotInfo:
    """A snapshot of a recorded session."""

    #: Number of the snapshot in its recording.
    snapshot_id: int = 0
    #: Id of the recording.
    recording_id: str = ""
    #: Time of the snapshot; null if its recording is gone.
    taken_at: Optional[str] = None
    #: Output offset of the snapshot, in bytes; null if its recording is gone.
    anchor_byte: Optional[int] = None
    #: Label.
    label: Optional[str] = None
    #: Stored files, if any.
    files: Optional[SnapshotFiles] = None


@dataclass(frozen=True)
class SnapshotTaken:
    """Reply to TAKE_SNAPSHOT."""

    #: Number of the snapshot in its recording.
    snapshot_id: int = 0
    #: Id of the recording.
    recording_id: str = ""
    #: Label.
    label: Optional[str] = None
    #: Output offset of the snapshot, in bytes.
    anchor_byte: int = 0
    #: Time of the snapshot.
    taken_at: str = "1970-01-01T00:00:00.000Z"
    #: Stored files; null with `no_files`.
    files: Optional[SnapshotFiles] = None
    #: Files that could not be stored, with the reason.
    left_out: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class SnapshotRestored:
    """Reply to RESTORE_SNAPSHOT."""

    #: Number of the snapshot in its recording.
    snapshot_id: int
    #: Id of the recording.
    recording_id: str
    #: Directory that has the files.
    to: str
    #: Stored files of the snapshot.
    files: SnapshotFiles
    #: Files that could not be restored, with the reason.
    left_out: List[str]


@dataclass(frozen=True)
class BranchSnapshot:
    """The snapshot that a branch continues."""

    #: Number of the snapshot in its recording.
    snapshot_id: int = 0
    #: Label.
    label: Optional[str] = None
    #: Time of the snapshot.
    taken_at: str = "1970-01-01T00:00:00.000Z"
    #: Output offset of the snapshot, in bytes.
    anchor_byte: int = 0


@dataclass(frozen=True)
class BranchFiles:
    """The files of a branch."""

    #: Provider: `git`, `copy` or `reflink`.
    provider: str = "unknown"
    #: Directory whose files were stored.
    source: str = ""
    #: Reference of the provider.
    reference: str = ""
    #: Directory that has the files now.
    to: str = ""


@dataclass(frozen=True)
class BranchEnvironment:
    """Names of the variables of a branch's node."""

    #: Variables of the request.
    given: List[str] = field(default_factory=list)
    #: Variables inherited from the recorded node; null if unknown.
    taken_over: Optional[List[str]] = None
    #: Variables of the recorded node whose values are unknown; null if unknown.
    missing: Optional[List[str]] = None


@dataclass(frozen=True)
class BranchCreated:
    """Reply to CREATE_BRANCH: the branch, or with `dry_run` its plan."""

    #: Conversation of the new node.
    conversation: Dict[str, Any]
    #: Program and arguments.
    command: List[str]
    #: Working directory of the new node.
    cwd: str
    #: Id of the new node.
    node_id: str
    #: Name of the server.
    server_name: str
    #: Environment of the new node.
    environment: BranchEnvironment
    #: Files that could not be restored, with the reason.
    left_out: List[str]
    #: Id of the recording that is continued; null for an unrecorded session.
    recording_id: Optional[str] = None
    #: Snapshot that is continued; null at the end of a recording without a snapshot.
    snapshot: Optional[BranchSnapshot] = None
    #: Restored files; null with `in_place`.
    files: Optional[BranchFiles] = None
    #: Session of the new node; null for the default session.
    session_id: Optional[str] = None
    #: Proxy of the new node: `given` in the request, or the kind of the inherited one.
    proxy: Optional[str] = None
    #: Git branch of the files, if any.
    git_branch: Optional[str] = None
    #: True if nothing was created.
    dry_run: Optional[bool] = None
    #: Instruction of the request, with `dry_run`.
    instruction: Optional[str] = None
    #: Response of the agent, if it was awaited.
    response: Optional[Response] = None


@dataclass(frozen=True)
class BranchInfo:
    """A folder with the files of a branch."""

    #: Path of the folder.
    path: str = ""
    #: Time of creation; null if unknown.
    created_at: Optional[str] = None
    #: Id of the recording that the branch continues; null if unknown.
    recording_id: Optional[str] = None
    #: Number of the snapshot, if any.
    snapshot_id: Optional[int] = None
    #: Directory whose files were stored; null if unknown.
    source: Optional[str] = None
    #: Git branch of the files, if any.
    git_branch: Optional[str] = None
    #: Node or host that works in the folder.
    used_by: Optional[str] = None
    #: Recordings that need the folder: its source, and those made in it.
    recordings: List[str] = field(default_factory=list)
    #: True if files have changed since the branch was created; null if unknown.
    changed: Optional[bool] = None
    #: Description of the changes, or why they are unknown.
    changes: Optional[str] = None


@dataclass(frozen=True)
class BranchDeleted:
    """Reply to DELETE_BRANCH."""

    #: Path of the folder that was removed.
    path: str = ""
    #: Note on the removal: a git branch with commits of its own is kept.
    note: Optional[str] = None
