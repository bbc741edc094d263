"""A server of a client's own."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Mapping, Optional, Union

from .errors import NerveError, NotRunningError

if TYPE_CHECKING:
    from .client import NerveClient

#: How often is looked whether the server has begun to listen, or has ended, in seconds.
POLL = 0.02
#: How long a server may take to stop its nodes and itself, in seconds. Then it is killed.
STOP_PATIENCE = 20.0
#: The longest home: sockets of hosts are below it, and the kernel takes paths of 107 bytes.
LONGEST_HOME = 107 - len("/run/hosts/0123456789ab/hooks/socket")
#: What is quoted of the log of a server that did not start, in bytes.
LOG_TAIL = 2000


class Standalone:
    """A server process with a home of its own."""

    def __init__(self, process: subprocess.Popen[bytes], home: Path) -> None:
        self._process = process
        self._home = home
        # If nobody closes the client: a server that nobody knows of must not stay behind.
        atexit.register(self._abandon)

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self._home / "run" / "default.sock"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @classmethod
    async def start(
        cls, nerve: Union[str, os.PathLike[str], None], env: Optional[Mapping[str, str]], timeout: float
    ) -> Standalone:
        """Starts it and waits until it answers, for at most `timeout` seconds.

        Raises `NotRunningError` with the end of its log.
        """
        home = _private_home()
        variables = {**os.environ, **(env or {}), "NERVE_HOME": str(home)}
        variables.pop("NERVE_SERVER", None)
        program = os.fspath(nerve) if nerve is not None else "nerve"
        try:
            with open(home / "server.log", "wb") as log:
                process = subprocess.Popen(
                    [program, "server", "start", "--foreground"],
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    # A ^C is for this program, which then closes its client.
                    start_new_session=True,
                )
        except OSError as error:
            shutil.rmtree(home, ignore_errors=True)
            raise NotRunningError(f"cannot start {program}: {error} (give its path as nerve=…)") from error
        server = cls(process, home)
        try:
            await asyncio.wait_for(server._listening(program), timeout)
        except BaseException as error:
            log_text = server._log()
            await server.stop()
            if isinstance(error, asyncio.TimeoutError):
                raise NotRunningError(f"{program} does not listen after {timeout} s: {log_text}") from error
            raise
        return server

    async def stop(self, client: Optional[NerveClient] = None) -> None:
        """Stops it with its nodes, through `client` if it still can, and removes its home. May be called again."""
        if client is not None and self._process.poll() is None:
            with contextlib.suppress(NerveError, asyncio.TimeoutError):
                await asyncio.wait_for(client.shutdown(), STOP_PATIENCE)
        elif self._process.poll() is None:
            self._process.terminate()
        try:
            await asyncio.wait_for(self._ended(), STOP_PATIENCE)
        except asyncio.TimeoutError:
            self._process.kill()
            await self._ended()
        self._forget()

    async def _listening(self, program: str) -> None:
        while True:
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                _, writer = await asyncio.open_unix_connection(str(self.socket))
                writer.close()
                return
            if self._process.poll() is not None:
                raise NotRunningError(f"{program} ended with {self._process.returncode}: {self._log()}")
            await asyncio.sleep(POLL)

    async def _ended(self) -> None:
        while self._process.poll() is None:
            await asyncio.sleep(POLL)

    def _log(self) -> str:
        try:
            return (self._home / "server.log").read_bytes()[-LOG_TAIL:].decode("utf-8", "replace").strip()
        except OSError as error:
            return f"(its log cannot be read: {error})"

    def _abandon(self) -> None:
        """At the end of this program: there is no event loop any more."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._forget()

    def _forget(self) -> None:
        atexit.unregister(self._abandon)
        shutil.rmtree(self._home, ignore_errors=True)


def _private_home() -> Path:
    """A directory of mode 0700 whose path is short enough for sockets below it."""
    home = tempfile.mkdtemp(prefix="nerve-")
    if len(os.fsencode(home)) > LONGEST_HOME:
        os.rmdir(home)
        home = tempfile.mkdtemp(prefix="nerve-", dir="/tmp")
    return Path(home)
