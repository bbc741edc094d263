"""Event streams."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from types import TracebackType
from typing import Any, Awaitable, Callable, Deque, Mapping, Optional, Type

from .reply import from_wire
from .types import Event

#: Maximum number of events kept for a slow reader; then the oldest are dropped and reported.
EVENT_QUEUE = 1024


class EventStream:
    """An async iterator of a client's events since the stream was created.

    A slow reader loses the oldest events and gets an EVENTS_DROPPED instead. After a reconnect the stream continues after the last event.
    If the server was restarted, it gets an EVENTS_DROPPED whose `dropped` is None, then all events of the new server, with `seq` counted
    from one again. The stream ends when the client is closed, or when reconnecting fails.
    """

    def __init__(self, on_close: Optional[Callable[[], Awaitable[None]]] = None) -> None:
        self._queue: Deque[Event] = deque()
        self._dropped = 0
        self._ended = False
        self._error: Optional[Exception] = None
        self._arrived = asyncio.Event()
        self._on_close = on_close

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Event:
        while not self._queue and not self._dropped:
            if self._ended:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            return Event("EVENTS_DROPPED", data={"dropped": dropped})
        return self._queue.popleft()

    async def aclose(self) -> None:
        """Closes the stream but not the connection."""
        self._end()
        self._queue.clear()
        self._dropped = 0
        if self._on_close is not None:
            await self._on_close()

    async def __aenter__(self) -> EventStream:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.aclose()

    def _offer(self, event: Event) -> None:
        if self._ended:
            return
        if len(self._queue) >= EVENT_QUEUE:
            self._queue.popleft()
            self._dropped += 1
        self._queue.append(event)
        self._arrived.set()

    def _start_after(self, seq: int) -> None:
        """Discards events up to this number, which were sent before the subscription took effect."""
        self._queue = deque(event for event in self._queue if not 0 < event.seq <= seq)

    def _end(self, error: Optional[Exception] = None) -> None:
        if not self._ended:
            self._error = error
        self._ended = True
        self._arrived.set()


class EventHub:
    """Distributes events to all streams of a connection."""

    def __init__(self) -> None:
        # Weak references: an abandoned stream must not be filled.
        self._streams: weakref.WeakSet[EventStream] = weakref.WeakSet()
        self._ended = False

    def open(self) -> EventStream:
        """Returns a stream of all events from now on; an ended one if the connection is closed."""
        stream = EventStream()
        if self._ended:
            stream._end()
        self._streams.add(stream)
        return stream

    @property
    def has_readers(self) -> bool:
        """True if an open stream exists."""
        return any(not stream._ended for stream in list(self._streams))

    def publish(self, message: Mapping[str, Any]) -> None:
        """Delivers an event. Raises `ProtocolError` if it is invalid."""
        event = from_wire(Event, message)
        for stream in list(self._streams):
            stream._offer(event)

    def drop(self) -> None:
        """Reports an unknown number of missing events."""
        for stream in list(self._streams):
            stream._offer(Event("EVENTS_DROPPED", data={"dropped": None}))

    def end(self) -> None:
        """Ends all streams after their queued events, and later ones at once."""
        self._ended = True
        self.end_streams()

    def end_streams(self) -> None:
        """Ends all streams after their queued events; later ones may get events again."""
        for stream in list(self._streams):
            stream._end()
