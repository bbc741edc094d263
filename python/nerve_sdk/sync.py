"""The blocking client, for programs without an event loop. Generated from the asyncio client by tools/generate_sync.py.

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

    def info(self) -> NodeInfo:
        """Returns information about the node."""
        return self._portal.run(lambda: self._inner.info())

    def execute(
        self,
        input: str,
        parser: Optional[Parser] = None,
        timeout: Optional[float] = None,
        *,
        fail_if_busy: bool = False,
        fail_if_blocked: bool = False,
        detach_on_timeout: bool = False,
        conversation: Optional[Mapping[str, Any]] = None,
        traceparent: Optional[str] = None,
    ) -> Response:
        """Sends a prompt and waits at most `timeout` seconds for the finished turn (None: the node's limit).

        Expect `NerveTimeoutError`, `BlockedError`, `BusyError` and `DeliveryError`. A failed task, for example a command with a non-zero
        exit code, raises nothing: see `success`. Cancelling does not stop the turn: use `interrupt`.

        A prompt behind another turn waits in the node's queue. `fail_if_busy` raises instead, `fail_if_blocked` only if a dialog is open.
        `traceparent`: the parent span of the turn (W3C Trace Context).
        """
        return self._portal.run(lambda: self._inner.execute(
            input,
            parser,
            timeout,
            fail_if_busy=fail_if_busy,
            fail_if_blocked=fail_if_blocked,
            detach_on_timeout=detach_on_timeout,
            conversation=conversation,
            traceparent=traceparent,
        ))

    def execute_stream(
        self,
        input: str,
        parser: Optional[Parser] = None,
        timeout: Optional[float] = None,
        *,
        fail_if_busy: bool = False,
        fail_if_blocked: bool = False,
        detach_on_timeout: bool = False,
        conversation: Optional[Mapping[str, Any]] = None,
        traceparent: Optional[str] = None,
    ) -> ExecuteStream:
        """Sends a prompt and streams its answer; at the end, the stream's `response` is the finished turn."""
        return ExecuteStream(self._portal, self._portal.call(lambda: self._inner.execute_stream(
            input,
            parser,
            timeout,
            fail_if_busy=fail_if_busy,
            fail_if_blocked=fail_if_blocked,
            detach_on_timeout=detach_on_timeout,
            conversation=conversation,
            traceparent=traceparent,
        )))

    def execute_async(
        self,
        input: str,
        parser: Optional[Parser] = None,
        timeout: Optional[float] = None,
        *,
        fail_if_busy: bool = False,
        fail_if_blocked: bool = False,
        detach_on_timeout: bool = False,
        conversation: Optional[Mapping[str, Any]] = None,
        webhook: Optional[Mapping[str, Any]] = None,
        traceparent: Optional[str] = None,
    ) -> str:
        """Sends a prompt without waiting; returns the id for `NerveClient.wait_for_result`.

        `webhook` has `url`, and `secret` to sign the notification.
        """
        return self._portal.run(lambda: self._inner.execute_async(
            input,
            parser,
            timeout,
            fail_if_busy=fail_if_busy,
            fail_if_blocked=fail_if_blocked,
            detach_on_timeout=detach_on_timeout,
            conversation=conversation,
            webhook=webhook,
            traceparent=traceparent,
        ))

    def write(self, data: str) -> int:
        """Writes data unchanged; returns the number of bytes written."""
        return self._portal.run(lambda: self._inner.write(data))

    def run(self, command: str) -> None:
        """Types a command without waiting for its end."""
        self._portal.run(lambda: self._inner.run(command))

    def read(self, lines: Optional[int] = None) -> str:
        """Returns the last `lines` lines of text; None: all."""
        return self._portal.run(lambda: self._inner.read(lines))

    def read_tail(self, lines: int = 50) -> str:
        """Returns the last `lines` lines of text."""
        return self._portal.run(lambda: self._inner.read_tail(lines))

    def clear_buffer(self) -> None:
        """Clears the text buffer but not the screen."""
        self._portal.run(lambda: self._inner.clear_buffer())

    def interrupt(self) -> None:
        """Interrupts the current turn."""
        self._portal.run(lambda: self._inner.interrupt())

    def resize(self, cols: int, rows: int) -> None:
        """Resizes the terminal."""
        self._portal.run(lambda: self._inner.resize(cols, rows))

    def show(
        self,
        multiplexer: str = 'tmux',
        *,
        split: Optional[str] = None,
        tmux_session: Optional[str] = None,
        socket: Optional[str] = None,
    ) -> str:
        """Opens a pane that shows the terminal, or focuses the one that does; returns the pane's id.

        `split`: a pane to split; the new one appears to its right.
        """
        return self._portal.run(lambda: self._inner.show(
            multiplexer,
            split=split,
            tmux_session=tmux_session,
            socket=socket,
        ))

    def wait(self, until: Union[str, Iterable[str]] = 'ready', timeout: Optional[float] = None) -> str:
        """Waits until the node is in one of the states `until`; returns the state.

        Raises `NerveTimeoutError` after `timeout` seconds (None: the node's limit).
        """
        return self._portal.run(lambda: self._inner.wait(until, timeout))

    def history(
        self,
        last: Optional[int] = None,
        *,
        op: Optional[str] = None,
        seq: Optional[int] = None,
        inputs_only: bool = False,
        server_name: Optional[str] = None,
    ) -> History:
        """Returns the `last` entries of the audit log, filtered by operation, number or inputs."""
        return self._portal.run(lambda: self._inner.history(
            last,
            op=op,
            seq=seq,
            inputs_only=inputs_only,
            server_name=server_name,
        ))

    def transcript(
        self,
        turn: Optional[int] = None,
        *,
        before: Optional[int] = None,
        limit: Optional[int] = None,
    ) -> Transcript:
        """Returns the node's prompts and answers: all, one turn, or the newest `limit` turns before the turn `before`."""
        return self._portal.run(lambda: self._inner.transcript(turn, before=before, limit=limit))

    def why(self) -> Explanation:
        """Explains the node's state and returns its screen."""
        return self._portal.run(lambda: self._inner.why())

    def answer(self, choice: Union[int, str], *, wait: bool = False, timeout: Optional[float] = None) -> Optional[Response]:
        """Answers the current dialog with the number of a choice (from 1) or part of its label.

        `wait` waits for the end of the interrupted turn and returns its response, if any.
        """
        return self._portal.run(lambda: self._inner.answer(choice, wait=wait, timeout=timeout))

    def cancel_dialog(self) -> None:
        """Cancels the current dialog."""
        self._portal.run(lambda: self._inner.cancel_dialog())

    def fork(self, target_id: str, at: Optional[int] = None) -> RemoteNode:
        """Creates a node that continues this one's conversation, from its end or from turn `at` (from 1)."""
        return RemoteNode(self._portal, self._portal.run(lambda: self._inner.fork(target_id, at)))

    def start(self, fresh: bool = False) -> None:
        """Starts the stopped node again. An agent resumes its conversation, unless `fresh` asks for a new one."""
        self._portal.run(lambda: self._inner.start(fresh))

    def stop(self) -> None:
        """Stops the node. It can be started again."""
        self._portal.run(lambda: self._inner.stop())

    def remove(self) -> None:
        """Removes the stopped node, so that it cannot be started again."""
        self._portal.run(lambda: self._inner.remove())


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

    @classmethod
    def connect(
        cls,
        path: Union[str, os.PathLike[str], None] = None,
        *,
        server: Optional[str] = None,
        timeout: Optional[float] = 10.0,
        reconnect: float = 10.0,
    ) -> NerveClient:
        """Connects to the Unix socket `path`. None: the socket of this user's server named `server` (default: `NERVE_SERVER` or `default`).

        Raises `NotRunningError` if no server accepts the connection within `timeout` seconds.
        """
        return cls(lambda: _client.NerveClient.connect(path, server=server, timeout=timeout, reconnect=reconnect))

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
    ) -> NerveClient:
        """Connects to a server's TCP port. `nerve token show` prints the `token` on the server's machine.

        For TLS, `ssl` is True or a context; `ssl.create_default_context(cafile=…)` trusts your own certificate. Without TLS, token and
        prompts are sent unencrypted.

        Raises `NotRunningError` if no server accepts the connection within `timeout` seconds, `AuthenticationError` if the token is wrong.
        """
        return cls(lambda: _client.NerveClient.connect_tcp(
            host,
            port,
            token,
            ssl,
            timeout=timeout,
            reconnect=reconnect,
        ))

    @classmethod
    def connect_http(
        cls,
        url: str,
        token: str,
        ssl: Tls = None,
        *,
        timeout: Optional[float] = 10.0,
        reconnect: float = 10.0,
    ) -> NerveClient:
        """Connects over HTTP: `http://127.0.0.1:8080`, or `https://…` with `ssl` as for `connect_tcp`.

        Each pending request and each event stream uses its own connection. Needs the extra: `pip install "nerve-sdk[http]"`.

        Raises `NotRunningError` if no server answers within `timeout` seconds, `AuthenticationError` if the token is wrong, `ImportError`
        without the extra.
        """
        return cls(lambda: _client.NerveClient.connect_http(url, token, ssl, timeout=timeout, reconnect=reconnect))

    @classmethod
    def standalone(
        cls,
        nerve: Union[str, os.PathLike[str], None] = None,
        *,
        env: Optional[Mapping[str, str]] = None,
        timeout: float = 30.0,
    ) -> NerveClient:
        """Starts a private server in a temporary directory. Closing the client stops it with its nodes, and removes its files.

        `nerve` is the program (None: the one in the wheel, or else in `PATH`). `env` is added to the server's environment. Raises `NotRunningError` if it does
        not answer within `timeout` seconds.
        """
        return cls(lambda: _client.NerveClient.standalone(nerve, env=env, timeout=timeout))

    @property
    def in_flight(self) -> int:
        """Number of requests that wait for their answer."""
        return self._inner.in_flight

    @property
    def unmatched_answers(self) -> int:
        """Number of ignored answers that match no request; 0 with a correct server."""
        return self._inner.unmatched_answers

    def request(self, command: str, params: Optional[Mapping[str, Any]] = None) -> Any:
        """Sends any command and waits for the `data` of its result. There is no time limit: use a timeout.

        Raises `ServerError`, `ConnectionClosedError` or `ProtocolError`.
        """
        return self._portal.run(lambda: self._inner.request(command, params))

    def events(self) -> EventStream:
        """Returns a stream of all events from now on, until `subscribe` selects some.

        The first call on a socket without a subscription sends a SUBSCRIBE for all events, ahead of later requests.
        """
        return EventStream(self._portal, self._portal.call(lambda: self._inner.events()))

    def subscribe(
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
        return EventStream(self._portal, self._portal.run(lambda: self._inner.subscribe(
            types=types,
            node_id=node_id,
            session_id=session_id,
            run_id=run_id,
            since=since,
            aliases=aliases,
        )))

    def ping(self) -> Pong:
        """Checks that the server answers."""
        return self._portal.run(lambda: self._inner.ping())

    def shutdown(self, keep_nodes: bool = False) -> None:
        """Stops the server; `keep_nodes` leaves hosted nodes running."""
        self._portal.run(lambda: self._inner.shutdown(keep_nodes))

    def create_node(
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
        return RemoteNode(self._portal, self._portal.run(lambda: self._inner.create_node(
            node_id,
            command,
            backend,
            session_id=session_id,
            cwd=cwd,
            env=env,
            cols=cols,
            rows=rows,
            profile=profile,
            parser=parser,
            history=history,
            record=record,
            ready_timeout=ready_timeout,
            response_timeout=response_timeout,
            **more,
        )))

    def get_node(self, node_id: str, session_id: Optional[str] = None) -> RemoteNode:
        """Returns an existing node. Raises `NotFoundError` if it does not exist."""
        return RemoteNode(self._portal, self._portal.run(lambda: self._inner.get_node(node_id, session_id)))

    def node(self, node_id: str, session_id: Optional[str] = None) -> RemoteNode:
        """Returns a node without checking that it exists."""
        return RemoteNode(self._portal, self._portal.call(lambda: self._inner.node(node_id, session_id)))

    def list_nodes(self, session_id: Optional[str] = None) -> List[NodeInfo]:
        """Lists the nodes of a session."""
        return self._portal.run(lambda: self._inner.list_nodes(session_id))

    def list_stopped_nodes(self, session_id: Optional[str] = None) -> List[NodeInfo]:
        """Lists the stopped nodes of a session, which can be started again."""
        return self._portal.run(lambda: self._inner.list_stopped_nodes(session_id))

    def prune_nodes(
        self,
        session_id: Optional[str] = None,
        all: bool = False,
        dry_run: bool = False,
        older_than: Optional[float] = None,
    ) -> List[str]:
        """Removes the stopped nodes of a session; returns their ids. `all`: also those that could be restored.

        `older_than`: only those that stopped more than so many seconds ago.
        """
        return self._portal.run(lambda: self._inner.prune_nodes(session_id, all, dry_run, older_than))

    def restore_nodes(self) -> List[RestoredNode]:
        """Starts the nodes of all sessions that ran when the server or the machine went down."""
        return self._portal.run(lambda: self._inner.restore_nodes())

    def create_session(self, name: str, description: str = '', tags: Iterable[str] = ()) -> SessionInfo:
        """Creates a session."""
        return self._portal.run(lambda: self._inner.create_session(name, description, tags))

    def get_session(self, name: Optional[str] = None) -> SessionInfo:
        """Returns a session; None: the default session."""
        return self._portal.run(lambda: self._inner.get_session(name))

    def list_sessions(self) -> List[SessionInfo]:
        """Lists all sessions."""
        return self._portal.run(lambda: self._inner.list_sessions())

    def delete_session(self, name: str) -> None:
        """Deletes a session and stops its nodes."""
        self._portal.run(lambda: self._inner.delete_session(name))

    def start_session(self, name: str, all: bool = False) -> Lifecycle:
        """Starts the stopped nodes of a session; returns which were started and which failed.

        `all`: also those whose programs exited by themselves.
        """
        return self._portal.run(lambda: self._inner.start_session(name, all))

    def stop_session(self, name: str) -> Lifecycle:
        """Stops all nodes of a session and keeps their definitions."""
        return self._portal.run(lambda: self._inner.stop_session(name))

    def set_budget(
        self,
        node_id: Optional[str] = None,
        *,
        session_id: Optional[str] = None,
        budget: Optional[Dict[str, Any]] = None,
    ) -> Dict[str, Any]:
        """Sets or removes the budget of a node, or of a whole session, and returns it with the usage.

        `budget`: `max_tokens`, `max_cost_usd`, `max_time_ms`, `at_limit`: `ask` or `stop`.
        """
        return self._portal.run(lambda: self._inner.set_budget(node_id, session_id=session_id, budget=budget))

    def search(
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
        return self._portal.run(lambda: self._inner.search(
            pattern,
            node_id=node_id,
            session_id=session_id,
            since=since,
            kinds=kinds,
            limit=limit,
        ))

    def usage(
        self,
        *nodes: str,
        session_id: Optional[str] = None,
        since: Optional[str] = None,
        by: str = 'node',
    ) -> UsageReport:
        """Sums up the tokens and costs of the nodes and recordings on the server's machine, also of those that ended.

        `nodes`: only these, each as `NODE` or `SESSION/NODE`; `since`: a time (RFC 3339); `by`: `node`, `session`, `day` or `model`.
        """
        return self._portal.run(lambda: self._inner.usage(*nodes, session_id=session_id, since=since, by=by))

    def get_result(self, result_id: str) -> Result:
        """Returns an execution started by `RemoteNode.execute_async`. A failed one raises nothing: see its `state`."""
        return self._portal.run(lambda: self._inner.get_result(result_id))

    def wait_for_result(self, result_id: str, timeout: Optional[float] = None) -> Result:
        """Waits for the end of an execution. Raises `NerveTimeoutError` after `timeout` seconds (None: no limit)."""
        return self._portal.run(lambda: self._inner.wait_for_result(result_id, timeout))

    def list_results(
        self,
        *,
        session_id: Optional[str] = None,
        node_id: Optional[str] = None,
        last: Optional[int] = None,
    ) -> List[Result]:
        """Lists results, newest first, without responses; the newest 100 if `last` is None."""
        return self._portal.run(lambda: self._inner.list_results(session_id=session_id, node_id=node_id, last=last))

    def cancel_result(self, result_id: str) -> Result:
        """Withdraws a queued prompt or interrupts its turn; returns the result afterwards."""
        return self._portal.run(lambda: self._inner.cancel_result(result_id))

    def execute_graph(
        self,
        definition: Mapping[str, Any],
        input: Any = None,
        *,
        session_id: Optional[str] = None,
        run_id: Optional[str] = None,
        trace: bool = False,
        keep_nodes: bool = False,
        traceparent: Optional[str] = None,
    ) -> RunEnded:
        """Runs a graph and waits for its end. Cancelling the task does not cancel the run: use `cancel_run`.

        A failed or cancelled run raises a `ServerError` whose `data` has the completed steps.
        """
        return self._portal.run(lambda: self._inner.execute_graph(
            definition,
            input,
            session_id=session_id,
            run_id=run_id,
            trace=trace,
            keep_nodes=keep_nodes,
            traceparent=traceparent,
        ))

    def start_graph(
        self,
        definition: Mapping[str, Any],
        input: Any = None,
        *,
        session_id: Optional[str] = None,
        run_id: Optional[str] = None,
        trace: bool = False,
        keep_nodes: bool = False,
        traceparent: Optional[str] = None,
    ) -> RunInfo:
        """Starts a graph without waiting; returns the new run."""
        return self._portal.run(lambda: self._inner.start_graph(
            definition,
            input,
            session_id=session_id,
            run_id=run_id,
            trace=trace,
            keep_nodes=keep_nodes,
            traceparent=traceparent,
        ))

    def run_graph(
        self,
        graph_id: str,
        input: Any = None,
        *,
        session_id: Optional[str] = None,
        run_id: Optional[str] = None,
        trace: bool = False,
        keep_nodes: bool = False,
        traceparent: Optional[str] = None,
    ) -> RunEnded:
        """Runs a registered graph and waits for its end, like `execute_graph`."""
        return self._portal.run(lambda: self._inner.run_graph(
            graph_id,
            input,
            session_id=session_id,
            run_id=run_id,
            trace=trace,
            keep_nodes=keep_nodes,
            traceparent=traceparent,
        ))

    def start_registered_graph(
        self,
        graph_id: str,
        input: Any = None,
        *,
        session_id: Optional[str] = None,
        run_id: Optional[str] = None,
        trace: bool = False,
        keep_nodes: bool = False,
        traceparent: Optional[str] = None,
    ) -> RunInfo:
        """Starts a graph without waiting; returns the new run."""
        return self._portal.run(lambda: self._inner.start_registered_graph(
            graph_id,
            input,
            session_id=session_id,
            run_id=run_id,
            trace=trace,
            keep_nodes=keep_nodes,
            traceparent=traceparent,
        ))

    def create_graph(self, definition: Mapping[str, Any], session_id: Optional[str] = None) -> GraphInfo:
        """Registers a graph in a session, under its own id."""
        return self._portal.run(lambda: self._inner.create_graph(definition, session_id))

    def get_graph(self, graph_id: str, session_id: Optional[str] = None) -> GraphInfo:
        """Returns a registered graph with its definition."""
        return self._portal.run(lambda: self._inner.get_graph(graph_id, session_id))

    def list_graphs(self, session_id: Optional[str] = None) -> List[GraphInfo]:
        """Lists the graphs of a session, without definitions."""
        return self._portal.run(lambda: self._inner.list_graphs(session_id))

    def delete_graph(self, graph_id: str, session_id: Optional[str] = None) -> None:
        """Deletes a graph; its runs continue."""
        self._portal.run(lambda: self._inner.delete_graph(graph_id, session_id))

    def cancel_graph(self, graph_id: str) -> List[str]:
        """Cancels all runs of a graph; returns their ids."""
        return self._portal.run(lambda: self._inner.cancel_graph(graph_id))

    def cancel_run(self, run_id: str) -> List[str]:
        """Cancels a run; returns its id."""
        return self._portal.run(lambda: self._inner.cancel_run(run_id))

    def list_runs(self) -> List[RunInfo]:
        """Lists all runs, newest first, without steps."""
        return self._portal.run(lambda: self._inner.list_runs())

    def get_run(
        self,
        run_id: str,
        last: Optional[int] = None,
        *,
        plan: bool = False,
        result_of: Optional[str] = None,
    ) -> RunInfo:
        """Returns a run. `last`: only this many of its latest steps.

        `plan`: also all steps of the graph. `result_of`: also the result of the step with this path.
        """
        return self._portal.run(lambda: self._inner.get_run(run_id, last, plan=plan, result_of=result_of))

    def resume_run(self, run_id: str, definition: Optional[Mapping[str, Any]] = None, *, trace: bool = False) -> RunEnded:
        """Resumes a run whose server died, and waits for its end.

        `definition` replaces the run's graph; unchanged steps are not run again.
        """
        return self._portal.run(lambda: self._inner.resume_run(run_id, definition, trace=trace))

    def restart_run(self, run_id: str, definition: Optional[Mapping[str, Any]] = None) -> RunInfo:
        """Resumes a run without waiting; returns the run."""
        return self._portal.run(lambda: self._inner.restart_run(run_id, definition))

    def answer_gate(self, run_id: str, choice: str, step_id: Optional[str] = None) -> RunInfo:
        """Answers the gate that a run waits at; returns the run. `step_id` is optional if only one gate waits."""
        return self._portal.run(lambda: self._inner.answer_gate(run_id, choice, step_id))

    def list_recordings(self, last: Optional[int] = None) -> List[RecordingInfo]:
        """Lists the recordings on the server's machine, last written first; at most `last`."""
        return self._portal.run(lambda: self._inner.list_recordings(last))

    def prune_recordings(
        self,
        *,
        older_than: Optional[float] = None,
        max_size: Optional[int] = None,
        branches: bool = False,
        force: bool = False,
        dry_run: bool = False,
    ) -> RecordingsPruned:
        """Removes recordings that ended more than `older_than` seconds ago, the oldest beyond `max_size` bytes, and unneeded folders.

        `branches`: also folders of branches without a node; `force`: also those with unsaved changes; `dry_run`: removes nothing.
        """
        return self._portal.run(lambda: self._inner.prune_recordings(
            older_than=older_than,
            max_size=max_size,
            branches=branches,
            force=force,
            dry_run=dry_run,
        ))

    def timeline(
        self,
        recording: Optional[str] = None,
        *,
        node_id: Optional[str] = None,
        session_id: Optional[str] = None,
        since: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> RecordingTimeline:
        """Returns an overview of a recording, or of a node's newest one. That of a long one is complete only after several requests.

        `since`: the `version` of an earlier one; waits until it has changed, at most `timeout` seconds (default: 30).
        """
        return self._portal.run(lambda: self._inner.timeline(
            recording,
            node_id=node_id,
            session_id=session_id,
            since=since,
            timeout=timeout,
        ))

    def read_recording(
        self,
        recording: str,
        *,
        at: Optional[float] = None,
        offset: Optional[int] = None,
        output_only: bool = False,
        limit: Optional[int] = None,
    ) -> RecordedOutput:
        """Returns the terminal of a recording at a position, in seconds or by offset, and the output that follows."""
        return self._portal.run(lambda: self._inner.read_recording(
            recording,
            at=at,
            offset=offset,
            output_only=output_only,
            limit=limit,
        ))

    def get_recording_file(self, recording: str, *, offset: int = 0, limit: Optional[int] = None) -> RecordingFile:
        """Returns a range of a recording's file: at most `limit` bytes (default: 262144) from `offset` on."""
        return self._portal.run(lambda: self._inner.get_recording_file(recording, offset=offset, limit=limit))

    def list_snapshots(
        self,
        node_id: Optional[str] = None,
        *,
        recording: Optional[str] = None,
        session_id: Optional[str] = None,
        dir: Optional[str] = None,
        last: Optional[int] = None,
    ) -> List[SnapshotInfo]:
        """Lists the snapshots of a recorded session; without one, all snapshots with files. Git snapshots are searched in `dir` too."""
        return self._portal.run(lambda: self._inner.list_snapshots(
            node_id,
            recording=recording,
            session_id=session_id,
            dir=dir,
            last=last,
        ))

    def take_snapshot(
        self,
        node_id: Optional[str] = None,
        label: Optional[str] = None,
        *,
        recording: Optional[str] = None,
        session_id: Optional[str] = None,
        snapshot_id: Optional[int] = None,
        dir: Optional[str] = None,
        limit: Optional[int] = None,
        no_files: bool = False,
        timeout: Optional[float] = None,
    ) -> SnapshotTaken:
        """Marks the present in a recording and stores the files of `dir` (None: the program's start directory)."""
        return self._portal.run(lambda: self._inner.take_snapshot(
            node_id,
            label,
            recording=recording,
            session_id=session_id,
            snapshot_id=snapshot_id,
            dir=dir,
            limit=limit,
            no_files=no_files,
            timeout=timeout,
        ))

    def restore_snapshot(
        self,
        snapshot_id: int,
        to: str,
        node_id: Optional[str] = None,
        *,
        recording: Optional[str] = None,
        session_id: Optional[str] = None,
        dir: Optional[str] = None,
    ) -> SnapshotRestored:
        """Restores the files of a snapshot to the directory `to`, which must be empty or not exist."""
        return self._portal.run(lambda: self._inner.restore_snapshot(
            snapshot_id,
            to,
            node_id,
            recording=recording,
            session_id=session_id,
            dir=dir,
        ))

    def create_branch(
        self,
        instruction: str,
        source_id: Optional[str] = None,
        at: Union[str, int] = 'end',
        *,
        recording: Optional[str] = None,
        target_id: Optional[str] = None,
        session_id: Optional[str] = None,
        to: Optional[str] = None,
        in_place: bool = False,
        dir: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        proxy: Union[str, Mapping[str, Any], None] = None,
        no_proxy: bool = False,
        wait: bool = True,
        timeout: Optional[float] = None,
        dry_run: bool = False,
    ) -> BranchCreated:
        """Creates a node that continues a recorded session, and sends it the instruction.

        `at` is a snapshot's number or label, `end`, or `now` to take one first. With `wait`, the answer is in `response`.
        """
        return self._portal.run(lambda: self._inner.create_branch(
            instruction,
            source_id,
            at,
            recording=recording,
            target_id=target_id,
            session_id=session_id,
            to=to,
            in_place=in_place,
            dir=dir,
            env=env,
            proxy=proxy,
            no_proxy=no_proxy,
            wait=wait,
            timeout=timeout,
            dry_run=dry_run,
        ))

    def list_branches(self) -> List[BranchInfo]:
        """Lists the folders of branches."""
        return self._portal.run(lambda: self._inner.list_branches())

    def delete_branch(self, name: str, force: bool = False) -> BranchDeleted:
        """Removes the folder of a branch that no node uses. `force` also removes one with changed files."""
        return self._portal.run(lambda: self._inner.delete_branch(name, force))
