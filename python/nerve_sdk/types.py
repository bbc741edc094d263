"""Replies of a server as frozen dataclasses. Times are seconds since the Unix epoch.

Fields that a newer server adds are ignored. A missing field without a default, or a field of a wrong type, raises `ProtocolError`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Type, TypeVar

from .errors import ProtocolError

T = TypeVar("T")

_PLAIN: Dict[str, Tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "Dict": (dict,),
    "List": (list,),
}


def from_wire(cls: Type[T], data: object) -> T:
    """Creates a `cls` from a JSON object.

    Raises `ProtocolError` if a field is missing or has a wrong type.
    """
    if not isinstance(data, Mapping):
        raise ProtocolError(f"{cls.__name__}: the server sent {type(data).__name__} instead of an object")
    values: Dict[str, Any] = {}
    for spec in dataclasses.fields(cls):  # type: ignore[arg-type]
        value = data.get(spec.name)
        if value is not None:
            values[spec.name] = _value(cls, spec, value)
        elif spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING:
            raise ProtocolError(f"{cls.__name__}: the server sent no {spec.name}")
    return cls(**values)


def _value(cls: type, spec: dataclasses.Field[Any], value: Any) -> Any:
    read: Optional[Callable[[Any], Any]] = spec.metadata.get("read")
    if read is not None:
        return read(value)
    kind = str(spec.type).replace("Optional[", "").split("[")[0].rstrip("]")
    allowed = _PLAIN.get(kind)
    # In Python, bool is a subclass of int.
    wrong_bool = isinstance(value, bool) and kind in ("int", "float")
    if allowed is not None and (wrong_bool or not isinstance(value, allowed)):
        raise ProtocolError(f"{cls.__name__}: {spec.name} is {type(value).__name__}, not {kind}")
    return value


def _one(cls: Type[T]) -> Dict[str, Callable[[Any], T]]:
    return {"read": lambda value: from_wire(cls, value)}


def _many(cls: Type[T]) -> Dict[str, Callable[[Any], List[T]]]:
    return {"read": lambda value: list_of(cls, value)}


def list_of(cls: Type[T], data: object) -> List[T]:
    """Creates a list of `cls` from a JSON array."""
    if not isinstance(data, list):
        raise ProtocolError(f"{cls.__name__}: the server sent {type(data).__name__} instead of a list")
    return [from_wire(cls, value) for value in data]


@dataclass(frozen=True)
class NodeInfo:
    """Information about a node."""

    id: str
    #: `pty`, `bash`, `chat` …
    type: str
    #: `created`, `starting`, `ready`, `busy`, `blocked`, `suspended`, `stopping`, `stopped`.
    state: str
    #: Keeps state between executions.
    persistent: bool = False
    #: Further information: command, cwd, pid, profile, size …
    metadata: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """A part of an answer."""

    #: `text`, `thinking`, `tool_call`, `error`, `interrupted`.
    type: str
    content: str = ""
    #: `tool`, `args`, `result` … if known.
    metadata: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tokens:
    """Token counts, if known."""

    input: Optional[int] = None
    output: Optional[int] = None
    total: Optional[int] = None


@dataclass(frozen=True)
class Response:
    """A finished turn. `str()` returns its text."""

    #: The agent's answer.
    text: str = ""
    #: All terminal text of the turn.
    raw: str = ""
    sections: List[Section] = field(default_factory=list, metadata=_many(Section))
    tokens: Optional[Tokens] = field(default=None, metadata=_one(Tokens))
    #: The end of the turn was detected.
    is_complete: bool = False
    #: The node waits for the next prompt.
    is_ready: bool = False
    #: Source of the text: `transcript`, `screen`, `process`, `api`.
    source: str = ""
    #: Confirmed delivery of the prompt: `unknown`, `typed`, `submitted`, `started`.
    delivery: str = ""
    #: The task succeeded.
    success: bool = False
    error: Optional[str] = None
    error_type: Optional[str] = None
    #: Deprecated name of `text`.
    output: str = ""
    #: Further information: `ended_by`, `exit_code`, `stdout`, `stderr` …
    attributes: Dict[str, Any] = field(default_factory=dict)
    #: The node that answered.
    node_id: str = ""
    #: Number of the turn on this node, from 1; 0 if unknown.
    turn: int = 0

    def __str__(self) -> str:
        return self.text


def response_of(data: object) -> Response:
    """Returns the `Response` in the data of an execution, with its node and turn."""
    if not isinstance(data, Mapping):
        raise ProtocolError(f"Response: the server sent {type(data).__name__} instead of an object")
    response = from_wire(Response, data.get("response"))
    return dataclasses.replace(response, node_id=str(data.get("node_id") or ""), turn=int(data.get("turn") or 0))


@dataclass(frozen=True)
class RunningTurn:
    """A running turn."""

    turn: int
    #: As in `Response`.
    delivery: str = "unknown"


@dataclass(frozen=True)
class Explanation:
    """A node's state and its evidence."""

    node_id: str
    state: str
    #: The observation behind the state.
    evidence: str = ""
    #: Kind of signal: `hook`, `mark`, `title`, `foreground`, `screen`, `quiet`, `exit`.
    source: str = ""
    #: Output byte offset of the signal.
    offset: int = 0
    #: Choices of the dialog, if blocked.
    choices: List[str] = field(default_factory=list)
    #: The terminal's screen.
    screen: str = ""
    turn: Optional[RunningTurn] = field(default=None, metadata=_one(RunningTurn))
    metadata: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class History:
    """Entries of a node's audit log, oldest first."""

    node_id: str
    entries: List[Dict[str, Any]]
    total: int
    server_name: str = ""
    #: Why entries are missing.
    note: Optional[str] = None


