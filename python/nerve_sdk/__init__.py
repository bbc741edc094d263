"""Drives terminal AI agents through a nerve server.

    from nerve_sdk import NerveClient

    async with NerveClient.connect() as client:
        node = await client.create_node("me", command="claude")
        response = await node.execute(input="Hello!", parser="claude")
        print(response.text)
        await node.stop()

`nerve_sdk.sync` has the same names for programs without an event loop.
"""

from .client import Connecting, NerveClient
from .errors import (
    AlreadyExistsError,
    ApiError,
    AuthenticationError,
    BlockedError,
    BudgetExceededError,
    BusyError,
    ConnectionClosedError,
    DeliveryError,
    InternalError,
    InvalidRequestError,
    NerveError,
    NerveTimeoutError,
    NerveWarning,
    NetworkError,
    NodeStoppedError,
    NotFoundError,
    NotRunningError,
    PermissionDeniedError,
    ProcessError,
    ProtocolError,
    RateLimitError,
    RunCancelledError,
    ServerError,
    TooLargeError,
    TurnInterruptedError,
)
from .events import EventStream
from .node import RemoteChannel, RemoteNode
from .paths import socket_path
from .stream import ExecuteStream
from .types import (
    BranchCreated,
    BranchDeleted,
    BranchInfo,
    Event,
    Explanation,
    Gate,
    GraphInfo,
    History,
    Lifecycle,
    NodeInfo,
    NotDone,
    Pong,
    Response,
    Result,
    RunEnded,
    RunInfo,
    RunningTurn,
    RunStep,
    Section,
    SessionInfo,
    SnapshotFiles,
    SnapshotInfo,
    SnapshotRestored,
    SnapshotTaken,
    Tokens,
)

__version__ = "0.1.0"

__all__ = [
    "AlreadyExistsError",
    "ApiError",
    "AuthenticationError",
    "BlockedError",
    "BranchCreated",
    "BranchDeleted",
    "BranchInfo",
    "BudgetExceededError",
    "BusyError",
    "Connecting",
    "ConnectionClosedError",
    "DeliveryError",
    "Event",
    "EventStream",
    "ExecuteStream",
    "Explanation",
    "Gate",
    "GraphInfo",
    "History",
    "InternalError",
    "InvalidRequestError",
    "Lifecycle",
    "NerveClient",
    "NerveError",
    "NerveTimeoutError",
    "NerveWarning",
    "NetworkError",
    "NodeInfo",
    "NodeStoppedError",
    "NotDone",
    "NotFoundError",
    "NotRunningError",
    "PermissionDeniedError",
    "Pong",
    "ProcessError",
    "ProtocolError",
    "RateLimitError",
    "RemoteChannel",
    "RemoteNode",
    "Response",
    "Result",
    "RunCancelledError",
    "RunEnded",
    "RunInfo",
    "RunStep",
    "RunningTurn",
    "Section",
    "ServerError",
    "SessionInfo",
    "SnapshotFiles",
    "SnapshotInfo",
    "SnapshotRestored",
    "SnapshotTaken",
    "Tokens",
    "TooLargeError",
    "TurnInterruptedError",
    "socket_path",
]
