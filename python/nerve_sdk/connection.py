"""What a client needs of a connection, whatever it goes over, and what came back for a request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol

from .errors import NerveError, ProtocolError, server_error
from .events import EventStream
from .inbox import Subscribing
from .order import StreamOrder

#: Takes the events that come while a request is open: its id, and the event as it came.
Sink = Callable[[str, Mapping[str, Any]], None]


class Connection(Protocol):
    """A way to a server. Requests of any number of tasks run at the same time."""

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answer."""

    @property
    def unmatched_answers(self) -> int:
        """Answers that came to what was never asked."""

    @property
    def order(self) -> StreamOrder:
        """Which of the client's streams chunks belong to."""

    async def request(self, command: str, params: Mapping[str, Any], sink: Optional[Sink] = None) -> Any:
        """Sends a command and waits for the `data` of its result."""

    async def subscribe(self, filter: Mapping[str, Any]) -> EventStream:
        """The events that match; of a socket, for all streams of the connection."""

    def events(self) -> EventStream:
        """The events from now on."""

    async def close(self) -> None:
        """Ends it; all that wait are told."""


@dataclass
class Answer:
    """The answer to a request: data or an error, and what the server warned of."""

    data: Any = None
    error: Optional[NerveError] = None
    warnings: List[str] = field(default_factory=list)


def answer_of(message: Mapping[str, Any]) -> Answer:
    """The answer that a `result` holds. One that is wrong is a `ProtocolError` of that request and of no other."""
    told = message.get("warnings")
    texts = [text for text in told if isinstance(text, str)] if isinstance(told, list) else []
    success = message.get("success")
    if success is True:
        return Answer(data=message.get("data"), warnings=texts)
    if success is False:
        return Answer(error=server_error(message.get("error"), message.get("data")), warnings=texts)
    return Answer(error=ProtocolError("the server sent a result that does not say whether it is a success"))


@dataclass(frozen=True)
class Asked:
    """A request as it goes out, over whatever connection."""

    request_id: str
    #: Not in `repr`: there may be a token in it.
    line: bytes = field(repr=False)
    sink: Optional[Sink]
    subscribing: Optional[Subscribing]


@dataclass
class Waiting:
    """A request that waits for its answer."""

    asked: Asked
    future: asyncio.Future[Answer]

    def answer(self, answer: Answer) -> None:
        """Does nothing for a request that was given up just now."""
        if not self.future.done():
            self.future.set_result(answer)


class Pending:
    """Requests that wait, by their ids."""

    def __init__(self) -> None:
        self._waiting: Dict[str, Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, asked: Asked) -> None:
        """A new request."""
        self._waiting[asked.request_id] = Waiting(asked, asyncio.get_running_loop().create_future())

    async def wait(self, request_id: str) -> Answer:
        """The answer, when it is there."""
        return await self._waiting[request_id].future

    def give_up(self, request_id: str) -> None:
        """An answer that comes later concerns nobody."""
        self._waiting.pop(request_id, None)

    def answer(self, request_id: object, answer: Answer) -> Optional[Asked]:
        """Answers one request, if it still waits; gives which."""
        waiting = self._waiting.get(request_id) if isinstance(request_id, str) else None
        if waiting is None:
            return None
        waiting.answer(answer)
        return waiting.asked

    def fail_all(self, error: Callable[[], NerveError]) -> None:
        """Answers all with an error, each with one of its own: tracebacks are kept in them."""
        for waiting in list(self._waiting.values()):
            waiting.answer(Answer(error=error()))

    def offer(self, event: Mapping[str, Any]) -> None:
        """Shows an event to those requests that want them."""
        for request_id, waiting in list(self._waiting.items()):
            # Chunks that come after the answer belong to a later turn.
            if waiting.asked.sink is not None and not waiting.future.done():
                waiting.asked.sink(request_id, event)