@dataclass(frozen=True)
class Result:
    """An asynchronous execution."""

    result_id: str
    node_id: str
    #: `queued`, `running`, `done`, `failed`, or `lost` (its server ended first).
    status: str
    session_id: str = ""
    #: Beginning of the prompt.
    prompt: str = ""
    created_at: float = 0.0
    started_at: Optional[float] = None
    ended_at: Optional[float] = None
    turn: Optional[int] = None
    #: The answer; omitted in lists.
    response: Optional[Response] = field(default=None, metadata=_one(Response))
    error: Optional[str] = None
    error_type: Optional[str] = None
    hint: Optional[str] = None
    screen: Optional[str] = None
    choices: List[str] = field(default_factory=list)
    delivery: Optional[str] = None
    #: The webhook and its delivery status.
    webhook: Optional[Dict[str, Any]] = None


@dataclass(frozen=True)
class SessionInfo:
    """Information about a session."""

    name: str
    description: str = ""
    tags: List[str] = field(default_factory=list)
    #: Ids of its nodes, including stopped ones.
    nodes: List[str] = field(default_factory=list)
    graphs: List[str] = field(default_factory=list)
    created_at: float = 0.0


@dataclass(frozen=True)
class NotDone:
    """A node that failed to start or stop with its session."""

    node_id: str
    error: str


@dataclass(frozen=True)
class Lifecycle:
    """Outcome of starting or stopping a session."""

    #: Nodes that were started or stopped.
    nodes: List[str] = field(default_factory=list)
    failed: List[NotDone] = field(default_factory=list, metadata=_many(NotDone))


@dataclass(frozen=True)
class GraphInfo:
    """A registered graph."""

    graph_id: str
    session_id: str = ""
    #: Ids of its steps in topological order.
    steps: List[str] = field(default_factory=list)
    #: The definition, as in a graph file; omitted in lists.
    definition: Optional[Dict[str, Any]] = None


@dataclass(frozen=True)
class RunStep:
    """A step of a run."""

    #: Its path: `outer/inner`, `each[3]`, `loop#2`.
    step_id: str
    #: `queued`, `running`, `waiting`, `completed`, `reused`, `skipped`, `failed` or `cancelled`.
    state: str
    node_id: str = ""
    started_at: float = 0.0
    ended_at: Optional[float] = None
    #: From 1.
    attempt: int = 0
    tokens_used: int = 0
    error: Optional[str] = None


@dataclass(frozen=True)
class Gate:
    """A gate that waits for an answer."""

    step_id: str
    question: str
    #: Allowed answers; empty: any.
    choices: List[str] = field(default_factory=list)
    default: Optional[str] = None
    deadline: Optional[float] = None


