"""The interface of connections, and the requests that wait on them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol

from .errors import NerveError, ProtocolError, server_error
from .events import EventStream
from .client_state import Subscription
from .stream_order import StreamOrder

#: Receives the events that arrive during a request: the request's id and the event.
Sink = Callable[[str, Mapping[str, Any]], None]


class Connection(Protocol):
    """A connection to a server, for concurrent requests of any number of tasks."""

    @property
    def in_flight(self) -> int:
        """Number of requests that wait for their answer."""

    @property
    def unmatched_answers(self) -> int:
        """Number of answers that match no request."""

    @property
    def order(self) -> StreamOrder:
        """Assigns chunks to the client's streams."""

    async def request(self, command: str, params: Mapping[str, Any], sink: Optional[Sink] = None) -> Any:
        """Sends a command and waits for the `data` of its result."""

    async def subscribe(self, filter: Mapping[str, Any]) -> EventStream:
        """Subscribes to events. On a socket this applies to all streams of the connection."""

    def events(self) -> EventStream:
        """Returns a stream of the events from now on."""

    async def close(self) -> None:
        """Closes the connection; pending requests fail."""


@dataclass
class Answer:
    """The answer to a request: data or an error, and the server's warnings."""

    data: Any = None
    error: Optional[NerveError] = None
    warnings: List[str] = field(default_factory=list)


def answer_of(message: Mapping[str, Any]) -> Answer:
    """Returns the answer in a `result` message. An invalid one is a `ProtocolError` of that request only."""
    listed = message.get("warnings")
    texts = [text for text in listed if isinstance(text, str)] if isinstance(listed, list) else []
    success = message.get("success")
    if success is True:
        return Answer(data=message.get("data"), warnings=texts)
    if success is False:
        return Answer(error=server_error(message.get("error"), message.get("data")), warnings=texts)
    return Answer(error=ProtocolError("the server sent a result without `success`"))


@dataclass(frozen=True)
class Request:
    """An encoded request."""

    request_id: str
    #: Not in `repr`, because it may contain a token.
    line: bytes = field(repr=False)
    sink: Optional[Sink]
    subscription: Optional[Subscription]


@dataclass
class PendingRequest:
    """A request that waits for its answer."""

    request: Request
    future: asyncio.Future[Answer]

    def answer(self, answer: Answer) -> None:
        """Sets the answer, unless the request was cancelled."""
        if not self.future.done():
            self.future.set_result(answer)


class Pending:
    """Pending requests by id."""

    def __init__(self) -> None:
        self._waiting: Dict[str, PendingRequest] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: Request) -> None:
        """Adds a request."""
        self._waiting[request.request_id] = PendingRequest(request, asyncio.get_running_loop().create_future())

    async def wait(self, request_id: str) -> Answer:
        """Waits for the answer."""
        return await self._waiting[request_id].future

    def give_up(self, request_id: str) -> None:
        """Removes a request; a later answer is ignored."""
        self._waiting.pop(request_id, None)

    def answer(self, request_id: object, answer: Answer) -> Optional[Request]:
        """Answers a request and returns it; None if it is not pending."""
        waiting = self._waiting.get(request_id) if isinstance(request_id, str) else None
        if waiting is None:
            return None
        waiting.answer(answer)
        return waiting.request

    def fail_all(self, error: Callable[[], NerveError]) -> None:
        """Fails all requests. Each gets its own error object, because errors keep tracebacks."""
        for waiting in list(self._waiting.values()):
            waiting.answer(Answer(error=error()))

    def offer(self, event: Mapping[str, Any]) -> None:
        """Passes an event to all pending requests with a sink."""
        for request_id, waiting in list(self._waiting.items()):
            # Chunks after the answer belong to a later turn.
            if waiting.request.sink is not None and not waiting.future.done():
                waiting.request.sink(request_id, event)
