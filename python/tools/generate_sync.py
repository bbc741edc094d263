"""Generates nerve_sdk/sync.py, the blocking client, from the asyncio client. `--check` only compares."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Iterator, List

PACKAGE = Path(__file__).resolve().parent.parent / "nerve_sdk"
TARGET = PACKAGE / "sync.py"

HEAD = '''"""The blocking client, for programs without an event loop. Generated from the asyncio client by tools/generate_sync.py.

    from nerve_sdk.sync import NerveClient

    with NerveClient.connect() as client:
        node = client.create_node("me", command="claude")
        for chunk in node.execute_stream("Hello!"):
            print(chunk, end="")
        node.stop()

Several threads may share a client. Do not use it in a coroutine: it would block the event loop.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Callable, Iterable, List, Mapping, Optional, Sequence, Type, Union

from . import client as _client
from . import node as _node
from .client import Connecting, Tls
from .node import Parser, deprecated
from .portal import EventStream, ExecuteStream, Portal
from .types import (
    BranchCreated,
    BranchDeleted,
    BranchInfo,
    Explanation,
    GraphInfo,
    History,
    Lifecycle,
    NodeInfo,
    Pong,
    RecordingInfo,
    RecordingsPruned,
    Response,
    Result,
    RunEnded,
    RunInfo,
    SearchResult,
    SessionInfo,
    SnapshotInfo,
    SnapshotRestored,
    SnapshotTaken,
    Transcript,
    UsageReport,
)

__all__ = ["EventStream", "ExecuteStream", "NerveClient", "RemoteChannel", "RemoteNode"]
'''

NODE = '''

class RemoteNode:
    """A node on a server. All methods raise the same errors as `NerveClient.request`."""

    def __init__(self, portal: Portal, inner: _node.RemoteNode) -> None:
        self._portal = portal
        self._inner = inner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner.id!r})"

    @property
    def id(self) -> str:
        """The node's id."""
        return self._inner.id

    @property
    def session_id(self) -> Optional[str]:
        """The node's session; None: the default session."""
        return self._inner.session_id
'''

CHANNEL = '''

class RemoteChannel(RemoteNode):
    """A node with its deprecated method names."""

    @property
    def channel_id(self) -> str:
        """Deprecated: `id`."""
        deprecated("RemoteChannel.channel_id", "RemoteNode.id")
        return self.id

    def send(self, input: str, parser: Optional[Parser] = None, timeout: Optional[float] = None) -> Response:
        """Deprecated: `execute`."""
        deprecated("RemoteChannel.send", "RemoteNode.execute")
        return self.execute(input, parser, timeout)

    def send_stream(self, input: str, parser: Optional[Parser] = None) -> ExecuteStream:
        """Deprecated: `execute_stream`."""
        deprecated("RemoteChannel.send_stream", "RemoteNode.execute_stream")
        return self.execute_stream(input, parser)

    def close(self) -> None:
        """Deprecated: `stop`."""
        deprecated("RemoteChannel.close", "RemoteNode.stop")
        self.stop()
'''

CLIENT = '''

class NerveClient:
    """A connection to a server. Created by `connect`, `connect_tcp`, `connect_http` or `standalone`; use `with`, or close it."""

    def __init__(self, connect: Callable[[], Connecting]) -> None:
        self._portal = Portal()
        try:
            self._inner: _client.NerveClient = self._portal.run(connect)
        except BaseException:
            self._portal.close()
            raise

    def close(self) -> None:
        """Closes the connection, and stops a `standalone` server. Can be called again."""
        if self._portal.alive:
            try:
                self._portal.run(lambda: self._inner.close())
            finally:
                self._portal.close()

    def __enter__(self) -> NerveClient:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def create_channel(
        self, channel_id: str, command: Union[str, Sequence[str], None] = None, backend: Optional[str] = None, **more: Any
    ) -> RemoteChannel:
        """Deprecated: `create_node`."""
        deprecated("NerveClient.create_channel", "NerveClient.create_node")
        return RemoteChannel(self._portal, self.create_node(channel_id, command, backend, **more)._inner)

    def get_channel(self, channel_id: str) -> RemoteChannel:
        """Deprecated: `get_node`."""
        deprecated("NerveClient.get_channel", "NerveClient.get_node")
        return RemoteChannel(self._portal, self.get_node(channel_id)._inner)

    def list_channels(self) -> List[str]:
        """Deprecated: `list_nodes`. Returns only ids."""
        deprecated("NerveClient.list_channels", "NerveClient.list_nodes")
        return [node.node_id for node in self.list_nodes()]
