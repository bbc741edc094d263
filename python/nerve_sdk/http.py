"""Connections over HTTP: commands as POST, events as server-sent events. Needs the packages of the extra `http`."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from itertools import count
from typing import Any, AsyncIterator, Dict, Mapping, Optional, Set, Tuple

import httpx
from httpx_sse import EventSource

from .connection import Answer, Sink, answer_of
from .errors import ConnectionClosedError, NerveError, NotRunningError, ProtocolError, ServerError, server_error
from .events import EventStream
from .http_client import address_of, client_of, transport_errors
from .reconnect import READ_ONLY_COMMANDS, Backoff, is_transient
from .reply import from_wire
from .server_warnings import ServerWarnings
from .stream_order import StreamOrder
from .types import Event
from .wire import MAX_LINE, decode, encode

#: Maximum size of a response body or of an event, in bytes: a line of the wire protocol and its envelope.
MAX_BODY = MAX_LINE + (1 << 20)
#: Maximum length of an event's id; nerve's have about forty characters.
MAX_ID = 256
#: Time to wait for chunks after the answer, in seconds: they arrive on another connection.
LATE_CHUNKS_TIMEOUT = 2.0
#: An event stream without data for this long is dead, in seconds: servers send a keepalive every 15.
SILENCE_TIMEOUT = 60.0

EVENT_STREAM = "text/event-stream"


class HttpConnection:
    """Requests to a server. Each pending request and each event stream has its own connection.

    Waits up to `reconnect_timeout` seconds for an unreachable server.
    """

    def __init__(self, client: httpx.AsyncClient, reconnect_timeout: float) -> None:
        self.reconnect_timeout = reconnect_timeout
        #: Assigns chunks to the client's streams.
        self.order = StreamOrder()
        self._client = client
        self._ids = count(1)
        self._warnings = ServerWarnings()
        self._tasks: Set[asyncio.Task[Any]] = set()
        self._in_flight = 0
        self._closed = False

    @property
    def in_flight(self) -> int:
        """Number of requests that wait for their answer."""
        return self._in_flight

    @property
    def unmatched_answers(self) -> int:
        """Always 0: an answer arrives on the connection of its request."""
        return 0

    async def request(self, command: str, params: Mapping[str, Any], sink: Optional[Sink] = None) -> Any:
        """Sends a command and waits for the `data` of its result. Cancelling discards only the answer.

        Commands with side effects are never sent twice.
        """
        request_id = str(next(self._ids))
        line = encode(command, params, request_id)
        self._in_flight += 1
        try:
            answer: Answer = await self._watched(self._ask(line, params, sink, command in READ_ONLY_COMMANDS))
        except (ConnectionClosedError, ServerError) as error:
            error.request_id = request_id
            raise
        finally:
            self._in_flight -= 1
        self._warnings.report(answer.warnings)
        if answer.error is not None:
            if isinstance(answer.error, ServerError):
                answer.error.request_id = request_id
            raise answer.error
        self.order.observe(command, params.get("session_id"), params.get("node_id"))
        return answer.data

    async def subscribe(self, filter: Mapping[str, Any]) -> EventStream:
        """Subscribes to events on a separate connection; other streams are not affected."""
        response = await self._watched(self._open_events(filter))
        stream = EventStream()
        return self._owned(stream, self._fill(stream, filter, response))

    def events(self) -> EventStream:
        """Returns a stream of all events since the server accepted its connection."""
        if self._closed:
            raise ConnectionClosedError("this client is closed")
        stream = EventStream()

        return self._owned(stream, self._fill(stream, {}))

    async def close(self) -> None:
        """Closes all connections; pending requests fail."""
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        await self._client.aclose()

    async def _watched(self, work: Any) -> Any:
        """Awaits `work` in a task that `close` can cancel. The caller then gets an error and is not cancelled itself."""
        if self._closed:
            work.close()
            raise ConnectionClosedError("this client is closed")
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        try:
            await asyncio.wait([task])
        finally:
            if not task.done():
                task.cancel()
        if task.cancelled():
            raise ConnectionClosedError("this client is closed")
        return task.result()

    async def _ask(self, line: bytes, params: Mapping[str, Any], sink: Optional[Sink], retry: bool) -> Answer:
        retries = RetryPolicy(self.reconnect_timeout)
        while True:
            try:
                return await (self._post(line) if sink is None else self._post_with_chunks(line, params, sink))
            except NerveError as error:
                if isinstance(error, ConnectionClosedError) and error.sent:
                    if not retry or not self.reconnect_timeout:
                        raise
                    retry, retries = False, RetryPolicy(self.reconnect_timeout)
                else:
                    await retries.failed(error)

    async def _post(self, line: bytes) -> Answer:
        json = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            response = await self._send("POST", "/api/command", content=line, headers=json)
            message = await _message(response)
        except ConnectionClosedError as error:
            error.sent = True
            raise
        if message.get("type") != "result":
            raise _problem(response.status_code, message)
        return answer_of(message)

    async def _post_with_chunks(self, line: bytes, params: Mapping[str, Any], sink: Sink) -> Answer:
        wanted = {name: params.get(name) for name in ("node_id", "session_id")}
        events = await self._open_events({**wanted, "types": ["OUTPUT_CHUNK", "OUTPUT_PARSED"]})
        ends: asyncio.Queue[Any] = asyncio.Queue()

        async def listen() -> None:
            try:
                async for cursor, message in _messages(events):
                    self.order.set_server(server_in(cursor))
                    if message is None:
                        continue
                    if message.get("event_type") == "OUTPUT_PARSED":
                        ends.put_nowait((message.get("data") or {}).get("turn"))
                    else:
                        sink("", message)
            finally:
                ends.put_nowait(None)

        listening = asyncio.ensure_future(listen())
        try:
            answer = await self._post(line)
            turn = answer.data.get("turn") if isinstance(answer.data, dict) else None
            if turn is not None:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(_until(ends, turn), LATE_CHUNKS_TIMEOUT)
            return answer
        finally:
            listening.cancel()
            # Ignores errors of the event stream; the answer is complete.
            await asyncio.gather(listening, return_exceptions=True)
            await events.aclose()

    async def _open_events(self, filter: Mapping[str, Any]) -> httpx.Response:
        params = {name: value for name, value in filter.items() if value is not None and value is not False}
        if "types" in params:
            params["types"] = ",".join(params["types"])
        silence = httpx.Timeout(None, connect=self._client.timeout.connect, read=SILENCE_TIMEOUT)
        response = await self._send("GET", "/events", params=params, headers={"Accept": EVENT_STREAM}, timeout=silence)
        if response.headers.get("Content-Type", "").partition(";")[0].strip() != EVENT_STREAM:
            raise _problem(response.status_code, await _message(response))
        return response

    async def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Sends a request and returns the response with its body unread."""
        with transport_errors():
            return await self._client.send(self._client.build_request(method, path, **options), stream=True)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        # Retrieves the exception, otherwise asyncio logs it as unhandled.
        if not task.cancelled():
            task.exception()

    async def _fill(self, stream: EventStream, filter: Mapping[str, Any], response: Optional[httpx.Response] = None) -> None:
        """Fills a stream, reconnecting after the last event."""
        cursor = EventCursor()
        try:
            while True:
                if response is None:
                    # The position is unknown: the last connection delivered no event.
                    lost = cursor.started and not cursor.last and filter.get("since") is None
                    response = await self._resumed(filter, cursor)
                    if lost:
                        stream._offer(Event("EVENTS_DROPPED", data={"dropped": None}))
                with contextlib.suppress(ConnectionClosedError):
                    await _pump(response, stream, cursor)
                if not self.reconnect_timeout:
                    return
                response = None
        except (ConnectionClosedError, NotRunningError) as error:
            # The server is gone: a started stream ends without an error, as on a socket.
            stream._end(None if cursor.started else error)
        except NerveError as error:
            stream._end(error)

    async def _resumed(self, filter: Mapping[str, Any], cursor: EventCursor) -> httpx.Response:
        retries = RetryPolicy(self.reconnect_timeout if cursor.started else 0)
        while True:
            try:
                opened = await self._open_events({**filter, **cursor.since()})
                cursor.started = True
                return opened
            except NerveError as error:
                await retries.failed(error)

    def _owned(self, stream: EventStream, work: Any) -> EventStream:
        """Runs the task that fills a stream until the stream or the client is closed."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        task.add_done_callback(lambda _: stream._end())

        async def stop() -> None:
            task.cancel()
            await asyncio.wait([task])

        stream._on_close = stop
        return stream


class RetryPolicy:
    """Limits retries to a number of seconds."""

    def __init__(self, reconnect_timeout: float) -> None:
        self._deadline = asyncio.get_running_loop().time() + reconnect_timeout
        self._backoff = Backoff()

    async def failed(self, error: NerveError) -> None:
        """Waits until the next attempt may begin. Raises the error if the time is over or a retry is useless."""
        now = asyncio.get_running_loop().time()
        self._backoff.failed(now)
        if not is_transient(error) or now + self._backoff.pause(now) > self._deadline:
            raise error
        await asyncio.sleep(self._backoff.pause(now))


class EventCursor:
    """The position of a stream in the events of a server."""

    def __init__(self) -> None:
        self.started = False
        #: Id of the last event; empty before the first.
        self.last = ""

    def advance(self, last: str) -> bool:
        """Records an event's id, which may be empty. Returns False if it comes from another server."""
        same = not last or not self.last or server_in(last) == server_in(self.last)
        self.last = last or self.last
        return same

    def since(self) -> Dict[str, Any]:
        """Returns the position as a parameter of the next subscription."""
        return {"since": self.last} if self.last else {}


