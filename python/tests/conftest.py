"""What the tests share: a real server with a home of its own, and coroutine tests with a limit of time."""

from __future__ import annotations

import asyncio
import inspect
import zlib
from typing import Any, Iterator, Optional

import pytest
from running import Server, lacking

#: The longest a test may take, in seconds. A debug server on a busy machine is slow.
LIMIT = 90


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> Optional[bool]:
    """Coroutine tests run in an event loop of their own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), LIMIT))
    return True


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server that all tests may use, each with names of its own."""
    with Server() as running:
        yield running


@pytest.fixture
def mortal() -> Iterator[Server]:
    """A server for one test, which may kill it."""
    with Server() as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses: 1–32 of a-z 0-9 -."""
    return f"n{zlib.crc32(request.node.nodeid.encode())}"


@pytest.fixture(params=["unix", "tcp", "http"])
def transport(request: pytest.FixtureRequest, server: Server) -> str:
    """Each way to a server in turn."""
    kind: str = request.param
    if kind != "unix" and kind not in server.listens:
        lacking(f"this nerve has no --{kind}")
    return kind
