"""Connections that are made again when they have ended."""

from __future__ import annotations

import asyncio
import random
import ssl
from typing import Any, Awaitable, Callable, Mapping, Optional

from .connection import Asked, Sink
from .errors import BusyError, ConnectionClosedError, NerveError, NotRunningError, ProtocolError, RateLimitError
from .events import EventStream
from .inbox import Inbox, Subscribing
from .lines import LineConnection
from .order import StreamOrder
from .wire import encode

#: How long a server that is not there is waited for, in seconds: as long as one takes that is started again.
PATIENCE = 10.0
#: The first pause between two tries, in seconds; each further one is twice as long, up to the longest.
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0

#: Commands that change nothing: asking twice does no harm.
LOOKS = frozenset(
    "PING LIST_NODES GET_NODE GET_RESULT LIST_RESULTS GET_BUFFER GET_HISTORY EXPLAIN_NODE GET_GRAPH LIST_GRAPHS LIST_RUNS GET_RUN "
    "GET_SESSION LIST_SESSIONS SUBSCRIBE AUTHENTICATE LIST_CHANNELS GET_CHANNEL".split()
)

#: Makes a connection that is let in: over it come events, unless it is muted.
Dial = Callable[[Inbox, bool], Awaitable[LineConnection]]


class Backoff:
    """How long to wait before the next try, after some that failed."""

    def __init__(self) -> None:
        self._failures = 0
        self._next = 0.0

    def pause(self, now: float) -> float:
        """Seconds until the next try may begin."""
        return max(0.0, self._next - now)

    def failed(self, now: float) -> None:
        """A try failed. The pause is partly chance, so that many clients do not come all at once."""
        longest = min(FIRST_PAUSE * 2 ** min(self._failures, 16), LONGEST_PAUSE)
        self._failures += 1
        self._next = now + longest * random.uniform(0.5, 1.0)

    def succeeded(self) -> None:
        """The server was heard."""
        self._failures, self._next = 0, 0.0


def is_passing(error: BaseException) -> bool:
    """Another try may have more luck: who listens is not there yet, or has no room."""
    if isinstance(error, (NotRunningError, ConnectionClosedError, BusyError, RateLimitError)):
        return True
    cause = error.__cause__
    return isinstance(error, NerveError) and isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError)


