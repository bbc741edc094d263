"""A socket that carries the wire's lines: Unix or TCP, with TLS or without."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Callable, List, Mapping, Optional, cast

from .alive import keep_alive
from .connection import Answer, Asked, Pending, answer_of
from .errors import ConnectionClosedError, NerveError, NotRunningError, ProtocolError, ServerError, server_error
from .inbox import Inbox
from .wire import MAX_LINE, decode, encode

#: How long what was written may take to leave when a connection is closed, in seconds.
CLOSE_PATIENCE = 1.0


class LineConnection(asyncio.Protocol):
    """A connected socket, shared by all requests. What is asked goes out whole or not at all."""

    def __init__(self, inbox: Inbox, muted: bool = False) -> None:
        #: Events are passed over: what they are is not asked for yet.
        self.muted = muted
        #: The server has said something.
        self.heard = False
        #: Told of the end: this connection, and what makes the reason.
        self.on_end: Optional[Callable[[LineConnection, Callable[[], NerveError]], None]] = None
        self._inbox = inbox
        self._transport: Optional[asyncio.Transport] = None
        self._parts: List[bytes] = []
        self._held = 0
        self._pending = Pending()
        self._why: Optional[Callable[[], NerveError]] = None
        self._writable = asyncio.Event()
        self._lost = asyncio.Event()

    @property
    def ended(self) -> bool:
        """It is of no more use."""
        return self._why is not None

    async def ask(self, asked: Asked) -> Answer:
        """Sends a request and waits for its answer. Cancelling gives up the answer and nothing else.

        Raises `ConnectionClosedError`, which says whether the request went out, and `ProtocolError`.
        """
        sent = False
        try:
            self._check_open()
            self._pending.add(asked)
            await self._writable.wait()
            self._check_open()
            self._write(asked.line)
            sent = True
            answer = await self._pending.wait(asked.request_id)
            if isinstance(answer.error, (ConnectionClosedError, ProtocolError)):
                raise answer.error
        except ConnectionClosedError as error:
            error.sent, error.request_id = sent, asked.request_id
            raise
        finally:
            self._pending.give_up(asked.request_id)
        if isinstance(answer.error, ServerError):
            answer.error.request_id = asked.request_id
        return answer

    async def close(self) -> None:
        """Ends the connection; all that wait are told."""
        self._end(lambda: ConnectionClosedError("this client is closed"))
        if self._transport is None:
            return
        self._transport.close()
        try:
            await asyncio.wait_for(self._lost.wait(), CLOSE_PATIENCE)
        except asyncio.TimeoutError:
            # The server does not read what was written.
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Of asyncio."""
        self._transport = cast(asyncio.Transport, transport)
        keep_alive(transport)
        self._writable.set()

    def pause_writing(self) -> None:
        """Of asyncio: the server reads slower than is written. Who comes now waits."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Of asyncio."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Of asyncio: takes the lines apart."""
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
        """Of asyncio."""
        self._lost.set()
        if error is None or isinstance(error, (ConnectionResetError, BrokenPipeError)):
            self._end(lambda: ConnectionClosedError("the server closed the connection"))
        else:
            reason = f"the connection to the server broke: {error}"
            self._end(lambda: ConnectionClosedError(reason))

    def _take(self, line: bytes) -> None:
        try:
            self._deliver(decode(line))
        except ProtocolError as error:
            self._break(error)

    def _deliver(self, message: Mapping[str, Any]) -> None:
        self.heard = True
        kind = message.get("type")
        if kind == "result":
            self._answer(message)
        elif kind == "event":
            self._pending.offer(message)
            if not self.muted:
                self._inbox.publish(message)
        elif kind == "error":
            self._refuse(message)
        # A newer server may have more kinds of messages; they concern nobody here.

    def _answer(self, message: Mapping[str, Any]) -> None:
        answer = answer_of(message)
        asked = self._pending.answer(message.get("request_id"), answer)
        if asked is None:
            self._inbox.count_unmatched(message.get("request_id"))
        elif asked.subscribing is not None and answer.error is None:
            # Before the events that come behind the answer.
            self.muted = not self._inbox.subscribed(asked.subscribing, answer.data)

    def _refuse(self, message: Mapping[str, Any]) -> None:
        """The server could not read something. Which request that was it can only sometimes say; if not, none may wait for ever."""
        text = message.get("error")

        def refused() -> ServerError:
            return server_error(text, {"error_type": "invalid_request_error"})

        request_id = message.get("request_id")
        if request_id is None:
            self._pending.fail_all(refused)
        elif self._pending.answer(request_id, Answer(error=refused())) is None:
            self._inbox.count_unmatched(request_id)

    def _write(self, line: bytes) -> None:
        if self._transport is not None:
            self._transport.write(line)

    def _break(self, error: ProtocolError) -> None:
        """After what could not be read nothing can be believed."""
        reason = str(error)
        self._end(lambda: ProtocolError(reason))
        if self._transport is not None:
            self._transport.abort()

    def _end(self, why: Callable[[], NerveError]) -> None:
        """The first reason counts."""
        if self._why is not None:
            return
        self._why = why
        self._parts.clear()
        # Who waits to write must find out too.
        self._writable.set()
        self._pending.fail_all(why)
        if self.on_end is not None:
            self.on_end(self, why)

    def _check_open(self) -> None:
        if self._why is not None:
            raise self._why()


