"""Runs an event loop in a thread, for programs without one."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Awaitable, Callable, Coroutine, Iterator, Optional, Type, TypeVar

from .events import EventStream as AsyncEventStream
from .stream import ExecuteStream as AsyncExecuteStream
from .types import Event, Response

T = TypeVar("T")

#: Time limit for the thread to end, in seconds.
JOIN_TIMEOUT = 5.0


class Portal:
    """Runs coroutines in its loop for any thread. Its daemon thread does not keep the program alive."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="nerve-sdk", daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Waits for the result of `work`. Ctrl+C cancels it."""

        async def awaited() -> T:
            return await work()

        return self._wait(awaited())

    def call(self, work: Callable[[], T]) -> T:
        """Calls `work` in the loop."""

        async def called() -> T:
            return work()

        return self._wait(called())

    @property
    def alive(self) -> bool:
        """True while the thread runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Ends the thread. Can be called again."""
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(JOIN_TIMEOUT)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if threading.current_thread() is self._thread or not self.alive:
            work.close()
            raise RuntimeError("this client is closed, or was called from its own event loop")
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # Also on Ctrl+C: otherwise the work would continue in the thread.
            future.cancel()
            raise


class EventStream:
    """An iterator of events that ends with the connection. Other threads may use and close it."""

    def __init__(self, portal: Portal, stream: AsyncEventStream) -> None:
        self._portal = portal
        self._stream = stream

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        event = self.next()
        if event is None:
            raise StopIteration
        return event

    def next(self, timeout: Optional[float] = None) -> Optional[Event]:
        """Returns the next event; None at the end. Raises `TimeoutError` after `timeout` seconds."""

        async def step() -> Optional[Event]:
            try:
                return await asyncio.wait_for(self._stream.__anext__(), timeout)
            except StopAsyncIteration:
                return None
            except asyncio.TimeoutError as error:
                raise TimeoutError(f"no event within {timeout} s") from error

        return self._portal.run(step)

    def close(self) -> None:
        """Closes the stream but not the connection."""
        self._portal.run(self._stream.aclose)

    def __enter__(self) -> EventStream:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


class ExecuteStream:
    """An iterator of the chunks of an answer. Raises the error of a failed turn."""

    def __init__(self, portal: Portal, stream: AsyncExecuteStream) -> None:
        self._portal = portal
        self._stream = stream

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        async def step() -> Optional[str]:
            async for chunk in self._stream:
                return chunk
            return None

        chunk = self._portal.run(step)
        if chunk is None:
            raise StopIteration
        return chunk

    @property
    def response(self) -> Optional[Response]:
        """The finished turn; None before the last chunk was read."""
        return self._stream.response

    @property
    def missed(self) -> int:
        """Number of chunks dropped because of slow reading; the response is still complete."""
        return self._stream.missed

    def close(self) -> None:
        """Discards the rest of the answer; the turn continues."""
        self._portal.run(self._stream.aclose)

    def __enter__(self) -> ExecuteStream:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()
