"""An event loop in a thread of its own, for programs that have none."""

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

#: How long the thread may take to end, in seconds.
END_PATIENCE = 5.0


class Portal:
    """Runs coroutines in its loop for any thread. The thread is a daemon: it does not keep the program alive."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="nerve-sdk", daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Waits for what `work` gives. A ^C cancels it."""

        async def awaited() -> T:
            return await work()

        return self._wait(awaited())

    def call(self, work: Callable[[], T]) -> T:
        """Calls it in the loop."""

        async def called() -> T:
            return work()

        return self._wait(called())

    @property
    def alive(self) -> bool:
        """It can still run something."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Ends the thread. May be called again."""
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(END_PATIENCE)

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
            # Also ^C: the work goes on in the thread otherwise.
            future.cancel()
            raise


class EventStream:
    """Events as they come: an iterator that ends with the connection. Other threads may use it and close it."""

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
        """The next event; None at the end. Raises `TimeoutError` when none came within `timeout` seconds."""

        async def step() -> Optional[Event]:
            try:
                return await asyncio.wait_for(self._stream.__anext__(), timeout)
            except StopAsyncIteration:
                return None
            except asyncio.TimeoutError as error:
                raise TimeoutError(f"no event within {timeout} s") from error

        return self._portal.run(step)

    def close(self) -> None:
        """Ends the stream; the connection goes on."""
        self._portal.run(self._stream.aclose)

    def __enter__(self) -> EventStream:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


class ExecuteStream:
    """An answer as it grows: an iterator of texts, which raises what the turn fails with."""

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
        """The finished turn; None until the last chunk was taken."""
        return self._stream.response

    @property
    def missed(self) -> int:
        """Chunks that were lost because the stream was read too slowly; the response still has everything."""
        return self._stream.missed

    def close(self) -> None:
        """Gives up the rest of the answer; the turn goes on."""
        self._portal.run(self._stream.aclose)

    def __enter__(self) -> ExecuteStream:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()