async def open_unix(path: str, timeout: Optional[float], inbox: Inbox, muted: bool = False) -> LineConnection:
    """Connects to a server's Unix socket.

    Raises `NotRunningError` when nobody listens there within `timeout` seconds.
    """
    loop = asyncio.get_running_loop()
    try:
        opening = loop.create_unix_connection(lambda: LineConnection(inbox, muted), path)
        _, connection = await asyncio.wait_for(opening, timeout)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NotRunningError(f"no server is running at {path} (start one with: nerve server start)") from error
    except asyncio.TimeoutError as error:
        raise NotRunningError(f"the server at {path} took no connection within {timeout} s") from error
    except OSError as error:
        raise NerveError(f"cannot connect to {path}: {error}") from error
    return connection


async def open_tcp(
    host: str,
    port: int,
    token: str,
    tls: Optional[ssl.SSLContext],
    timeout: Optional[float],
    inbox: Inbox,
    muted: bool = False,
) -> LineConnection:
    """Connects to a server's TCP port and shows the token.

    Raises `NotRunningError` when nobody listens there within `timeout` seconds, `AuthenticationError` when the token is wrong.
    """
    loop = asyncio.get_running_loop()
    where = f"{host}:{port}"
    try:
        opening = loop.create_connection(lambda: LineConnection(inbox, muted), host, port, ssl=tls)
        _, connection = await asyncio.wait_for(opening, timeout)
    except ssl.SSLError as error:
        raise NerveError(f"cannot connect to {where}: TLS: {error}") from error
    except ConnectionRefusedError as error:
        raise NotRunningError(
            f"no server is running at {where} (start one with: nerve server start --tcp {where})"
        ) from error
    except asyncio.TimeoutError as error:
        raise NotRunningError(f"nobody at {where} took the connection within {timeout} s") from error
    except OSError as error:
        raise NerveError(f"cannot connect to {where}: {error}") from error
    try:
        request_id = inbox.new_id()
        shown = Asked(request_id, encode("AUTHENTICATE", {"token": token}, request_id), None, None)
        answer = await asyncio.wait_for(connection.ask(shown), timeout)
        if answer.error is not None:
            raise answer.error
    except BaseException as error:
        await connection.close()
        if isinstance(error, asyncio.TimeoutError) and not isinstance(error, ServerError):
            raise NotRunningError(f"{where} did not answer AUTHENTICATE within {timeout} s: is it a nerve server?") from error
        raise
    return connection
