"""A server over HTTP: commands by POST, events as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from itertools import count
from typing import Any, AsyncIterator, Dict, Mapping, Optional, Set, Tuple
from urllib.parse import urlencode

from .again import LOOKS, Backoff, is_passing
from .connection import Answer, Sink, answer_of
from .errors import ConnectionClosedError, NerveError, NotRunningError, ProtocolError, ServerError, server_error
from .events import EventStream
from .http1 import Channel, Head, Pool, Site, site_of
from .order import StreamOrder
from .sse import SseParser
from .types import Event, from_wire
from .warner import Warner
from .wire import decode, encode

#: How long the last chunks of an answer may come after it, in seconds: they come by another connection.
CHUNKS_PATIENCE = 2.0
#: A stream of events on which nothing comes for so long is dead, in seconds: a server sends a sign of life every 15.
SILENCE = 60.0


class HttpConnection:
    """Requests to a site. Each that waits has a connection of its own, and so has each stream of events.

    A server that is not there is waited for, for `patience` seconds.
    """

    def __init__(self, site: Site, patience: float) -> None:
        self.patience = patience
        #: Which of the client's streams chunks belong to.
        self.order = StreamOrder()
        self._pool = Pool(site)
        self._ids = count(1)
        self._warner = Warner()
        self._tasks: Set[asyncio.Task[Any]] = set()
        self._in_flight = 0
        self._closed = False

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answer."""
        return self._in_flight

    @property
    def unmatched_answers(self) -> int:
        """None: an answer comes by the connection of its request."""
        return 0

    async def request(self, command: str, params: Mapping[str, Any], sink: Optional[Sink] = None) -> Any:
        """Sends a command and waits for the `data` of its result. Cancelling gives up the answer and nothing else.

        What goes out is never sent twice, unless it changes nothing.
        """
        request_id = str(next(self._ids))
        line = encode(command, params, request_id)
        self._in_flight += 1
        try:
            answer: Answer = await self._watched(self._ask(line, params, sink, command in LOOKS))
        except (ConnectionClosedError, ServerError) as error:
            error.request_id = request_id
            raise
        finally:
            self._in_flight -= 1
        self._warner.tell(answer.warnings)
        if answer.error is not None:
            if isinstance(answer.error, ServerError):
                answer.error.request_id = request_id
            raise answer.error
        self.order.heed(command, params.get("session_id"), params.get("node_id"))
        return answer.data

    async def subscribe(self, filter: Mapping[str, Any]) -> EventStream:
        """The events that match, by a connection of their own; other streams are not touched."""
        channel, head = await self._watched(self._open_events(filter))
        stream = EventStream()
        return self._owned(stream, self._fill(stream, filter, channel, head))

    def events(self) -> EventStream:
        """All events, from the moment the server has taken the stream's connection."""
        if self._closed:
            raise ConnectionClosedError("this client is closed")
        stream = EventStream()

        return self._owned(stream, self._fill(stream, {}))

    async def close(self) -> None:
        """Ends everything that is open; all that wait are told."""
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        await self._pool.close()

    async def _watched(self, work: Any) -> Any:
        """Awaits it in a task that `close` can end: who waits is told then, and is not cancelled itself."""
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

    async def _ask(self, line: bytes, params: Mapping[str, Any], sink: Optional[Sink], again: bool) -> Answer:
        tries = Tries(self.patience)
        while True:
            try:
                return await (self._post(line) if sink is None else self._post_with_chunks(line, params, sink))
            except NerveError as error:
                if isinstance(error, ConnectionClosedError) and error.sent:
                    if not again or not self.patience:
                        raise
                    again, tries = False, Tries(self.patience)
                else:
                    await tries.failed(error)

    async def _post(self, line: bytes) -> Answer:
        channel = await self._pool.take()
        try:
            head = await channel.send("POST", "/api/command", line)
            body = await channel.body(head)
        except ConnectionClosedError as error:
            error.sent = True
            channel.close()
            raise
        except BaseException:
            channel.close()
            raise
        self._pool.give_back(channel)
        message = _message(head, body)
        if message.get("type") != "result":
            raise _problem(head, message)
        return answer_of(message)

    async def _post_with_chunks(self, line: bytes, params: Mapping[str, Any], sink: Sink) -> Answer:
        wanted = {name: params.get(name) for name in ("node_id", "session_id")}
        channel, head = await self._open_events({**wanted, "types": ["OUTPUT_CHUNK", "OUTPUT_PARSED"]})
        ends: asyncio.Queue[Any] = asyncio.Queue()

        async def listen() -> None:
            try:
                async for place, message in _messages(channel, head):
                    self.order.meet(server_in(place))
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
                    await asyncio.wait_for(_until(ends, turn), CHUNKS_PATIENCE)
            return answer
        finally:
            listening.cancel()
            channel.close()
            # Its error would only be that the stream of events broke; the answer counts.
            await asyncio.gather(listening, return_exceptions=True)

    async def _open_events(self, filter: Mapping[str, Any]) -> Any:
        given: Dict[str, Any] = {name: value for name, value in filter.items() if value is not None and value is not False}
        if "types" in given:
            given["types"] = ",".join(given["types"])
        query = urlencode({name: "true" if value is True else value for name, value in given.items()})
        channel = await Channel.open(self._pool.site)
        try:
            head = await channel.send("GET", f"/events?{query}" if query else "/events", accept="text/event-stream")
            if head.content_type != "text/event-stream":
                raise _problem(head, _message(head, await channel.body(head)))
        except BaseException:
            channel.close()
            raise
        return channel, head

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        # Looked at, so that asyncio does not complain of the error of a request that was given up.
        if not task.cancelled():
            task.exception()

    async def _fill(
        self,
        stream: EventStream,
        filter: Mapping[str, Any],
        channel: Optional[Channel] = None,
        head: Optional[Head] = None,
    ) -> None:
        """Fills a stream by one connection after the other, each from the last event on that has come."""
        place = Place()
        try:
            while True:
                if channel is None or head is None:
                    # Where the last connection ended is not known: it told nothing.
                    lost = place.begun and not place.last and filter.get("since") is None
                    channel, head = await self._resumed(filter, place)
                    if lost:
                        stream._offer(Event("EVENTS_DROPPED", data={"dropped": None}))
                with contextlib.suppress(ConnectionClosedError):
                    await _pump(channel, head, stream, place)
                if not self.patience:
                    return
                channel = None
        except (ConnectionClosedError, NotRunningError) as error:
            # The server is gone: a stream that had begun ends then, over a socket too.
            stream._end(None if place.begun else error)
        except NerveError as error:
            stream._end(error)

    async def _resumed(self, filter: Mapping[str, Any], place: Place) -> Any:
        tries = Tries(self.patience if place.begun else 0)
        while True:
            try:
                opened = await self._open_events({**filter, **place.since()})
                place.begun = True
                return opened
            except NerveError as error:
                await tries.failed(error)

    def _owned(self, stream: EventStream, work: Any) -> EventStream:
        """Runs what fills a stream until the stream or the client is closed."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        task.add_done_callback(lambda _: stream._end())

        async def stop() -> None:
            task.cancel()
            await asyncio.wait([task])

        stream._on_close = stop
        return stream


class Tries:
    """Tries for so many seconds."""

    def __init__(self, patience: float) -> None:
        self._deadline = asyncio.get_running_loop().time() + patience
        self._backoff = Backoff()

    async def failed(self, error: NerveError) -> None:
        """Waits until the next one may begin. Raises the error when there is to be none."""
        now = asyncio.get_running_loop().time()
        self._backoff.failed(now)
        if not is_passing(error) or now + self._backoff.pause(now) > self._deadline:
            raise error
        await asyncio.sleep(self._backoff.pause(now))


class Place:
    """How far a stream has come in the events of a server."""

    def __init__(self) -> None:
        self.begun = False
        #: The id of the last event; empty: none has come.
        self.last = ""

    def take(self, last: str) -> bool:
        """An event with this id has come, or one without. Gives False where it is another server's: its events count from one again."""
        same = not last or not self.last or server_in(last) == server_in(self.last)
        self.last = last or self.last
        return same

    def since(self) -> Dict[str, Any]:
        """What the next connection asks for beside its filter."""
        return {"since": self.last} if self.last else {}


