"""Streaming execution of a prompt."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Any, Deque, Mapping, Optional, Type

from .connection import Connection
from .stream_order import Key
from .reply import response_of
from .types import Response

#: Maximum number of chunks kept for a slow reader; further ones are dropped and counted.
CHUNK_QUEUE = 1024


class ExecuteStream:
    """An async iterator of the chunks of an answer. Raises the error of a failed turn. The first step sends the prompt.

    After the last chunk, `response` is the finished turn. Closing the stream does not stop the turn: interrupt the node for that.
    A connection subscribed to events without OUTPUT_CHUNK gets only the response.
    """

    def __init__(self, connection: Connection, params: Mapping[str, Any]) -> None:
        #: The finished turn; None until then.
        self.response: Optional[Response] = None
        #: Number of chunks dropped because of slow reading; the response is still complete.
        self.missed = 0
        self._connection = connection
        self._params = params
        self._order = connection.order
        self._key: Key = (params.get("session_id"), params["node_id"])
        self._turn = 0
        self._chunks: Deque[str] = deque()
        self._arrived = asyncio.Event()
        self._request: Optional[asyncio.Task[Any]] = None
        self._ended = False

    def __aiter__(self) -> ExecuteStream:
        return self

    async def __anext__(self) -> str:
        if self._ended:
            raise StopAsyncIteration
        if self._request is None:
            self._order.begin(self._key, self)
            self._request = asyncio.ensure_future(
                self._connection.request("EXECUTE_INPUT", self._params, sink=self._offer)
            )
            self._request.add_done_callback(self._done)
        while not self._chunks and not self._request.done():
            self._arrived.clear()
            await self._arrived.wait()
        if self._ended:
            raise StopAsyncIteration
        if self._chunks:
            return self._chunks.popleft()
        self._ended = True
        self.response = response_of(self._request.result())
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Discards the rest of the answer."""
        self._ended = True
        self._arrived.set()
        if self._request is not None and not self._request.done():
            self._request.cancel()
            await asyncio.wait([self._request])

    async def __aenter__(self) -> ExecuteStream:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.aclose()

    def _done(self, request: asyncio.Task[Any]) -> None:
        # Retrieves the exception, otherwise asyncio logs it as unhandled.
        answered = not request.cancelled() and request.exception() is None
        if answered:
            self._turn = max(self._turn, _turn_in(request.result()))
        self._order.end(self._key, self, self._turn, answered)
        self._arrived.set()

    def _offer(self, request_id: str, event: Mapping[str, Any]) -> None:
        chunk = self._text(request_id, event)
        if chunk is None:
            return
        if len(self._chunks) >= CHUNK_QUEUE:
            self.missed += 1
            return
        self._chunks.append(chunk)
        self._arrived.set()

    def _text(self, request_id: str, event: Mapping[str, Any]) -> Optional[str]:
        """Returns the chunk if the event belongs to this request. Older servers name only the node."""
        data = event.get("data")
        if event.get("event_type") != "OUTPUT_CHUNK" or not isinstance(data, Mapping):
            return None
        session, said = self._params.get("session_id"), event.get("session_id")
        if session is not None and said is not None and session != said:
            return None
        named, chunk, turn = data.get("request_id"), data.get("chunk"), _turn_in(data)
        if event.get("node_id") != self._params["node_id"] or not isinstance(chunk, str):
            return None
        if named != request_id if named is not None else not self._order.accepts(self._key, self, turn):
            return None
        self._turn = max(self._turn, turn)
        return chunk


def _turn_in(data: object) -> int:
    turn = data.get("turn") if isinstance(data, Mapping) else None
    return turn if isinstance(turn, int) else 0
