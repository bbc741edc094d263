"""What a server answers, as frozen dataclasses. Times are seconds since the Unix epoch.

Fields that a newer server adds are passed over; one that is missing and has no default, or is of another type, is a `ProtocolError`.
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
    """Makes a `cls` of a JSON object.

    Raises `ProtocolError` where it does not fit.
    """
    if not isinstance(data, Mapping):
        raise ProtocolError(f"{cls.__name__}: the server sent {type(data).__name__} instead of an object")
    values: Dict[str, Any] = {}
    for spec in dataclasses.fields(cls):  # type: ignore[arg-type]
        value = data.get(spec.name)
        if value is not None:
            values[spec.name] = _value(cls, spec, value)
        elif spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING:
            raise ProtocolError(f"{cls.__name__}: {spec.name} is missing in what the server sent")
    return cls(**values)


def _value(cls: type, spec: dataclasses.Field[Any], value: Any) -> Any:
    read: Optional[Callable[[Any], Any]] = spec.metadata.get("read")
    if read is not None:
        return read(value)
    kind = str(spec.type).replace("Optional[", "").split("[")[0].rstrip("]")
    allowed = _PLAIN.get(kind)
    # In Python true and false are numbers.
    wrong_bool = isinstance(value, bool) and kind in ("int", "float")
    if allowed is not None and (wrong_bool or not isinstance(value, allowed)):
        raise ProtocolError(f"{cls.__name__}: {spec.name} is {type(value).__name__}, not {kind}")
    return value


def _one(cls: Type[T]) -> Dict[str, Callable[[Any], T]]:
    return {"read": lambda value: from_wire(cls, value)}


def _many(cls: Type[T]) -> Dict[str, Callable[[Any], List[T]]]:
    return {"read": lambda value: list_of(cls, value)}


def list_of(cls: Type[T], data: object) -> List[T]:
    """The same for a list of objects."""
    if not isinstance(data, list):
        raise ProtocolError(f"{cls.__name__}: the server sent {type(data).__name__} instead of a list")
    return [from_wire(cls, value) for value in data]


@dataclass(frozen=True)
class NodeInfo:
    """What is known of a node."""

    id: str
    #: `pty`, `bash`, `chat` …
    type: str
    #: `created`, `starting`, `ready`, `busy`, `blocked`, `suspended`, `stopping`, `stopped`.
    state: str
    #: Keeps state between executions.
    persistent: bool = False
    #: Facts for people: command, cwd, pid, profile, size …
    metadata: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """A part of an answer."""

    #: `text`, `thinking`, `tool_call`, `error`, `interrupted`.
    type: str
    content: str = ""
    #: `tool`, `args`, `result` … where known.
    metadata: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tokens:
    """Tokens, as far as they are known."""

    input: Optional[int] = None
    output: Optional[int] = None
    total: Optional[int] = None


@dataclass(frozen=True)
class Response:
    """A finished turn. `str()` of it is its text."""

    #: What the agent said.
    text: str = ""
    #: All text of the turn as the terminal showed it.
    raw: str = ""
    sections: List[Section] = field(default_factory=list, metadata=_many(Section))
    tokens: Optional[Tokens] = field(default=None, metadata=_one(Tokens))
    #: The end of the turn was seen.
    is_complete: bool = False
    #: The node waits for the next prompt.
    is_ready: bool = False
    #: Where the text comes from: `transcript`, `screen`, `process`, `api`.
    source: str = ""
    #: How far the prompt is proved to have come: `unknown`, `typed`, `submitted`, `started`.
    delivery: str = ""
    #: The node did what it was asked.
    success: bool = False
    error: Optional[str] = None
    error_type: Optional[str] = None
    #: The same as `text`, under the first nerve's name.
    output: str = ""
    #: More facts: `ended_by`, `exit_code`, `stdout`, `stderr` …
    attributes: Dict[str, Any] = field(default_factory=dict)
    #: The node that gave it.
    node_id: str = ""
    #: Number of the turn on this node, from 1; 0 where it is not known.
    turn: int = 0

    def __str__(self) -> str:
        return self.text


def response_of(data: object) -> Response:
    """The `Response` in the data of an execution, with its node and turn."""
    if not isinstance(data, Mapping):
        raise ProtocolError(f"Response: the server sent {type(data).__name__} instead of an object")
    response = from_wire(Response, data.get("response"))
    return dataclasses.replace(response, node_id=str(data.get("node_id") or ""), turn=int(data.get("turn") or 0))


@dataclass(frozen=True)
class RunningTurn:
    """A turn that runs."""

    turn: int
    #: As in `Response`.
    delivery: str = "unknown"


@dataclass(frozen=True)
class Explanation:
    """A node's state, and what it rests on."""

    node_id: str
    state: str
    #: In words.
    evidence: str = ""
    #: Kind of signal: `hook`, `mark`, `title`, `foreground`, `screen`, `quiet`, `exit`.
    source: str = ""
    #: The byte offset at which it was seen.
    offset: int = 0
    #: Choices of the dialog, if blocked.
    choices: List[str] = field(default_factory=list)
    #: What the terminal shows.
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
    #: Why there are none, or not all.
    note: Optional[str] = None


