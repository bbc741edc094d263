"""Connections that reconnect."""

from __future__ import annotations

import asyncio
import random
import ssl
from typing import Any, Awaitable, Callable, Mapping, Optional

from .connection import Request, Sink
from .errors import BusyError, ConnectionClosedError, NerveError, NotRunningError, ProtocolError, RateLimitError
from .events import EventStream
from .client_state import ClientState, Subscription
from .lines import LineConnection
from .stream_order import StreamOrder
from .wire import encode

#: Default time to wait for an unreachable server, in seconds: enough for a restart.
RECONNECT_TIMEOUT = 10.0
#: First and longest pause between two attempts, in seconds; each pause doubles the last one.
MIN_PAUSE = 0.05
MAX_PAUSE = 2.0

#: Commands without side effects, which may be repeated.
READ_ONLY_COMMANDS = frozenset(
    "PING LIST_NODES GET_NODE GET_RESULT LIST_RESULTS GET_BUFFER GET_HISTORY EXPLAIN_NODE GET_GRAPH LIST_GRAPHS LIST_RUNS GET_RUN "
    "GET_TRANSCRIPT SEARCH GET_SESSION LIST_SESSIONS LIST_RECORDINGS GET_TIMELINE READ_RECORDING GET_RECORDING_FILE LIST_SNAPSHOTS LIST_BRANCHES SUBSCRIBE AUTHENTICATE LIST_CHANNELS GET_CHANNEL".split()
)

#: Opens an authenticated connection. A muted one ignores events.
Dial = Callable[[ClientState, bool], Awaitable[LineConnection]]


class Backoff:
    """Exponential backoff with jitter."""

    def __init__(self) -> None:
        self._failures = 0
        self._next = 0.0

    def pause(self, now: float) -> float:
        """Returns the seconds until the next attempt may begin."""
        return max(0.0, self._next - now)

    def failed(self, now: float) -> None:
        """Records a failed attempt. Jitter spreads the attempts of many clients."""
        longest = min(MIN_PAUSE * 2 ** min(self._failures, 16), MAX_PAUSE)
        self._failures += 1
        self._next = now + longest * random.uniform(0.5, 1.0)

    def succeeded(self) -> None:
        """Records that the server answered."""
        self._failures, self._next = 0, 0.0


def is_transient(error: BaseException) -> bool:
    """Returns True for an error that a retry may resolve."""
    if isinstance(error, (NotRunningError, ConnectionClosedError, BusyError, RateLimitError)):
        return True
    cause = error.__cause__
    return isinstance(error, NerveError) and isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError)