class LastingConnection:
    """A connection, and another one when that has ended, for `patience` seconds; 0: none."""

    def __init__(self, dial: Dial, connection: LineConnection, inbox: Inbox, patience: float) -> None:
        self._dial = dial
        self._inbox = inbox
        self._patience = patience
        self._backoff = Backoff()
        self._dialing: Optional[asyncio.Task[LineConnection]] = None
        self._over: Optional[Callable[[], NerveError]] = None
        self._in_flight = 0
        self._again = False
        self._take(connection)

    @classmethod
    async def open(cls, dial: Dial, patience: float) -> LastingConnection:
        """Connects for the first time: once, and without patience."""
        inbox = Inbox()
        return cls(dial, await dial(inbox, False), inbox, patience)

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answer."""
        return self._in_flight

    @property
    def unmatched_answers(self) -> int:
        """Answers that came to what was never asked."""
        return self._inbox.unmatched

    @property
    def order(self) -> StreamOrder:
        """Which of the client's streams chunks belong to."""
        return self._inbox.order

    async def request(self, command: str, params: Mapping[str, Any], sink: Optional[Sink] = None) -> Any:
        """Sends a command and waits for the `data` of its result.

        There is no limit of time: cancel the task, or put it into a timeout. Cancelling gives up the answer and nothing else. What goes
        out is never sent twice, unless it changes nothing.
        """
        request_id = self._inbox.new_id()
        subscribing = Subscribing.asked(params) if command == "SUBSCRIBE" else None
        asked = Asked(request_id, encode(command, params, request_id), sink, subscribing)
        self._in_flight += 1
        try:
            answer = await self._ask(asked, command in LOOKS)
        finally:
            self._in_flight -= 1
        self._inbox.warner.tell(answer.warnings)
        if answer.error is not None:
            raise answer.error
        self._inbox.order.heed(command, params.get("session_id"), params.get("node_id"))
        return answer.data

    async def subscribe(self, filter: Mapping[str, Any]) -> EventStream:
        """Says which events this client is to get; holds for all its streams."""
        # Made before asking: events may come before the answer.
        stream = self._inbox.hub.open()
        await self.request("SUBSCRIBE", {name: value for name, value in filter.items() if value is not None})
        return stream

    def events(self) -> EventStream:
        """The events this client gets from now on."""
        stream = self._inbox.hub.open()
        if self._connection.ended and self._over is None:
            self._listen()
        return stream

    async def close(self) -> None:
        """Ends the connection; all that wait are told."""
        if self._over is None:
            self._over = lambda: ConnectionClosedError("this client is closed")
        self._inbox.hub.end()
        if self._dialing is not None:
            self._dialing.cancel()
            await asyncio.wait([self._dialing])
        await self._connection.close()

    async def _ask(self, asked: Asked, again: bool) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience
        while True:
            connection = await self._connected(asked, deadline)
            try:
                return await connection.ask(asked)
            except ConnectionClosedError as error:
                # What did not go out cannot have been done. What did is asked once more only if that does no harm.
                if self._over is not None or not self._patience:
                    raise
                if error.sent and again:
                    again, deadline = False, loop.time() + self._patience
                elif error.sent or loop.time() >= deadline:
                    raise

    async def _connected(self, asked: Asked, deadline: float) -> LineConnection:
        """The connection, or another one if it has ended."""
        loop = asyncio.get_running_loop()
        while True:
            if self._over is not None:
                raise _named(self._over(), asked)
            if not self._connection.ended:
                return self._connection
            self._listen()
            dialing = self._dialing
            assert dialing is not None
            # Not awaited itself: who is cancelled here does not end it for the others.
            await asyncio.wait([dialing])
            failed = None if dialing.cancelled() else dialing.exception()
            # It may have begun long before this request did, and given up too early for it.
            if failed is not None and (loop.time() >= deadline or not is_passing(failed)):
                # One of its own for each: tracebacks are kept in them.
                raise _again(failed)

    async def _dial_again(self) -> LineConnection:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience
        last: Optional[NerveError] = None
        if self._again and not self._connection.heard:
            # It was closed at once.
            self._backoff.failed(loop.time())
        elif self._connection.heard:
            self._backoff.succeeded()
        while True:
            try:
                pause = self._backoff.pause(loop.time())
                if loop.time() + pause > deadline:
                    await asyncio.sleep(max(0.0, deadline - loop.time()))
                    raise asyncio.TimeoutError
                await asyncio.sleep(pause)
                connection = await asyncio.wait_for(self._open(), deadline - loop.time())
                self._again = True
                return connection
            except asyncio.TimeoutError as error:
                raise (last or NotRunningError(f"no server took the connection within {self._patience} s")) from error
            except NerveError as error:
                self._backoff.failed(loop.time())
                if not is_passing(error):
                    raise
                last = error

    async def _open(self) -> LineConnection:
        """Makes a connection that is as the last one was."""
        connection = await self._dial(self._inbox, True)
        try:
            subscribing = self._inbox.to_resume()
            while subscribing is not None:
                request_id = self._inbox.new_id()
                line = encode("SUBSCRIBE", subscribing.params(), request_id)
                answer = await connection.ask(Asked(request_id, line, None, subscribing))
                if answer.error is not None:
                    raise answer.error
                subscribing = subscribing.from_the_beginning() if connection.muted and not subscribing.anew else None
            connection.muted = False
            if connection.ended:
                raise ConnectionClosedError("the server closed the connection")
        except BaseException:
            await connection.close()
            raise
        self._take(connection)
        return connection

    def _take(self, connection: LineConnection) -> None:
        self._connection = connection
        self._inbox.order.forget()
        connection.on_end = self._ended

    def _ended(self, connection: LineConnection, why: Callable[[], NerveError]) -> None:
        """A connection has ended."""
        if connection is not self._connection:
            return
        if not self._patience or isinstance(why(), ProtocolError):
            # What talks nonsense is no nerve server: another connection would be no better.
            self._over = self._over or why
        if self._over is not None:
            self._inbox.hub.end()
        elif self._inbox.hub.heard:
            self._listen()

    def _listen(self) -> None:
        """Connects again for those who read events."""
        if self._dialing is None:
            self._dialing = asyncio.ensure_future(self._dial_again())
            self._dialing.add_done_callback(self._dialed)

    def _dialed(self, dialing: asyncio.Task[LineConnection]) -> None:
        self._dialing = None
        if not dialing.cancelled() and dialing.exception() is not None:
            self._inbox.hub.end_streams()
        elif self._connection.ended and self._over is None and self._inbox.hub.heard:
            self._listen()


def _named(error: NerveError, asked: Asked) -> NerveError:
    if isinstance(error, ConnectionClosedError):
        error.request_id = asked.request_id
    return error


def _again(error: BaseException) -> BaseException:
    """The same error, to be raised by another task."""
    copy = type(error).__new__(type(error))
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = error.__cause__
    return copy
