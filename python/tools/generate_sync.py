"""Writes nerve_sdk/sync.py: the methods of the asyncio client, each as one that waits. `--check` only compares."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Iterator, List

PACKAGE = Path(__file__).resolve().parent.parent / "nerve_sdk"
TARGET = PACKAGE / "sync.py"

HEAD = '''"""The same client for programs without an event loop: every call waits. Made from the asyncio client by tools/generate_sync.py.

    from nerve_sdk.sync import NerveClient

    with NerveClient.connect() as client:
        node = client.create_node("me", command="claude")
        for chunk in node.execute_stream("Hello!"):
            print(chunk, end="")
        node.stop()

A client may be used by several threads at once. Do not use it in a coroutine: it would hold up the event loop.
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
    Explanation,
    GraphInfo,
    History,
    Lifecycle,
    NodeInfo,
    Pong,
    Response,
    Result,
    RunEnded,
    RunInfo,
    SessionInfo,
)

__all__ = ["EventStream", "ExecuteStream", "NerveClient", "RemoteChannel", "RemoteNode"]
'''

NODE = '''

class RemoteNode:
    """A node on a server. All methods fail as `NerveClient.request` does."""

    def __init__(self, portal: Portal, inner: _node.RemoteNode) -> None:
        self._portal = portal
        self._inner = inner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner.id!r})"

    @property
    def id(self) -> str:
        """Its id."""
        return self._inner.id

    @property
    def session_id(self) -> Optional[str]:
        """Its session; None is the server's default one."""
        return self._inner.session_id
'''

CHANNEL = '''

class RemoteChannel(RemoteNode):
    """A node under its older names, each of which warns."""

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
    """A connection to a server. Made by `connect`, `connect_tcp`, `connect_http` or `standalone`; use it with `with`, or close it."""

    def __init__(self, connect: Callable[[], Connecting]) -> None:
        self._portal = Portal()
        try:
            self._inner: _client.NerveClient = self._portal.run(connect)
        except BaseException:
            self._portal.close()
            raise

    def close(self) -> None:
        """Ends the connection, and the server if it is the client's own. May be called again."""
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
        """Deprecated: `list_nodes`. Gives ids only."""
        deprecated("NerveClient.list_channels", "NerveClient.list_nodes")
        return [node.id for node in self.list_nodes()]
'''

#: Written above, by hand.
BY_HAND = {"id", "session_id", "close", "create_channel", "get_channel", "list_channels"}
#: What the asyncio client gives and the other one wraps.
WRAPPED = {"RemoteNode", "EventStream", "ExecuteStream"}


def main() -> int:
    """0 if the file is as it should be, or was written."""
    text = HEAD + NODE
    text += "".join(methods("node.py", "RemoteNode")) + CHANNEL + CLIENT
    text += "".join(methods("client.py", "NerveClient")) + "".join(methods("graphs.py", "GraphCommands"))
    if "--check" not in sys.argv:
        TARGET.write_text(text)
    elif TARGET.read_text() != text:
        print("nerve_sdk/sync.py is not what tools/generate_sync.py makes: run it")
        return 1
    return 0


def methods(file: str, name: str) -> Iterator[str]:
    """The methods of a class, as ones that wait."""
    tree = ast.parse((PACKAGE / file).read_text())
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    for method in found.body:
        if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        # GraphCommands has a `request` only to be overridden.
        inherited = name == "GraphCommands" and method.name == "request"
        if not method.name.startswith("_") and method.name not in BY_HAND and not inherited:
            yield "\n" + as_waiting(method)


def as_waiting(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """One method."""
    gives = ast.unparse(method.returns) if method.returns else "None"
    maker = gives == "Connecting"
    lines: List[str] = []
    if maker:
        lines += ["@classmethod", *signature(method, "NerveClient")]
        body = called(f"_client.NerveClient.{method.name}", passed(method.args), "return cls(lambda: ", ")")
    elif any(ast.unparse(decorator) == "property" for decorator in method.decorator_list):
        lines += ["@property", *signature(method, gives)]
        body = [f"return self._inner.{method.name}"]
    else:
        lines += signature(method, gives)
        how = "run" if isinstance(method, ast.AsyncFunctionDef) else "call"
        before, after = f"self._portal.{how}(lambda: ", ")"
        if gives in WRAPPED:
            before, after = f"{gives}(self._portal, {before}", "))"
        before = before if gives == "None" else "return " + before
        body = called(f"self._inner.{method.name}", passed(method.args), before, after)
    lines += ['    """' + line if at == 0 else ("    " + line if line else "") for at, line in enumerate(doc(method))]
    lines[-1] += '"""' if len(doc(method)) == 1 else ""
    lines += [] if len(doc(method)) == 1 else ['    """']
    return "".join(f"    {line}\n" if line else "\n" for line in [*lines, *(f"    {line}" for line in body)])


def called(what: str, args: List[str], before: str, after: str) -> List[str]:
    """A call with what stands around it: on one line where it fits."""
    whole = f"{before}{what}({', '.join(args)}){after}"
    if len(whole) <= 110:
        return [whole]
    return [f"{before}{what}(", *(f"    {arg}," for arg in args), f"){after}"]


def signature(method: ast.FunctionDef | ast.AsyncFunctionDef, gives: str) -> List[str]:
    """The head of a method: on one line where it fits."""
    whole = f"def {method.name}({', '.join(parameters(method.args))}) -> {gives}:"
    if len(whole) <= 120:
        return [whole]
    return [f"def {method.name}(", *(f"    {part}," for part in parameters(method.args)), f") -> {gives}:"]


def parameters(args: ast.arguments) -> List[str]:
    """Each parameter as it is declared."""
    parts: List[str] = []
    first_default = len(args.args) - len(args.defaults)
    for at, arg in enumerate(args.args):
        default = f" = {ast.unparse(args.defaults[at - first_default])}" if at >= first_default else ""
        parts.append(ast.unparse(arg) + default)
    if args.kwonlyargs:
        parts.append("*")
    for arg, value in zip(args.kwonlyargs, args.kw_defaults):
        parts.append(ast.unparse(arg) + (f" = {ast.unparse(value)}" if value is not None else ""))
    if args.kwarg:
        parts.append("**" + ast.unparse(args.kwarg))
    return parts


def passed(args: ast.arguments) -> List[str]:
    """Each parameter as it is handed on."""
    parts = [arg.arg for arg in args.args if arg.arg not in ("self", "cls")]
    parts += [f"{arg.arg}={arg.arg}" for arg in args.kwonlyargs]
    return [*parts, f"**{args.kwarg.arg}"] if args.kwarg else parts


def doc(method: ast.FunctionDef | ast.AsyncFunctionDef) -> List[str]:
    """Its docstring, line by line."""
    return (ast.get_docstring(method) or "").splitlines()


if __name__ == "__main__":
    sys.exit(main())