'''

#: Methods written by hand above.
BY_HAND = {"id", "session_id", "close", "create_channel", "get_channel", "list_channels"}
#: Return types that are wrapped.
WRAPPED = {"RemoteNode", "EventStream", "ExecuteStream"}


def main() -> int:
    """Returns 0 if the file is up to date or was written."""
    text = HEAD + NODE
    text += "".join(methods("node.py", "RemoteNode")) + CHANNEL + CLIENT
    text += "".join(methods("client.py", "NerveClient")) + "".join(methods("graphs.py", "GraphCommands"))
    text += "".join(methods("branches.py", "BranchCommands"))
    if "--check" not in sys.argv:
        TARGET.write_text(text)
    elif TARGET.read_text() != text:
        print("nerve_sdk/sync.py is out of date: run tools/generate_sync.py")
        return 1
    return 0


def methods(file: str, name: str) -> Iterator[str]:
    """Yields the blocking methods of a class."""
    tree = ast.parse((PACKAGE / file).read_text())
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    for method in found.body:
        if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        # The `request` of these two is abstract.
        inherited = name in ("GraphCommands", "BranchCommands") and method.name == "request"
        if not method.name.startswith("_") and method.name not in BY_HAND and not inherited:
            yield "\n" + blocking_method(method)


def blocking_method(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Returns the source of a blocking method."""
    returns = ast.unparse(method.returns) if method.returns else "None"
    maker = returns == "Connecting"
    lines: List[str] = []
    if maker:
        lines += ["@classmethod", *signature(method, "NerveClient")]
        body = call(f"_client.NerveClient.{method.name}", arguments(method.args), "return cls(lambda: ", ")")
    elif any(ast.unparse(decorator) == "property" for decorator in method.decorator_list):
        lines += ["@property", *signature(method, returns)]
        body = [f"return self._inner.{method.name}"]
    else:
        lines += signature(method, returns)
        how = "run" if isinstance(method, ast.AsyncFunctionDef) else "call"
        before, after = f"self._portal.{how}(lambda: ", ")"
        if returns in WRAPPED:
            before, after = f"{returns}(self._portal, {before}", "))"
        before = before if returns == "None" else "return " + before
        body = call(f"self._inner.{method.name}", arguments(method.args), before, after)
    lines += ['    """' + line if at == 0 else ("    " + line if line else "") for at, line in enumerate(doc(method))]
    lines[-1] += '"""' if len(doc(method)) == 1 else ""
    lines += [] if len(doc(method)) == 1 else ['    """']
    return "".join(f"    {line}\n" if line else "\n" for line in [*lines, *(f"    {line}" for line in body)])


def call(what: str, args: List[str], before: str, after: str) -> List[str]:
    """Returns a wrapped call, on one line if it fits."""
    whole = f"{before}{what}({', '.join(args)}){after}"
    if len(whole) <= 110:
        return [whole]
    return [f"{before}{what}(", *(f"    {arg}," for arg in args), f"){after}"]


def signature(method: ast.FunctionDef | ast.AsyncFunctionDef, returns: str) -> List[str]:
    """Returns the signature of a method, on one line if it fits."""
    whole = f"def {method.name}({', '.join(parameters(method.args))}) -> {returns}:"
    if len(whole) <= 120:
        return [whole]
    return [f"def {method.name}(", *(f"    {part}," for part in parameters(method.args)), f") -> {returns}:"]


def parameters(args: ast.arguments) -> List[str]:
    """Returns the declarations of the parameters."""
    parts: List[str] = []
    first_default = len(args.args) - len(args.defaults)
    for at, arg in enumerate(args.args):
        default = f" = {ast.unparse(args.defaults[at - first_default])}" if at >= first_default else ""
        parts.append(ast.unparse(arg) + default)
    if args.vararg:
        parts.append("*" + ast.unparse(args.vararg))
    elif args.kwonlyargs:
        parts.append("*")
    for arg, value in zip(args.kwonlyargs, args.kw_defaults):
        parts.append(ast.unparse(arg) + (f" = {ast.unparse(value)}" if value is not None else ""))
    if args.kwarg:
        parts.append("**" + ast.unparse(args.kwarg))
    return parts


def arguments(args: ast.arguments) -> List[str]:
    """Returns the arguments that pass the parameters on."""
    parts = [arg.arg for arg in args.args if arg.arg not in ("self", "cls")]
    parts += [f"*{args.vararg.arg}"] if args.vararg else []
    parts += [f"{arg.arg}={arg.arg}" for arg in args.kwonlyargs]
    return [*parts, f"**{args.kwarg.arg}"] if args.kwarg else parts


def doc(method: ast.FunctionDef | ast.AsyncFunctionDef) -> List[str]:
    """Returns the lines of the docstring."""
    return (ast.get_docstring(method) or "").splitlines()


if __name__ == "__main__":
    sys.exit(main())
