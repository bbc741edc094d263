"""Commands for a node."""

from __future__ import annotations

import enum
import warnings
from typing import Any, Awaitable, Dict, Iterable, Mapping, Optional, Union

from .connection import Connection
from .stream import ExecuteStream
from .reply import field_of, from_wire, response_of
from .types import Explanation, History, NodeInfo, Response, Transcript

#: `claude`, `codex`, `gemini`, `opencode`, `pi`, `qwen`, `copilot`, `kimi`, `none`, or an enum with these values.
Parser = Union[str, enum.Enum]


class RemoteNode:
    """A node on a server. All methods raise the same errors as `NerveClient.request`."""

    def __init__(self, connection: Connection, node_id: str, session_id: Optional[str] = None) -> None:
        self._connection = connection
        self._node_id = node_id
        self._session_id = session_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._node_id!r})"

    @property
    def id(self) -> str:
        """The node's id."""
        return self._node_id

    @property
    def session_id(self) -> Optional[str]:
        """The node's session; None: the default session."""
        return self._session_id

    async def info(self) -> NodeInfo:
        """Returns information about the node."""
        return from_wire(NodeInfo, await self._request("GET_NODE"))

    async def execute(
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
        options = _prompt(
            input, parser, timeout, fail_if_busy, fail_if_blocked, detach_on_timeout, conversation, traceparent
        )
        return response_of(await self._request("EXECUTE_INPUT", **options))

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
        options = _prompt(
            input, parser, timeout, fail_if_busy, fail_if_blocked, detach_on_timeout, conversation, traceparent
        )
        return ExecuteStream(self._connection, self._params(stream=True, **options))

    async def execute_async(
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
        options = _prompt(
            input, parser, timeout, fail_if_busy, fail_if_blocked, detach_on_timeout, conversation, traceparent
        )
        data = await self._request("EXECUTE_INPUT", **options, **{"async": True}, webhook=webhook)
        return str(field_of(data, "result_id"))

    async def write(self, data: str) -> int:
        """Writes data unchanged; returns the number of bytes written."""
        return int(field_of(await self._request("WRITE_DATA", data=data), "written"))

    async def run(self, command: str) -> None:
        """Types a command without waiting for its end."""
        await self._request("RUN_COMMAND", command=command)

    async def read(self, lines: Optional[int] = None) -> str:
        """Returns the last `lines` lines of text; None: all."""
        return str(field_of(await self._request("GET_BUFFER", lines=lines), "buffer"))

    async def read_tail(self, lines: int = 50) -> str:
        """Returns the last `lines` lines of text."""
        return await self.read(lines)

    async def clear_buffer(self) -> None:
        """Clears the text buffer but not the screen."""
        await self._request("CLEAR_BUFFER")

    async def interrupt(self) -> None:
        """Interrupts the current turn."""
        await self._request("SEND_INTERRUPT")

    async def resize(self, cols: int, rows: int) -> None:
        """Resizes the terminal."""
        await self._request("RESIZE_NODE", cols=cols, rows=rows)

    async def show(
        self,
        multiplexer: str = "tmux",
        *,
        split: Optional[str] = None,
        tmux_session: Optional[str] = None,
        socket: Optional[str] = None,
    ) -> str:
        """Opens a pane that shows the terminal, or focuses the one that does; returns the pane's id.

        `split`: a pane to split; the new one appears to its right.
        """
        reply = await self._request(
            "SHOW_NODE", multiplexer=multiplexer, split=split, tmux_session=tmux_session, socket=socket
        )
        return reply["pane_id"]

    async def wait(self, until: Union[str, Iterable[str]] = "ready", timeout: Optional[float] = None) -> str:
        """Waits until the node is in one of the states `until`; returns the state.

        Raises `NerveTimeoutError` after `timeout` seconds (None: the node's limit).
        """
        states = until if isinstance(until, str) else list(until)
        return str(field_of(await self._request("WAIT_NODE", until=states, timeout=timeout), "state"))

    async def history(
        self,
        last: Optional[int] = None,
        *,
        op: Optional[str] = None,
        seq: Optional[int] = None,
        inputs_only: bool = False,
        server_name: Optional[str] = None,
    ) -> History:
        """Returns the `last` entries of the audit log, filtered by operation, number or inputs."""
        options: Dict[str, Any] = {"last": last, "op": op, "seq": seq, "server_name": server_name}
        return from_wire(History, await self._request("GET_HISTORY", **options, inputs_only=inputs_only))

    async def transcript(
        self, turn: Optional[int] = None, *, before: Optional[int] = None, limit: Optional[int] = None
    ) -> Transcript:
        """Returns the node's prompts and answers: all, one turn, or the newest `limit` turns before the turn `before`."""
        reply = await self._request("GET_TRANSCRIPT", turn=turn, before=before, limit=limit)
        return from_wire(Transcript, reply)

    async def why(self) -> Explanation:
        """Explains the node's state and returns its screen."""
        return from_wire(Explanation, await self._request("EXPLAIN_NODE"))

    async def answer(
        self, choice: Union[int, str], *, wait: bool = False, timeout: Optional[float] = None
    ) -> Optional[Response]:
        """Answers the current dialog with the number of a choice (from 1) or part of its label.

        `wait` waits for the end of the interrupted turn and returns its response, if any.
        """
        data = await self._request("ANSWER_NODE", choice=choice, wait=wait, timeout=timeout)
        return response_of(data) if isinstance(data, Mapping) and data.get("response") is not None else None

    async def cancel_dialog(self) -> None:
        """Cancels the current dialog."""
        await self._request("ANSWER_NODE", cancel=True)

    async def fork(self, target_id: str, at: Optional[int] = None) -> RemoteNode:
        """Creates a node that continues this one's conversation, from its end or from turn `at` (from 1)."""
        params = {"source_id": self._node_id, "target_id": target_id, "at": at, "session_id": self._session_id}
        data = await self._connection.request("FORK_NODE", params)
        return RemoteNode(self._connection, str(field_of(data, "node_id")), self._session_id)

    async def start(self, fresh: bool = False) -> None:
        """Starts the stopped node again. An agent resumes its conversation, unless `fresh` asks for a new one."""
        await self._request("START_NODE", fresh=fresh)

    async def stop(self) -> None:
        """Stops the node. It can be started again."""
        await self._request("STOP_NODE")

    async def remove(self) -> None:
        """Removes the stopped node, so that it cannot be started again."""
        await self._request("REMOVE_NODE")

    def _params(self, **params: Any) -> Dict[str, Any]:
        return {"node_id": self._node_id, "session_id": self._session_id, **params}

    async def _request(self, name: str, /, **params: Any) -> Any:
        return await self._connection.request(name, self._params(**params))


class RemoteChannel(RemoteNode):
    """A node with its deprecated method names."""

    @property
    def channel_id(self) -> str:
        """Deprecated: `id`."""
        deprecated("RemoteChannel.channel_id", "RemoteNode.id")
        return self._node_id

    def send(
        self, input: str, parser: Optional[Parser] = None, timeout: Optional[float] = None
    ) -> Awaitable[Response]:
        """Deprecated: `execute`."""
        deprecated("RemoteChannel.send", "RemoteNode.execute")
        return self.execute(input, parser, timeout)

    def send_stream(self, input: str, parser: Optional[Parser] = None) -> ExecuteStream:
        """Deprecated: `execute_stream`."""
        deprecated("RemoteChannel.send_stream", "RemoteNode.execute_stream")
        return self.execute_stream(input, parser)

    def close(self) -> Awaitable[None]:
        """Deprecated: `stop`."""
        deprecated("RemoteChannel.close", "RemoteNode.stop")
        return self.stop()


def deprecated(old: str, new: str) -> None:
    """Issues a DeprecationWarning for the caller's caller."""
    warnings.warn(f"{old} is deprecated, use {new}", DeprecationWarning, stacklevel=3)


def _prompt(
    text: str,
    parser: Optional[Parser],
    timeout: Optional[float],
    fail_if_busy: bool,
    fail_if_blocked: bool,
    detach_on_timeout: bool,
    conversation: Optional[Mapping[str, Any]],
    traceparent: Optional[str],
) -> Dict[str, Any]:
    return {
        "text": text,
        "parser": parser.value if isinstance(parser, enum.Enum) else parser,
        "timeout": timeout,
        "fail_if_busy": fail_if_busy,
        "fail_if_blocked": fail_if_blocked,
        "detach_on_timeout": detach_on_timeout,
        "conversation": conversation,
        "traceparent": traceparent,
    }
