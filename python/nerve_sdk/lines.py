"""Connections over a Unix or TCP socket, with or without TLS."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Callable, List, Mapping, Optional, cast

from .keepalive import keep_alive
from .connection import Answer, Request, Pending, answer_of
from .errors import ConnectionClosedError, NerveError, NotRunningError, ProtocolError, ServerError, server_error
from .client_state import ClientState, Subscription
from .wire import MAX_LINE, decode, encode

#: Time to flush pending writes when a connection is closed, in seconds.
CLOSE_TIMEOUT = 1.0


class LineConnection(asyncio.Protocol):
    """A connected socket, shared by all requests. A request is written completely or not at all."""

    def __init__(self, state: ClientState, muted: bool = False) -> None:
        #: Ignores events, because the subscription is not restored yet.
        self.muted = muted
        #: The server has sent a message.
        self.has_received = False
        #: Called at the end with this connection and a function that creates the error.
        self.on_end: Optional[Callable[[LineConnection, Callable[[], NerveError]], None]] = None
        self._state = state
        self._transport: Optional[asyncio.Transport] = None
        self._parts: List[bytes] = []
        self._held = 0
        self._pending = Pending()
        #: A SUBSCRIBE was sent and has not failed.
        self._subscribed = False
        #: The SUBSCRIBE for event streams. Nothing waits for its answer.
        self._own_subscribe: Optional[Request] = None
        self._why: Optional[Callable[[], NerveError]] = None
        self._writable = asyncio.Event()
        self._lost = asyncio.Event()

    @property
    def ended(self) -> bool:
        """True if the connection has ended."""
        return self._why is not None

    async def ask(self, request: Request) -> Answer:
        """Sends a request and waits for its answer. Cancelling discards only the answer.

        Raises `ConnectionClosedError`, whose `sent` tells whether the request was sent, and `ProtocolError`.
        """
        sent = False
        try:
            self._check_open()
            self._pending.add(request)
            await self._writable.wait()
            self._check_open()
            self._subscribed = self._subscribed or request.subscription is not None
            self._write(request.line)
            sent = True
            answer = await self._pending.wait(request.request_id)
            if isinstance(answer.error, (ConnectionClosedError, ProtocolError)):
                raise answer.error
        except ConnectionClosedError as error:
            error.sent, error.request_id = sent, request.request_id
            raise
        finally:
            self._pending.give_up(request.request_id)
        if isinstance(answer.error, ServerError):
            answer.error.request_id = request.request_id
        return answer

    def subscribe_once(self) -> None:
        """Subscribes to all events, unless the connection has subscribed.

        Until then a server sends only the events that the first version of the protocol had. Nothing waits for the answer.
        """
        if self.ended or self._subscribed:
            return
        self._subscribed = True
        request_id = self._state.new_id()
        self._own_subscribe = Request(request_id, encode("SUBSCRIBE", {}, request_id), None, Subscription({}, None))
        self._write(self._own_subscribe.line)

    async def close(self) -> None:
        """Closes the connection; pending requests fail."""
        self._end(lambda: ConnectionClosedError("this client is closed"))
        if self._transport is None:
            return
        self._transport.close()
        try:
            await asyncio.wait_for(self._lost.wait(), CLOSE_TIMEOUT)
        except asyncio.TimeoutError:
            # The server does not read.
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implements `asyncio.Protocol`."""
        self._transport = cast(asyncio.Transport, transport)
        keep_alive(transport)
        self._writable.set()

    def pause_writing(self) -> None:
        """Implements `asyncio.Protocol`: the server reads too slowly, so new requests wait."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Implements `asyncio.Protocol`."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Implements `asyncio.Protocol`: splits the data into lines."""
        start = 0
        while self._why is None:
            end = data.find(b"\n", start)
            part = data[start:] if end < 0 else data[start:end]
            self._held += len(part)
            if self._held > MAX_LINE:
                return self._break(ProtocolError(f"the server sent a line of more than {MAX_LINE} bytes"))
            if end < 0:
                if part:
                    self._parts.append(part)
                return
            line = b"".join([*self._parts, part]) if self._parts else part
            self._parts.clear()
            self._held = 0
            start = end + 1
            if line.strip():
                self._take(line)

    def connection_lost(self, error: Optional[Exception]) -> None:
        """Implements `asyncio.Protocol`."""
        self._lost.set()
        if error is None or isinstance(error, (ConnectionResetError, BrokenPipeError)):
            self._end(lambda: ConnectionClosedError("the server closed the connection"))
        else:
            reason = f"the connection to the server failed: {error}"
            self._end(lambda: ConnectionClosedError(reason))

    def _take(self, line: bytes) -> None:
        try:
            self._deliver(decode(line))
        except ProtocolError as error:
            self._break(error)

    def _deliver(self, message: Mapping[str, Any]) -> None:
        self.has_received = True
        kind = message.get("type")
        if kind == "result":
            self._answer(message)
        elif kind == "event":
            self._pending.offer(message)
            if not self.muted:
                self._state.publish(message)
        elif kind == "error":
            self._refuse(message)
        # Messages of other types come from newer servers and are ignored.

    def _answer(self, message: Mapping[str, Any]) -> None:
        answer = answer_of(message)
        request = self._own_subscribe
        if request is not None and request.request_id == message.get("request_id"):
            self._own_subscribe = None
        else:
            request = self._pending.answer(message.get("request_id"), answer)
        if request is None:
            self._state.count_unmatched(message.get("request_id"))
        elif request.subscription is None:
            return
        elif answer.error is None:
            # Takes effect before the events that follow the answer.
            self.muted = not self._state.subscribed(request.subscription, answer.data)
        else:
            self._subscribed = self._state.has_filter

    def _refuse(self, message: Mapping[str, Any]) -> None:
        """Handles an unreadable request. If the server does not know its id, all pending requests fail."""
        text, fields = message.get("error"), {"error_type": message.get("error_type")}

        def refused() -> ServerError:
            return server_error(text, fields)

        request_id = message.get("request_id")
        if request_id is None:
            self._pending.fail_all(refused)
        elif self._pending.answer(request_id, Answer(error=refused())) is None:
            self._state.count_unmatched(request_id)

    def _write(self, line: bytes) -> None:
        if self._transport is not None:
            self._transport.write(line)

    def _break(self, error: ProtocolError) -> None:
        """Ends the connection after an invalid message."""
        reason = str(error)
        self._end(lambda: ProtocolError(reason))
        if self._transport is not None:
            self._transport.abort()

    def _end(self, why: Callable[[], NerveError]) -> None:
        """Ends the connection; the first reason is kept."""
        if self._why is not None:
            return
        self._why = why
        self._parts.clear()
        # Wakes requests that wait to write.
        self._writable.set()
        self._pending.fail_all(why)
        if self.on_end is not None:
            self.on_end(self, why)

    def _check_open(self) -> None:
        if self._why is not None:
            raise self._why()


