"""Events as they come."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from types import TracebackType
from typing import Any, Awaitable, Callable, Deque, Mapping, Optional, Type

from .types import Event, from_wire

#: Events kept for a reader that is slow; then the oldest are lost, and it is told.
EVENT_QUEUE = 1024


class EventStream:
    """The events of a client from the moment the stream was made: an async iterator.

    A reader that is too slow loses the oldest events and gets an EVENTS_DROPPED in their place, as it does from a server. When the connection
    has ended and is made again, the stream goes on after the last event that came. Where that is another server (it was started anew), an
    EVENTS_DROPPED comes first, whose `dropped` is None, then all that the new server has; `seq` begins anew. It ends when the client is
    closed, or its connection has ended and none is made again.
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
        """Ends the stream; the connection goes on."""
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

    def _end(self, error: Optional[Exception] = None) -> None:
        if not self._ended:
            self._error = error
        self._ended = True
        self._arrived.set()


class EventHub:
    """Hands events to all streams of a connection."""

    def __init__(self) -> None:
        # A stream that nobody holds any more must not be filled for ever.
        self._streams: weakref.WeakSet[EventStream] = weakref.WeakSet()
        self._ended = False

    def open(self) -> EventStream:
        """A stream of all events from now on; of a closed connection none."""
        stream = EventStream()
        if self._ended:
            stream._end()
        self._streams.add(stream)
        return stream

    @property
    def heard(self) -> bool:
        """Somebody reads events."""
        return any(not stream._ended for stream in list(self._streams))

    def publish(self, message: Mapping[str, Any]) -> None:
        """Raises `ProtocolError` for what is no event."""
        event = from_wire(Event, message)
        for stream in list(self._streams):
            stream._offer(event)

    def drop(self) -> None:
        """Events are missing here; how many is not known."""
        for stream in list(self._streams):
            stream._offer(Event("EVENTS_DROPPED", data={"dropped": None}))

    def end(self) -> None:
        """The streams end after what they hold, later ones at once."""
        self._ended = True
        self.end_streams()

    def end_streams(self) -> None:
        """The streams end after what they hold; later ones may have events again."""
        for stream in list(self._streams):
            stream._end()
