"""Shared fixtures: a real server with its own home, and coroutine tests with a time limit."""

from __future__ import annotations

import asyncio
import inspect
import zlib
from typing import Any, Iterator, Optional

import pytest
from servers import Server, lacking

#: Time limit of a test, in seconds. A debug server on a busy machine is slow.
LIMIT = 90


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> Optional[bool]:
    """Runs each coroutine test in its own event loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), LIMIT))
    return True


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server shared by all tests, which use different names."""
    with Server() as real_server:
        yield real_server


@pytest.fixture
def mortal() -> Iterator[Server]:
    """A server for one test, which may kill it."""
    with Server() as real_server:
        yield real_server


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A unique name: 1–32 of a-z 0-9 -."""
    return f"n{zlib.crc32(request.node.nodeid.encode())}"


@pytest.fixture(params=["unix", "tcp", "http"])
def transport(request: pytest.FixtureRequest, server: Server) -> str:
    """Each transport in turn."""
    kind: str = request.param
    if kind != "unix" and kind not in server.listens:
        lacking(f"this nerve has no --{kind}")
    return kind