class ReconnectingConnection:
    """A connection that reconnects for at most `reconnect_timeout` seconds; 0: never."""

    def __init__(self, dial: Dial, connection: LineConnection, state: ClientState, reconnect_timeout: float) -> None:
        self._dial = dial
        self._state = state
        self._reconnect_timeout = reconnect_timeout
        self._backoff = Backoff()
        self._dialing: Optional[asyncio.Task[LineConnection]] = None
        self._end_reason: Optional[Callable[[], NerveError]] = None
        self._in_flight = 0
        self._reconnected = False
        self._use(connection)

    @classmethod
    async def open(cls, dial: Dial, reconnect_timeout: float) -> ReconnectingConnection:
        """Connects for the first time, without retries."""
        state = ClientState()
        return cls(dial, await dial(state, False), state, reconnect_timeout)

    @property
    def in_flight(self) -> int:
        """Number of requests that wait for their answer."""
        return self._in_flight

    @property
    def unmatched_answers(self) -> int:
        """Number of answers that match no request."""
        return self._state.unmatched

    @property
    def order(self) -> StreamOrder:
        """Assigns chunks to the client's streams."""
        return self._state.order

    async def request(self, command: str, params: Mapping[str, Any], sink: Optional[Sink] = None) -> Any:
        """Sends a command and waits for the `data` of its result.

        There is no time limit: cancel the task, or use a timeout. Cancelling discards only the answer. Commands with side effects are
        never sent twice.
        """
        request_id = self._state.new_id()
        subscription = Subscription.from_params(params) if command == "SUBSCRIBE" else None
        request = Request(request_id, encode(command, params, request_id), sink, subscription)
        self._in_flight += 1
        try:
            answer = await self._ask(request, command in READ_ONLY_COMMANDS)
        finally:
            self._in_flight -= 1
        self._state.warnings.report(answer.warnings)
        if answer.error is not None:
            raise answer.error
        self._state.order.observe(command, params.get("session_id"), params.get("node_id"))
        return answer.data

    async def subscribe(self, filter: Mapping[str, Any]) -> EventStream:
        """Subscribes to events; applies to all streams of this client."""
        # Opened first, because events may arrive before the answer is read.
        stream = self._state.hub.open()
        answer = await self.request("SUBSCRIBE", {name: value for name, value in filter.items() if value is not None})
        newest, since = answer.get("seq") or 0, filter.get("since")
        stream._start_after(newest if since is None else min(since, newest))
        return stream

    def events(self) -> EventStream:
        """Returns a stream of this client's events from now on."""
        stream = self._state.hub.open()
        if not self._connection.ended:
            self._connection.subscribe_once()
        elif self._end_reason is None:
            self._start_reconnect()
        return stream

    async def close(self) -> None:
        """Closes the connection; pending requests fail."""
        if self._end_reason is None:
            self._end_reason = lambda: ConnectionClosedError("this client is closed")
        self._state.hub.end()
        if self._dialing is not None:
            self._dialing.cancel()
            await asyncio.wait([self._dialing])
        await self._connection.close()

    async def _ask(self, request: Request, retry: bool) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._reconnect_timeout
        while True:
            connection = await self._get_connection(request, deadline)
            try:
                return await connection.ask(request)
            except ConnectionClosedError as error:
                # An unsent request has no effect and is sent again. A sent one is repeated only if it is read-only.
                if self._end_reason is not None or not self._reconnect_timeout:
                    raise
                if error.sent and retry:
                    retry, deadline = False, loop.time() + self._reconnect_timeout
                elif error.sent or loop.time() >= deadline:
                    raise

    async def _get_connection(self, request: Request, deadline: float) -> LineConnection:
        """Returns the connection, or a new one if it has ended."""
        loop = asyncio.get_running_loop()
        while True:
            if self._end_reason is not None:
                raise _named(self._end_reason(), request)
            if not self._connection.ended:
                return self._connection
            self._start_reconnect()
            dialing = self._dialing
            assert dialing is not None
            # Not awaited directly: cancelling this request must not cancel the attempt for others.
            await asyncio.wait([dialing])
            failed = None if dialing.cancelled() else dialing.exception()
            # The attempt may have begun, and timed out, before this request's own deadline.
            if failed is not None and (loop.time() >= deadline or not is_transient(failed)):
                # Each request gets its own copy, because errors keep tracebacks.
                raise _copy_of(failed)

    async def _dial_again(self) -> LineConnection:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._reconnect_timeout
        last: Optional[NerveError] = None
        if self._reconnected and not self._connection.has_received:
            # The last connection was closed at once.
            self._backoff.failed(loop.time())
        elif self._connection.has_received:
            self._backoff.succeeded()
        while True:
            try:
                pause = self._backoff.pause(loop.time())
                if loop.time() + pause > deadline:
                    await asyncio.sleep(max(0.0, deadline - loop.time()))
                    raise asyncio.TimeoutError
                await asyncio.sleep(pause)
                connection = await asyncio.wait_for(self._open(), deadline - loop.time())
                self._reconnected = True
                return connection
            except asyncio.TimeoutError as error:
                raise (last or NotRunningError(f"no server accepted the connection within {self._reconnect_timeout} s")) from error
            except NerveError as error:
                self._backoff.failed(loop.time())
                if not is_transient(error):
                    raise
                last = error

    async def _open(self) -> LineConnection:
        """Opens a connection and restores the subscription."""
        connection = await self._dial(self._state, True)
        try:
            subscription = self._state.to_resume()
            while subscription is not None:
                request_id = self._state.new_id()
                line = encode("SUBSCRIBE", subscription.params(), request_id)
                answer = await connection.ask(Request(request_id, line, None, subscription))
                if answer.error is not None:
                    raise answer.error
                subscription = subscription.from_the_beginning() if connection.muted and not subscription.from_start else None
            connection.muted = False
            if connection.ended:
                raise ConnectionClosedError("the server closed the connection")
        except BaseException:
            await connection.close()
            raise
        self._use(connection)
        # The first event stream may have been created after the subscription was looked up.
        if self._state.hub.has_readers:
            connection.subscribe_once()
        return connection

    def _use(self, connection: LineConnection) -> None:
        self._connection = connection
        self._state.order.reset()
        connection.on_end = self._ended

    def _ended(self, connection: LineConnection, why: Callable[[], NerveError]) -> None:
        """Handles the end of a connection."""
        if connection is not self._connection:
            return
        if not self._reconnect_timeout or isinstance(why(), ProtocolError):
            # An invalid message means that this is not a nerve server; reconnecting would not help.
            self._end_reason = self._end_reason or why
        if self._end_reason is not None:
            self._state.hub.end()
        elif self._state.hub.has_readers:
            self._start_reconnect()

    def _start_reconnect(self) -> None:
        """Starts a connection attempt, unless one is running."""
        if self._dialing is None:
            self._dialing = asyncio.ensure_future(self._dial_again())
            self._dialing.add_done_callback(self._dialed)

    def _dialed(self, dialing: asyncio.Task[LineConnection]) -> None:
        self._dialing = None
        if not dialing.cancelled() and dialing.exception() is not None:
            self._state.hub.end_streams()
        elif self._connection.ended and self._end_reason is None and self._state.hub.has_readers:
            self._start_reconnect()


def _named(error: NerveError, request: Request) -> NerveError:
    if isinstance(error, ConnectionClosedError):
        error.request_id = request.request_id
    return error


def _copy_of(error: BaseException) -> BaseException:
    """Returns a copy of the error for another task."""
    copy = type(error).__new__(type(error))
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = error.__cause__
    return copy