async def open_unix(path: str, timeout: Optional[float], state: ClientState, muted: bool = False) -> LineConnection:
    """Connects to a server's Unix socket.

    Raises `NotRunningError` if no server accepts the connection within `timeout` seconds.
    """
    loop = asyncio.get_running_loop()
    try:
        opening = loop.create_unix_connection(lambda: LineConnection(state, muted), path)
        _, connection = await asyncio.wait_for(opening, timeout)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NotRunningError(f"no server is running at {path} (start one with: nerve server start)") from error
    except asyncio.TimeoutError as error:
        raise NotRunningError(f"the server at {path} did not accept the connection within {timeout} s") from error
    except OSError as error:
        raise NerveError(f"cannot connect to {path}: {error}") from error
    return connection


async def open_tcp(
    host: str,
    port: int,
    token: str,
    tls: Optional[ssl.SSLContext],
    timeout: Optional[float],
    state: ClientState,
    muted: bool = False,
) -> LineConnection:
    """Connects to a server's TCP port and authenticates.

    Raises `NotRunningError` if no server accepts the connection within `timeout` seconds, `AuthenticationError` if the token is wrong.
    """
    loop = asyncio.get_running_loop()
    where = f"{host}:{port}"
    try:
        opening = loop.create_connection(lambda: LineConnection(state, muted), host, port, ssl=tls)
        _, connection = await asyncio.wait_for(opening, timeout)
    except ssl.SSLError as error:
        raise NerveError(f"cannot connect to {where}: TLS: {error}") from error
    except ConnectionRefusedError as error:
        raise NotRunningError(
            f"no server is running at {where} (start one with: nerve server start --tcp {where})"
        ) from error
    except asyncio.TimeoutError as error:
        raise NotRunningError(f"no server at {where} accepted the connection within {timeout} s") from error
    except OSError as error:
        raise NerveError(f"cannot connect to {where}: {error}") from error
    try:
        request_id = state.new_id()
        shown = Request(request_id, encode("AUTHENTICATE", {"token": token}, request_id), None, None)
        answer = await asyncio.wait_for(connection.ask(shown), timeout)
        if answer.error is not None:
            raise answer.error
    except BaseException as error:
        await connection.close()
        if isinstance(error, asyncio.TimeoutError) and not isinstance(error, ServerError):
            raise NotRunningError(f"{where} did not answer AUTHENTICATE within {timeout} s: is it a nerve server?") from error
        raise
    return connection