def server_in(last: str) -> str:
    """Returns the server's instance in an event's id; it changes with each start."""
    return last.rpartition("-")[0]


async def open_http(
    url: str, token: str, tls: Optional[ssl.SSLContext], timeout: Optional[float], reconnect_timeout: float
) -> HttpConnection:
    """Connects to a server's HTTP port and sends a PING.

    Raises `NotRunningError` if no server answers within `timeout` seconds, `AuthenticationError` if the token is wrong, `ValueError` for
    an invalid URL.
    """
    client = client_of(url, token, tls, timeout)
    # The first connection is not retried.
    connection = HttpConnection(client, 0)
    try:
        await asyncio.wait_for(connection.request("PING", {}), timeout)
    except asyncio.TimeoutError as error:
        await connection.close()
        raise NotRunningError(f"{address_of(client.base_url)} did not answer within {timeout} s: is it a nerve server?") from error
    except BaseException:
        await connection.close()
        raise
    connection.reconnect_timeout = reconnect_timeout
    return connection


async def _pump(response: httpx.Response, stream: EventStream, cursor: EventCursor) -> None:
    cursor.started = True
    try:
        async for last, message in _messages(response):
            if not cursor.advance(last):
                stream._offer(Event("EVENTS_DROPPED", data={"dropped": None}))
            if message is not None:
                stream._offer(from_wire(Event, message))
    finally:
        await response.aclose()