def server_in(last: str) -> str:
    """The server that an event's id names: it has a name of its own from one start to the next."""
    return last.rpartition("-")[0]


async def open_http(
    url: str, token: str, tls: Optional[ssl.SSLContext], timeout: Optional[float], patience: float
) -> HttpConnection:
    """A connection to a server's HTTP port, after a PING.

    Raises `NotRunningError` when nobody answers within `timeout` seconds, `AuthenticationError` when the token is wrong, `ValueError` for
    what is no URL of a server.
    """
    site = site_of(url, token, tls, timeout)
    # Once, and without patience.
    connection = HttpConnection(site, 0)
    try:
        await asyncio.wait_for(connection.request("PING", {}), timeout)
    except asyncio.TimeoutError as error:
        await connection.close()
        raise NotRunningError(f"{site.name} did not answer within {timeout} s: is it a nerve server?") from error
    except BaseException:
        await connection.close()
        raise
    connection.patience = patience
    return connection


async def _pump(channel: Channel, head: Head, stream: EventStream, place: Place) -> None:
    place.begun = True
    try:
        async for last, message in _messages(channel, head):
            if not place.take(last):
                stream._offer(Event("EVENTS_DROPPED", data={"dropped": None}))
            if message is not None:
                stream._offer(from_wire(Event, message))
    finally:
        channel.close()


async def _messages(channel: Channel, head: Head) -> AsyncIterator[Tuple[str, Optional[Dict[str, Any]]]]:
    """Events, each with its id. None: only an id may have come."""
    parser = SseParser()
    async for part in channel.parts(head, SILENCE):
        for data in parser.feed(part):
            message = decode(data)
            if message.get("type") == "event":
                yield parser.last_id, message
        yield parser.last_id, None


async def _until(ends: asyncio.Queue[Any], turn: object) -> None:
    while await ends.get() not in (turn, None):
        pass


def _message(head: Head, body: bytes) -> Dict[str, Any]:
    try:
        return decode(body)
    except ProtocolError as error:
        raise ProtocolError(f"HTTP {head.status} without an object of JSON: is it a nerve server?") from error


def _problem(head: Head, body: Mapping[str, Any]) -> NerveError:
    """The error in an `application/problem+json` (RFC 9457), or in the wire's own message of type `error`."""
    text = body.get("detail") or body.get("error") or body.get("title")
    if isinstance(text, str) and head.status >= 400:
        more = body.get("data")
        fields = {**body, **more} if isinstance(more, dict) else body
        return server_error(text, {"error_type": "invalid_request_error", **fields})
    return ProtocolError(f"HTTP {head.status} that is not what was asked for: is it a nerve server?")