@dataclass(frozen=True)
class RunInfo:
    """The current state of a run."""

    run_id: str
    graph_id: str
    #: `running`, `waiting`, `completed`, `failed`, `cancelled`, or `interrupted` (its server is gone).
    status: str
    session_id: str = ""
    started_at: float = 0.0
    ended_at: Optional[float] = None
    total_steps: int = 0
    done_steps: int = 0
    #: The started steps; omitted in lists of runs.
    steps: List[RunStep] = field(default_factory=list, metadata=_many(RunStep))
    gates: List[Gate] = field(default_factory=list, metadata=_many(Gate))
    tokens_used: int = 0
    error: Optional[str] = None
    #: Path of its journal on the server's machine.
    journal: Optional[str] = None
    faults: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class RunEnded:
    """An ended run with its results."""

    graph_id: str
    run_id: str
    status: str
    #: Results of the steps by id, nested like the graphs.
    results: Dict[str, Any] = field(default_factory=dict)
    started_at: float = 0.0
    ended_at: Optional[float] = None
    tokens_used: int = 0
    journal: Optional[str] = None
    faults: List[str] = field(default_factory=list)
    #: The trace, if requested.
    trace: Optional[Any] = None


@dataclass(frozen=True)
class SnapshotFiles:
    """Reference to the files of a snapshot."""

    #: `git`, `copy` or `reflink`.
    provider: str
    #: The directory whose files were stored.
    source: str = ""
    reference: str = ""
    #: The directory that has the files of a branch.
    to: str = ""


@dataclass(frozen=True)
class SnapshotInfo:
    """A snapshot of a recorded session."""

    #: Its number in the session.
    id: int
    #: Id of the recorded session.
    session: str = ""
    #: Nanoseconds since the Unix epoch; None if the recording is gone.
    ts_ns: Optional[int] = None
    #: Output offset in bytes; None if the recording is gone.
    anchor_byte: Optional[int] = None
    label: Optional[str] = None
    files: Optional[SnapshotFiles] = field(default=None, metadata=_one(SnapshotFiles))


@dataclass(frozen=True)
class SnapshotTaken(SnapshotInfo):
    """A new snapshot."""

    #: Files that could not be stored, with the reason.
    left_out: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class SnapshotRestored:
    """The restored files of a snapshot."""

    id: int
    session: str = ""
    #: The directory that has the files.
    to: str = ""
    files: Optional[SnapshotFiles] = field(default=None, metadata=_one(SnapshotFiles))
    #: Files that could not be restored, with the reason.
    left_out: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class BranchCreated:
    """A branch, or its plan."""

    #: The new node.
    node_id: str
    session_id: Optional[str] = None
    #: None for an unrecorded session.
    recording: Optional[str] = None
    snapshot: Optional[SnapshotInfo] = field(default=None, metadata=_one(SnapshotInfo))
    #: None with `in_place`.
    files: Optional[SnapshotFiles] = field(default=None, metadata=_one(SnapshotFiles))
    #: `kind` (`cut`, `whole` or `new`), `about`, `why` …
    conversation: Dict[str, Any] = field(default_factory=dict)
    command: List[str] = field(default_factory=list)
    cwd: str = ""
    server: str = ""
    #: Names of variables: `given`, `taken_over`, `missing`.
    environment: Dict[str, Any] = field(default_factory=dict)
    proxy: Optional[str] = None
    git_branch: Optional[str] = None
    left_out: List[str] = field(default_factory=list)
    dry_run: bool = False
    response: Optional[Response] = field(default=None, metadata=_one(Response))


@dataclass(frozen=True)
class BranchInfo:
    """A folder with the files of a branch."""

    path: str
    made_ts_ns: Optional[int] = None
    recording: Optional[str] = None
    snapshot: Optional[int] = None
    source: Optional[str] = None
    git_branch: Optional[str] = None
    #: The node or host that works in it.
    used_by: Optional[str] = None
    recordings: List[str] = field(default_factory=list)
    #: None if unknown.
    changed: Optional[bool] = None
    changes: Optional[str] = None


@dataclass(frozen=True)
class BranchDeleted:
    """A removed branch."""

    path: str
    note: Optional[str] = None


@dataclass(frozen=True)
class Pong:
    """Counts of a server's objects."""

    pong: bool
    nodes: int = 0
    graphs: int = 0
    sessions: int = 0
    version: str = ""


@dataclass(frozen=True)
class Event:
    """An event on the server."""

    event_type: str
    node_id: Optional[str] = None
    session_id: Optional[str] = None
    data: Dict[str, Any] = field(default_factory=dict)
    timestamp: float = 0.0
    #: Sequence number of the server's events; 0 for events created by this package.
    seq: int = 0