async def _messages(response: httpx.Response) -> AsyncIterator[Tuple[str, Optional[Dict[str, Any]]]]:
    """Yields events with their ids. None: only the id may have changed."""
    size = 0

    async def limited() -> AsyncIterator[bytes]:
        nonlocal size
        with transport_errors():
            async for part in response.aiter_raw():
                size += len(part)
                if size > MAX_BODY:
                    raise ProtocolError(f"the server sent an event of more than {MAX_BODY} bytes")
                yield part

    # Its lines have no limit of their own.
    source = EventSource(httpx.Response(200, headers={"Content-Type": EVENT_STREAM}, content=limited()))
    async for event in source.aiter_sse():
        size = 0
        if len(event.id) > MAX_ID:
            raise ProtocolError(f"the server sent an event id of more than {MAX_ID} characters")
        message = decode(event.data.encode()) if event.data else {}
        yield event.id, message if message.get("type") == "event" else None


async def _message(response: httpx.Response) -> Dict[str, Any]:
    """Returns the JSON object in a response's body."""
    body = bytearray()
    try:
        with transport_errors():
            async for part in response.aiter_raw():
                body += part
                if len(body) > MAX_BODY:
                    raise ProtocolError(f"the server sent a body of more than {MAX_BODY} bytes")
    finally:
        await response.aclose()
    try:
        return decode(bytes(body))
    except ProtocolError as error:
        raise ProtocolError(f"HTTP {response.status_code} without a JSON object: is it a nerve server?") from error


def _problem(status: int, body: Mapping[str, Any]) -> NerveError:
    """Returns the error in an `application/problem+json` (RFC 9457), or in the wire's own message of type `error`."""
    text = body.get("detail") or body.get("error") or body.get("title")
    if isinstance(text, str) and status >= 400:
        more = body.get("data")
        fields = {**body, **more} if isinstance(more, dict) else body
        return server_error(text, {"error_type": "invalid_request_error", **fields})
    return ProtocolError(f"unexpected HTTP {status}: is it a nerve server?")


async def _until(ends: asyncio.Queue[Any], turn: object) -> None:
    while await ends.get() not in (turn, None):
        pass