@dataclass(frozen=True)
class Result:
    """An execution that nobody waits for."""

    result_id: str
    node_id: str
    #: `queued`, `running`, `done`, `failed`, or `lost`: its server ended before it did.
    status: str
    session_id: str = ""
    #: How the prompt begins.
    prompt: str = ""
    created_at: float = 0.0
    started_at: Optional[float] = None
    ended_at: Optional[float] = None
    turn: Optional[int] = None
    #: The answer. Not in lists.
    response: Optional[Response] = field(default=None, metadata=_one(Response))
    error: Optional[str] = None
    error_type: Optional[str] = None
    hint: Optional[str] = None
    screen: Optional[str] = None
    choices: List[str] = field(default_factory=list)
    delivery: Optional[str] = None
    #: Who is told over HTTP, and what came of it.
    webhook: Optional[Dict[str, Any]] = None


@dataclass(frozen=True)
class SessionInfo:
    """What is known of a session."""

    name: str
    description: str = ""
    tags: List[str] = field(default_factory=list)
    #: Ids of its nodes, those that do not run too.
    nodes: List[str] = field(default_factory=list)
    graphs: List[str] = field(default_factory=list)
    created_at: float = 0.0


@dataclass(frozen=True)
class NotDone:
    """A node that could not be started or stopped with the others."""

    node_id: str
    error: str


@dataclass(frozen=True)
class Lifecycle:
    """What starting or stopping a session did."""

    #: Nodes that were started or stopped.
    nodes: List[str] = field(default_factory=list)
    failed: List[NotDone] = field(default_factory=list, metadata=_many(NotDone))


@dataclass(frozen=True)
class GraphInfo:
    """A registered graph."""

    graph_id: str
    session_id: str = ""
    #: Ids of its steps, in an order in which they can run.
    steps: List[str] = field(default_factory=list)
    #: As a graph file has it. Not in lists.
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
    """A step that waits for a person's answer."""

    step_id: str
    question: str
    #: What may be answered; anything if empty.
    choices: List[str] = field(default_factory=list)
    default: Optional[str] = None
    deadline: Optional[float] = None


@dataclass(frozen=True)
class RunInfo:
    """A run as it is now."""

    run_id: str
    graph_id: str
    #: `running`, `waiting`, `completed`, `failed`, `cancelled`, or `interrupted`: its server is gone.
    status: str
    session_id: str = ""
    started_at: float = 0.0
    ended_at: Optional[float] = None
    total_steps: int = 0
    done_steps: int = 0
    #: Those that have begun. Not in lists of runs.
    steps: List[RunStep] = field(default_factory=list, metadata=_many(RunStep))
    gates: List[Gate] = field(default_factory=list, metadata=_many(Gate))
    tokens_used: int = 0
    error: Optional[str] = None
    #: The file of its journal, on the server's machine.
    journal: Optional[str] = None
    faults: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class RunEnded:
    """A run that has ended, with what came of it."""

    graph_id: str
    run_id: str
    status: str
    #: Results of the steps by id, nested as the graphs are.
    results: Dict[str, Any] = field(default_factory=dict)
    started_at: float = 0.0
    ended_at: Optional[float] = None
    tokens_used: int = 0
    journal: Optional[str] = None
    faults: List[str] = field(default_factory=list)
    #: What was done, if it was asked for.
    trace: Optional[Any] = None


@dataclass(frozen=True)
class Pong:
    """What a server holds."""

    pong: bool
    nodes: int = 0
    graphs: int = 0
    sessions: int = 0
    version: str = ""


@dataclass(frozen=True)
class Event:
    """Something that happened on the server."""

    event_type: str
    node_id: Optional[str] = None
    session_id: Optional[str] = None
    data: Dict[str, Any] = field(default_factory=dict)
    timestamp: float = 0.0
    #: Counts up by one for each event of a server; 0 where this package made the event itself.
    seq: int = 0
