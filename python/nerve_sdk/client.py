"""The asyncio client."""

from __future__ import annotations

import os
import ssl as tls
from pathlib import Path
from types import TracebackType
from typing import Any, Awaitable, Callable, Dict, Generator, Iterable, List, Mapping, Optional, Sequence, Type, Union

from .reconnect import Dial, ReconnectingConnection
from .branches import BranchCommands
from .connection import Connection
from .events import EventStream
from .graphs import GraphCommands
from .lines import open_tcp, open_unix
from .node import RemoteChannel, RemoteNode, deprecated
from .paths import socket_path
from .standalone import Standalone
from .reply import field_of, from_wire, list_of
from .types import Lifecycle, NodeInfo, NodesPruned, Pong, RestoredNode, Result, SearchResult, SessionInfo, UsageReport

#: True uses the system's certificate authorities.
Tls = Union[tls.SSLContext, bool, None]


class NerveClient(GraphCommands, BranchCommands):
    """A connection to a server, shared by any number of tasks of one event loop.

    Created by `connect`, `connect_tcp`, `connect_http` or `standalone`; await these, or use them with `async with`. A closed connection is
    reopened when a request or an event stream needs it, for at most `reconnect` seconds (0: never). Pending requests fail with
    `ConnectionClosedError`, whose `sent` tells whether they were sent; read-only commands are repeated once.
    """

    def __init__(self, connection: Connection, own: Optional[Standalone] = None) -> None:
        self._connection = connection
        self._own = own

    @classmethod
    def connect(
        cls,
        path: Union[str, os.PathLike[str], None] = None,
        *,
        server: Optional[str] = None,
        timeout: Optional[float] = 10.0,
        reconnect: float = 10.0,
    ) -> Connecting:
        """Connects to the Unix socket `path`. None: the socket of this user's server named `server` (default: `NERVE_SERVER` or `default`).

        Raises `NotRunningError` if no server accepts the connection within `timeout` seconds.
        """

        async def connect() -> NerveClient:
            where = str(socket_path(server) if path is None else Path(path))
            dial: Dial = lambda state, muted: open_unix(where, timeout, state, muted)
            return cls(await ReconnectingConnection.open(dial, reconnect))

        return Connecting(connect)

    @classmethod
    def connect_tcp(
        cls,
        host: str,
        port: int,
        token: str,
        ssl: Tls = None,
        *,
        timeout: Optional[float] = 10.0,
        reconnect: float = 10.0,
    ) -> Connecting:
        """Connects to a server's TCP port. `nerve token show` prints the `token` on the server's machine.

        For TLS, `ssl` is True or a context; `ssl.create_default_context(cafile=…)` trusts your own certificate. Without TLS, token and
        prompts are sent unencrypted.

        Raises `NotRunningError` if no server accepts the connection within `timeout` seconds, `AuthenticationError` if the token is wrong.
        """

        async def connect() -> NerveClient:
            tls = _context(ssl)
            dial: Dial = lambda state, muted: open_tcp(host, port, token, tls, timeout, state, muted)
            return cls(await ReconnectingConnection.open(dial, reconnect))

        return Connecting(connect)

    @classmethod
    def connect_http(
        cls, url: str, token: str, ssl: Tls = None, *, timeout: Optional[float] = 10.0, reconnect: float = 10.0
    ) -> Connecting:
        """Connects over HTTP: `http://127.0.0.1:8080`, or `https://…` with `ssl` as for `connect_tcp`.

        Each pending request and each event stream uses its own connection. Needs the extra: `pip install "nerve-sdk[http]"`.

        Raises `NotRunningError` if no server answers within `timeout` seconds, `AuthenticationError` if the token is wrong, `ImportError`
        without the extra.
        """

        async def connect() -> NerveClient:
            try:
                from .http import open_http
            except ImportError as error:
                raise ImportError(f'HTTP needs the extra of this package: pip install "nerve-sdk[http]" ({error})') from error
            return cls(await open_http(url, token, _context(ssl), timeout, reconnect))

        return Connecting(connect)

    @classmethod
    def standalone(
        cls, nerve: Union[str, os.PathLike[str], None] = None, *, env: Optional[Mapping[str, str]] = None, timeout: float = 30.0
    ) -> Connecting:
        """Starts a private server in a temporary directory. Closing the client stops it with its nodes, and removes its files.

        `nerve` is the program (None: the one in the wheel, or else in `PATH`). `env` is added to the server's environment. Raises `NotRunningError` if it does
        not answer within `timeout` seconds.
        """

        async def connect() -> NerveClient:
            own = await Standalone.start(nerve, env, timeout)
            try:
                dial: Dial = lambda state, muted: open_unix(str(own.socket), timeout, state, muted)
                return cls(await ReconnectingConnection.open(dial, 0), own)
            except BaseException:
                await own.stop()
                raise

        return Connecting(connect)

    @property
    def in_flight(self) -> int:
        """Number of requests that wait for their answer."""
        return self._connection.in_flight

    @property
    def unmatched_answers(self) -> int:
        """Number of ignored answers that match no request; 0 with a correct server."""
        return self._connection.unmatched_answers

    async def close(self) -> None:
        """Closes the connection, and stops a `standalone` server."""
        try:
            if self._own is not None:
                await self._own.stop(self.shutdown)
        finally:
            await self._connection.close()

    async def __aenter__(self) -> NerveClient:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close()

    async def request(self, command: str, params: Optional[Mapping[str, Any]] = None) -> Any:
        """Sends any command and waits for the `data` of its result. There is no time limit: use a timeout.

        Raises `ServerError`, `ConnectionClosedError` or `ProtocolError`.
        """
        return await self._connection.request(command, params or {})

    def events(self) -> EventStream:
        """Returns a stream of all events from now on, until `subscribe` selects some.

        The first call on a socket without a subscription sends a SUBSCRIBE for all events, ahead of later requests.
        """
        return self._connection.events()

    async def subscribe(
        self,
        *,
        types: Optional[Iterable[str]] = None,
        node_id: Optional[str] = None,
        session_id: Optional[str] = None,
        run_id: Optional[str] = None,
        since: Optional[int] = None,
        aliases: bool = False,
    ) -> EventStream:
        """Subscribes to events and returns their stream. On a socket this applies to all streams of the client.

        `types`: only these types; `since`: also stored events after this `seq`; `aliases`: deprecated names too.
        """
        wanted: Dict[str, Any] = {
            "types": None if types is None else list(types),
            "node_id": node_id,
            "session_id": session_id,
            "run_id": run_id,
            "since": since,
            "aliases": aliases,
        }
        return await self._connection.subscribe(wanted)

    async def ping(self) -> Pong:
        """Checks that the server answers."""
        return from_wire(Pong, await self.request("PING"))

    async def shutdown(self, keep_nodes: bool = False) -> None:
        """Stops the server; `keep_nodes` leaves hosted nodes running."""
        await self.request("SHUTDOWN", {"keep_nodes": keep_nodes})

    async def create_node(
        self,
        node_id: str,
        command: Union[str, Sequence[str], None] = None,
        backend: Optional[str] = None,
        *,
        session_id: Optional[str] = None,
        cwd: Union[str, os.PathLike[str], None] = None,
        env: Optional[Mapping[str, str]] = None,
        cols: Optional[int] = None,
        rows: Optional[int] = None,
        profile: Optional[str] = None,
        parser: Optional[str] = None,
        history: Optional[bool] = None,
        record: Optional[bool] = None,
        ready_timeout: Optional[float] = None,
        response_timeout: Optional[float] = None,
        **more: Any,
    ) -> RemoteNode:
        """Starts a node. None selects the server's default.

        `command` is a string, split into words like in a shell, or a list of words; None: your shell. `backend` is `pty` (the default),
        `bash`, `chat`, `tmux`, `wezterm` … `more` is sent to the server unchanged: `chat`, `conversation`, `pane_id`, `conversation_id` …
        """
        params: Dict[str, Any] = {
            "node_id": node_id,
            "command": command if command is None or isinstance(command, str) else list(command),
            "backend": backend,
            "session_id": session_id,
            "cwd": None if cwd is None else os.fspath(cwd),
            "env": env,
            "cols": cols,
            "rows": rows,
            "profile": profile,
            "parser": parser,
            "history": history,
            "record": record,
            "ready_timeout": ready_timeout,
            "response_timeout": response_timeout,
            **more,
        }
        data = await self.request("CREATE_NODE", params)
        return RemoteNode(self._connection, str(field_of(data, "node_id")), session_id)

    async def get_node(self, node_id: str, session_id: Optional[str] = None) -> RemoteNode:
        """Returns an existing node. Raises `NotFoundError` if it does not exist."""
        node = self.node(node_id, session_id)
        await node.info()
        return node

    def node(self, node_id: str, session_id: Optional[str] = None) -> RemoteNode:
        """Returns a node without checking that it exists."""
        return RemoteNode(self._connection, node_id, session_id)

    async def list_nodes(self, session_id: Optional[str] = None) -> List[NodeInfo]:
        """Lists the nodes of a session."""
        data = await self.request("LIST_NODES", {"session_id": session_id})
        return list_of(NodeInfo, field_of(data, "nodes_info"))

    async def list_stopped_nodes(self, session_id: Optional[str] = None) -> List[NodeInfo]:
        """Lists the stopped nodes of a session, which can be started again."""
        data = await self.request("LIST_NODES", {"session_id": session_id})
        return list_of(NodeInfo, field_of(data, "stopped"))

    async def prune_nodes(
        self,
        session_id: Optional[str] = None,
        all: bool = False,
        dry_run: bool = False,
        older_than: Optional[float] = None,
    ) -> List[str]:
        """Removes the stopped nodes of a session; returns their ids. `all`: also those that could be restored.

        `older_than`: only those that stopped more than so many seconds ago.
        """
        params = {"session_id": session_id, "all": all, "dry_run": dry_run, "older_than": older_than}
        return from_wire(NodesPruned, await self.request("PRUNE_NODES", params)).removed

    async def restore_nodes(self) -> List[RestoredNode]:
        """Starts the nodes of all sessions that ran when the server or the machine went down."""
        return list_of(RestoredNode, field_of(await self.request("RESTORE_NODES"), "nodes"))

    async def create_session(self, name: str, description: str = "", tags: Iterable[str] = ()) -> SessionInfo:
        """Creates a session."""
        params = {"name": name, "description": description, "tags": list(tags)}
        return from_wire(SessionInfo, await self.request("CREATE_SESSION", params))

    async def get_session(self, name: Optional[str] = None) -> SessionInfo:
        """Returns a session; None: the default session."""
        return from_wire(SessionInfo, await self.request("GET_SESSION", {"name": name}))

    async def list_sessions(self) -> List[SessionInfo]:
        """Lists all sessions."""
        return list_of(SessionInfo, field_of(await self.request("LIST_SESSIONS"), "sessions"))

    async def delete_session(self, name: str) -> None:
        """Deletes a session and stops its nodes."""
        await self.request("DELETE_SESSION", {"name": name})

    async def start_session(self, name: str, all: bool = False) -> Lifecycle:
        """Starts the stopped nodes of a session; returns which were started and which failed.

        `all`: also those whose programs exited by themselves.
        """
        return from_wire(Lifecycle, await self.request("START_SESSION", {"name": name, "all": all}))

    async def stop_session(self, name: str) -> Lifecycle:
        """Stops all nodes of a session and keeps their definitions."""
        return from_wire(Lifecycle, await self.request("STOP_SESSION", {"name": name}))

    async def set_budget(
        self,
        node_id: Optional[str] = None,
        *,
        session_id: Optional[str] = None,
        budget: Optional[Dict[str, Any]] = None,
    ) -> Dict[str, Any]:
        """Sets or removes the budget of a node, or of a whole session, and returns it with the usage.

        `budget`: `max_tokens`, `max_cost_usd`, `max_time_ms`, `at_limit`: `ask` or `stop`.
        """
        params = {"node_id": node_id, "session_id": session_id, "budget": budget}
        return await self.request("SET_BUDGET", params)

    async def search(
        self,
        pattern: str,
        *,
        node_id: Optional[str] = None,
        session_id: Optional[str] = None,
        since: Optional[str] = None,
        kinds: Iterable[str] = (),
        limit: Optional[int] = None,
    ) -> SearchResult:
        """Finds a text in prompts, answers, tools and screens of all recordings and nodes on the server's machine, newest first.

        `pattern`: words, or a regular expression between slashes; `since`: a time (RFC 3339); `kinds`: `prompt`, `answer`, `tool`,
        `screen` (default: all); `limit`: at most so many hits, from 1 to 1000 (default: 20).
        """
        params = {
            "pattern": pattern,
            "node_id": node_id,
            "session_id": session_id,
            "since": since,
            "kinds": list(kinds),
            "limit": limit,
        }
        return from_wire(SearchResult, await self.request("SEARCH", params))

    async def usage(
        self,
        *nodes: str,
        session_id: Optional[str] = None,
        since: Optional[str] = None,
        by: str = "node",
    ) -> UsageReport:
        """Sums up the tokens and costs of the nodes and recordings on the server's machine, also of those that ended.

        `nodes`: only these, each as `NODE` or `SESSION/NODE`; `since`: a time (RFC 3339); `by`: `node`, `session`, `day` or `model`.
        """
        params = {"nodes": list(nodes), "session_id": session_id, "since": since, "by": by}
        return from_wire(UsageReport, await self.request("GET_USAGE", params))

    async def get_result(self, result_id: str) -> Result:
        """Returns an execution started by `RemoteNode.execute_async`. A failed one raises nothing: see its `state`."""
        return from_wire(Result, await self.request("GET_RESULT", {"result_id": result_id}))

    async def wait_for_result(self, result_id: str, timeout: Optional[float] = None) -> Result:
        """Waits for the end of an execution. Raises `NerveTimeoutError` after `timeout` seconds (None: no limit)."""
        params = {"result_id": result_id, "wait": True, "timeout": timeout}
        return from_wire(Result, await self.request("GET_RESULT", params))

    async def list_results(
        self, *, session_id: Optional[str] = None, node_id: Optional[str] = None, last: Optional[int] = None
    ) -> List[Result]:
        """Lists results, newest first, without responses; the newest 100 if `last` is None."""
        params: Dict[str, Any] = {"session_id": session_id, "node_id": node_id, "last": last}
        return list_of(Result, field_of(await self.request("LIST_RESULTS", params), "results"))

    async def cancel_result(self, result_id: str) -> Result:
        """Withdraws a queued prompt or interrupts its turn; returns the result afterwards."""
        return from_wire(Result, await self.request("CANCEL_RESULT", {"result_id": result_id}))

    def create_channel(
        self, channel_id: str, command: Union[str, Sequence[str], None] = None, backend: Optional[str] = None, **more: Any
    ) -> Awaitable[RemoteChannel]:
        """Deprecated: `create_node`."""
        deprecated("NerveClient.create_channel", "NerveClient.create_node")

        async def create() -> RemoteChannel:
            node = await self.create_node(channel_id, command, backend, **more)
            return RemoteChannel(self._connection, node.id, node.session_id)

        return create()

    def get_channel(self, channel_id: str) -> Awaitable[RemoteChannel]:
        """Deprecated: `get_node`."""
        deprecated("NerveClient.get_channel", "NerveClient.get_node")

        async def get() -> RemoteChannel:
            return RemoteChannel(self._connection, (await self.get_node(channel_id)).id)

        return get()

    def list_channels(self) -> Awaitable[List[str]]:
        """Deprecated: `list_nodes`. Returns only ids."""
        deprecated("NerveClient.list_channels", "NerveClient.list_nodes")

        async def ids() -> List[str]:
            return [node.node_id for node in await self.list_nodes()]

        return ids()


class Connecting:
    """A pending connection: await it, or use `async with`, which closes the client at the end."""

    def __init__(self, connect: Callable[[], Awaitable[NerveClient]]) -> None:
        self._connect = connect
        self._client: Optional[NerveClient] = None

    def __await__(self) -> Generator[Any, None, NerveClient]:
        return self._connect().__await__()

    async def __aenter__(self) -> NerveClient:
        self._client = await self._connect()
        return self._client

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._client is not None:
            await self._client.close()


def _context(ssl: Tls) -> Optional[tls.SSLContext]:
    if isinstance(ssl, tls.SSLContext):
        return ssl
    return tls.create_default_context() if ssl else None
