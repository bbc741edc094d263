"""The same client for programs without an event loop: every call waits. Made from the asyncio client by tools/generate_sync.py.

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

    def info(self) -> NodeInfo:
        """What is known of it."""
        return self._portal.run(lambda: self._inner.info())

    def execute(
        self,
        input: str,
        parser: Optional[Parser] = None,
        timeout: Optional[float] = None,
        *,
        fail_if_busy: bool = False,
        detach_on_timeout: bool = False,
        conversation: Optional[Mapping[str, Any]] = None,
        traceparent: Optional[str] = None,
    ) -> Response:
        """Sends a prompt and waits for the finished turn, for at most `timeout` seconds (the node's limit if None).

        `NerveTimeoutError`, `BlockedError`, `BusyError` and `DeliveryError` are to be expected. A node that did not do what it was asked
        (a command with another exit code than 0) is no error: see `success`. Cancelling does not stop the turn: `interrupt` does.

        `traceparent`: the span that the turn is part of (W3C Trace Context).
        """
        return self._portal.run(lambda: self._inner.execute(
            input,
            parser,
            timeout,
            fail_if_busy=fail_if_busy,
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
        detach_on_timeout: bool = False,
        conversation: Optional[Mapping[str, Any]] = None,
        traceparent: Optional[str] = None,
    ) -> ExecuteStream:
        """Sends a prompt and gives its answer as it grows; the finished turn is the stream's `response` at the end."""
        return ExecuteStream(self._portal, self._portal.call(lambda: self._inner.execute_stream(
            input,
            parser,
            timeout,
            fail_if_busy=fail_if_busy,
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
        detach_on_timeout: bool = False,
        conversation: Optional[Mapping[str, Any]] = None,
        webhook: Optional[Mapping[str, Any]] = None,
        traceparent: Optional[str] = None,
    ) -> str:
        """Sends a prompt and does not wait: gives the id that `NerveClient.wait_for_result` takes.

        `webhook` has `url`, and `secret` if what is sent there is to be signed.
        """
        return self._portal.run(lambda: self._inner.execute_async(
            input,
            parser,
            timeout,
            fail_if_busy=fail_if_busy,
            detach_on_timeout=detach_on_timeout,
            conversation=conversation,
            webhook=webhook,
            traceparent=traceparent,
        ))

    def write(self, data: str) -> int:
        """Writes data as it is; gives the number of bytes written."""
        return self._portal.run(lambda: self._inner.write(data))

    def run(self, command: str) -> None:
        """Types a command and does not wait for its end."""
        self._portal.run(lambda: self._inner.run(command))

    def read(self, lines: Optional[int] = None) -> str:
        """The last `lines` lines of text, all if None."""
        return self._portal.run(lambda: self._inner.read(lines))

    def read_tail(self, lines: int = 50) -> str:
        """The last `lines` lines of text."""
        return self._portal.run(lambda: self._inner.read_tail(lines))

    def clear_buffer(self) -> None:
        """Forgets the text so far; the screen stays."""
        self._portal.run(lambda: self._inner.clear_buffer())

    def interrupt(self) -> None:
        """Interrupts what it does now."""
        self._portal.run(lambda: self._inner.interrupt())

    def resize(self, cols: int, rows: int) -> None:
        """Gives its terminal another size."""
        self._portal.run(lambda: self._inner.resize(cols, rows))

    def wait(self, until: Union[str, Iterable[str]] = 'ready', timeout: Optional[float] = None) -> str:
        """Waits until it is in one of the states `until`; gives which. Answers at once when it is already.

        Raises `NerveTimeoutError` when none came within `timeout` seconds (the node's limit if None).
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
        """Its audit log: the last so many entries of those with this operation, this number, or that are inputs."""
        return self._portal.run(lambda: self._inner.history(
            last,
            op=op,
            seq=seq,
            inputs_only=inputs_only,
            server_name=server_name,
        ))

    def why(self) -> Explanation:
        """Why it is in its state, and what its terminal shows."""
        return self._portal.run(lambda: self._inner.why())

    def answer(self, choice: Union[int, str], *, wait: bool = False, timeout: Optional[float] = None) -> Optional[Response]:
        """Answers the dialog it shows: with the number of a choice, from 1, or a part of its label.

        With `wait` it waits for the end of the turn that the dialog interrupted and gives its response, if there is one.
        """
        return self._portal.run(lambda: self._inner.answer(choice, wait=wait, timeout=timeout))

    def cancel_dialog(self) -> None:
        """Leaves the dialog it shows without an answer."""
        self._portal.run(lambda: self._inner.cancel_dialog())

    def fork(self, target_id: str, at: Optional[int] = None) -> RemoteNode:
        """Makes a node that goes on from where this one is, or was after turn `at`, counted from 1."""
        return RemoteNode(self._portal, self._portal.run(lambda: self._inner.fork(target_id, at)))

    def start(self) -> None:
        """Starts it again when it is defined and does not run."""
        self._portal.run(lambda: self._inner.start())

    def stop(self) -> None:
        """Stops it."""
        self._portal.run(lambda: self._inner.stop())


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

    @classmethod
    def connect(
        cls,
        path: Union[str, os.PathLike[str], None] = None,
        *,
        server: Optional[str] = None,
        timeout: Optional[float] = 10.0,
        reconnect: float = 10.0,
    ) -> NerveClient:
        """Connects to the Unix socket `path`; to that of this user's server of this name if None (`NERVE_SERVER`, or `default`).

        Raises `NotRunningError` when nobody listens there within `timeout` seconds.
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
        """Connects to a server's TCP port. `token` is what `nerve token show` prints on its machine.

        `ssl` is True or a context for a server with TLS; `ssl.create_default_context(cafile=…)` trusts a certificate of your own. Without it
        token and prompts go over the network as they are.

        Raises `NotRunningError` when nobody listens there within `timeout` seconds, `AuthenticationError` when the token is wrong.
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
        """Talks to a server over HTTP: `http://127.0.0.1:8080`, or `https://…` with `ssl` as of `connect_tcp`.

        Each request that waits has a connection of its own there, and each stream of events too.

        Raises `NotRunningError` when nobody answers there within `timeout` seconds, `AuthenticationError` when the token is wrong.
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
        """Starts a server of its own in a temporary directory; closing the client stops it, with its nodes, and removes all it wrote.

        `nerve` is the program, `nerve` in `PATH` if None. `env` is added to the server's environment. Raises `NotRunningError` when it does
        not answer within `timeout` seconds.
        """
        return cls(lambda: _client.NerveClient.standalone(nerve, env=env, timeout=timeout))

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answer."""
        return self._inner.in_flight

    @property
    def unmatched_answers(self) -> int:
        """Answers that came to what this client never asked. They were passed over; a server that works as it should sends none."""
        return self._inner.unmatched_answers

    def request(self, command: str, params: Optional[Mapping[str, Any]] = None) -> Any:
        """Sends any command of the wire and waits for the `data` of its result. There is no limit of time: put it into a timeout.

        Raises a `ServerError` when the server could not or would not do it, `ConnectionClosedError`, `ProtocolError`.
        """
        return self._portal.run(lambda: self._inner.request(command, params))

    def events(self) -> EventStream:
        """The events from now on: all, until `subscribe` says which."""
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
        """Says which events this client is to get, and gives them. Over a socket it holds for all its streams.

        `types`: only these; `since`: also those after this `seq`, as far as the server still has them; `aliases`: older names too.
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
        """Is anybody there?"""
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
        """Starts a node; what is None has the server's default.

        `command` is a text, split into words as a shell does, or a list of words; your shell if None. `backend` is `pty` (the default),
        `bash`, `chat`, `tmux`, `wezterm` … `more` goes to the server as it is: `chat`, `conversation`, `pane_id`, `claude_session_id` …
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
        """A node that is there already. Raises `NotFoundError` when it is not."""
        return RemoteNode(self._portal, self._portal.run(lambda: self._inner.get_node(node_id, session_id)))

    def node(self, node_id: str, session_id: Optional[str] = None) -> RemoteNode:
        """A node that is believed to be there: nothing is asked."""
        return RemoteNode(self._portal, self._portal.call(lambda: self._inner.node(node_id, session_id)))

    def list_nodes(self, session_id: Optional[str] = None) -> List[NodeInfo]:
        """All nodes of a session."""
        return self._portal.run(lambda: self._inner.list_nodes(session_id))

    def create_session(self, name: str, description: str = '', tags: Iterable[str] = ()) -> SessionInfo:
        """Makes a session."""
        return self._portal.run(lambda: self._inner.create_session(name, description, tags))

    def get_session(self, name: Optional[str] = None) -> SessionInfo:
        """One session; the default one if None."""
        return self._portal.run(lambda: self._inner.get_session(name))

    def list_sessions(self) -> List[SessionInfo]:
        """All sessions."""
        return self._portal.run(lambda: self._inner.list_sessions())

    def delete_session(self, name: str) -> None:
        """Stops a session's nodes and forgets it."""
        self._portal.run(lambda: self._inner.delete_session(name))

    def start_session(self, name: str) -> Lifecycle:
        """Starts all nodes of a session that do not run; tells which were started and which could not be."""
        return self._portal.run(lambda: self._inner.start_session(name))

    def stop_session(self, name: str) -> Lifecycle:
        """Stops all nodes of a session and keeps their definitions."""
        return self._portal.run(lambda: self._inner.stop_session(name))

    def get_result(self, result_id: str) -> Result:
        """What is known of an execution that `RemoteNode.execute_async` began. One that failed is no error here: see its `status`."""
        return self._portal.run(lambda: self._inner.get_result(result_id))

    def wait_for_result(self, result_id: str, timeout: Optional[float] = None) -> Result:
        """The same when it has ended. Raises `NerveTimeoutError` when it has not within `timeout` seconds (no limit if None)."""
        return self._portal.run(lambda: self._inner.wait_for_result(result_id, timeout))

    def list_results(
        self,
        *,
        session_id: Optional[str] = None,
        node_id: Optional[str] = None,
        last: Optional[int] = None,
    ) -> List[Result]:
        """Results, newest first, without their responses; the newest 100 if `last` is None."""
        return self._portal.run(lambda: self._inner.list_results(session_id=session_id, node_id=node_id, last=last))

    def cancel_result(self, result_id: str) -> Result:
        """Takes a prompt back, or interrupts its turn; gives the result as it is then."""
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
        """Runs a graph and waits for its end. Cancelling does not end the run: `cancel_run` does.

        A run that failed or was cancelled is a `ServerError` whose `data` has what was done.
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
        """The same without waiting: gives the run as it has begun."""
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
        """Runs a registered graph and waits for its end, as `execute_graph` does."""
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
        """The same without waiting: gives the run as it has begun."""
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
        """One registered graph, with its definition."""
        return self._portal.run(lambda: self._inner.get_graph(graph_id, session_id))

    def list_graphs(self, session_id: Optional[str] = None) -> List[GraphInfo]:
        """All graphs of a session, without their definitions."""
        return self._portal.run(lambda: self._inner.list_graphs(session_id))

    def delete_graph(self, graph_id: str, session_id: Optional[str] = None) -> None:
        """Forgets a graph; its runs go on."""
        self._portal.run(lambda: self._inner.delete_graph(graph_id, session_id))

    def cancel_graph(self, graph_id: str) -> List[str]:
        """Cancels all runs of a graph; gives their ids."""
        return self._portal.run(lambda: self._inner.cancel_graph(graph_id))

    def cancel_run(self, run_id: str) -> List[str]:
        """Cancels a run; gives its id."""
        return self._portal.run(lambda: self._inner.cancel_run(run_id))

    def list_runs(self) -> List[RunInfo]:
        """All runs the server knows, newest first, without their steps."""
        return self._portal.run(lambda: self._inner.list_runs())

    def get_run(self, run_id: str, last: Optional[int] = None) -> RunInfo:
        """A run as it is now. `last`: only so many of its steps, the latest."""
        return self._portal.run(lambda: self._inner.get_run(run_id, last))

    def resume_run(self, run_id: str, definition: Optional[Mapping[str, Any]] = None, *, trace: bool = False) -> RunEnded:
        """Goes on with a run whose server died, and waits for its end.

        `definition` takes the place of the run's own graph: what is unchanged in it is not run again.
        """
        return self._portal.run(lambda: self._inner.resume_run(run_id, definition, trace=trace))

    def restart_run(self, run_id: str, definition: Optional[Mapping[str, Any]] = None) -> RunInfo:
        """The same without waiting: gives the run as it goes on."""
        return self._portal.run(lambda: self._inner.restart_run(run_id, definition))

    def answer_gate(self, run_id: str, choice: str, step_id: Optional[str] = None) -> RunInfo:
        """Answers a gate that a run waits at; gives the run as it goes on. `step_id` may be left out where only one gate waits."""
        return self._portal.run(lambda: self._inner.answer_gate(run_id, choice, step_id))
