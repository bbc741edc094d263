"""Servers for tests: real ones, and fakes that misbehave."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Awaitable, Callable, Dict, List, NoReturn, Optional, Sequence, Type

import pytest

from nerve_sdk import Connecting, NerveClient

#: The program under test.
NERVE = os.environ.get("NERVE_BIN") or str(Path(__file__).resolve().parents[2] / "target/debug/nerve")
#: Time limit for a server to start or stop, in seconds.
RECONNECT_TIMEOUT = 30.0
#: A shell without the user's startup files.
SHELL = "bash --norc --noprofile"


def lacking(what: str) -> NoReturn:
    """Skips the test, or fails it in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


def until(what: str, condition: Callable[[], Any], reconnect_timeout: float = RECONNECT_TIMEOUT) -> Any:
    """Waits until the condition returns a value, and returns that."""
    deadline = time.monotonic() + reconnect_timeout
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what}: not within {reconnect_timeout} s"
        time.sleep(0.01)


async def until_async(what: str, condition: Callable[[], Awaitable[Any]], reconnect_timeout: float = RECONNECT_TIMEOUT) -> Any:
    """Waits like `until`, in an event loop."""
    deadline = time.monotonic() + reconnect_timeout
    while True:
        found = await condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what}: not within {reconnect_timeout} s"
        await asyncio.sleep(0.01)


class Server:
    """A real server on all transports."""

    def __init__(self, *options: str, ports: Sequence[int] = (0, 0)) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="nerve-py-"))
        (self.home / "home").mkdir()
        # Inherits no keys, proxies or server name. The working directory is not the checkout, where the end of an agent
        # would leave a snapshot of the files.
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.home / "home"), "NERVE_HOME": str(self.home)}
        self.env.update(PYTHONDONTWRITEBYTECODE="1", LANG="C.UTF-8", TERM="xterm-256color", SHELL="/bin/bash")
        known = subprocess.run([NERVE, "server", "start", "--help"], env=self.env, capture_output=True, text=True, timeout=RECONNECT_TIMEOUT)
        self.listens = [kind for kind in ("tcp", "http") if f"--{kind} " in known.stdout]
        self._arguments = ["server", "start", "--foreground", *options]
        for kind, port in zip(("tcp", "http"), ports):
            if kind in self.listens:
                self._arguments += [f"--{kind}", f"127.0.0.1:{port}"]
        self.socket = self.home / "run/default.sock"
        self.start()

    def start(self) -> None:
        """Starts the server and waits until it listens."""
        self.log = self.home / "server.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [NERVE, *self._arguments], env=self.env, cwd=self.home / "home", stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

        def listening() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            with socket.socket(socket.AF_UNIX) as client:
                return client.connect_ex(str(self.socket)) == 0

        until("the server listens", listening)

    def address(self, kind: str) -> str:
        """Returns its host and port."""
        output = self.run("server", "status", "--json")
        status = json.loads(output)
        status = status[0] if isinstance(status, list) else status
        return str(status[kind])

    @property
    def token(self) -> str:
        """Returns the token for network clients."""
        return self.run("token", "show").strip()

    def run(self, *arguments: str) -> str:
        """Runs a nerve command and returns its output."""
        done = subprocess.run([NERVE, *arguments], env=self.env, cwd=self.home / "home", capture_output=True, text=True, timeout=RECONNECT_TIMEOUT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def connect(self, transport: str = "unix", **options: Any) -> Connecting:
        """Returns a pending client of a transport."""
        if transport == "unix":
            return NerveClient.connect(self.socket, **options)
        address = self.address(transport)
        if transport == "tcp":
            host, _, port = address.rpartition(":")
            return NerveClient.connect_tcp(host, int(port), self.token, **options)
        return NerveClient.connect_http(f"http://{address}", self.token, **options)

    def kill(self) -> None:
        """Kills the server."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(RECONNECT_TIMEOUT)

    def stop(self) -> None:
        """Stops the server with its nodes, and removes its files."""
        try:
            if self.process.poll() is not None:
                # After a kill, its nodes survive in their hosts; a new server takes them over.
                self.start()
            self.process.terminate()
            self.process.wait(RECONNECT_TIMEOUT)
        finally:
            if self.process.poll() is None:
                self.kill()
            shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.stop()


#: Handles a connection of a fake server.
Manners = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Fake:
    """A fake server on a Unix socket or a loopback port."""

    def __init__(self, manners: Manners, tcp: bool = False) -> None:
        self._manners = manners
        self._tcp = tcp
        self._folder = tempfile.mkdtemp(prefix="nerve-py-")
        self._writers: List[asyncio.StreamWriter] = []
        self.port = 0

    @property
    def path(self) -> str:
        """Returns the path of its Unix socket."""
        return os.path.join(self._folder, "fake.sock")

    async def __aenter__(self) -> Fake:
        if self._tcp:
            # A restart uses the same address.
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]
        else:
            self._server = await asyncio.start_unix_server(self._serve, self.path, limit=20 << 20)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        shutil.rmtree(self._folder, ignore_errors=True)

    def hang_up(self) -> None:
        """Stops listening and closes all connections."""
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            await self._manners(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort() if writer.transport.is_closing() else writer.close()


async def next_request(reader: asyncio.StreamReader) -> Dict[str, Any]:
    """Returns the next request."""
    line = await reader.readline()
    if not line:
        raise ConnectionError("the client left")
    message: Dict[str, Any] = json.loads(line)
    return message


def message_line(message: Dict[str, Any]) -> bytes:
    """Returns the line of a message."""
    return json.dumps(message).encode() + b"\n"


def result(request: Dict[str, Any], data: Any = None, **more: Any) -> bytes:
    """Returns the line of a successful result."""
    return message_line({"type": "result", "success": True, "data": data, "error": None, "request_id": request["request_id"], **more})


PONG = {"pong": True, "nodes": 0, "graphs": 0, "sessions": 1, "version": "0"}
