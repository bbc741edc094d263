"""A private server for one client."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Awaitable, Callable, Mapping, Optional, Union

from .errors import NerveError, NotRunningError
from .paths import program_path

#: Interval for checking whether the server listens or has ended, in seconds.
POLL = 0.02
#: Time limit for the server to stop with its nodes, in seconds. After that it is killed.
STOP_TIMEOUT = 20.0
#: Maximum length of the home's path: it contains sockets, whose paths are limited to 107 bytes.
MAX_HOME_LENGTH = 107 - len("/run/hosts/0123456789ab/hooks/socket")
#: Bytes quoted from the log of a server that failed to start.
LOG_TAIL = 2000


class Standalone:
    """A server process with its own home."""

    def __init__(self, process: subprocess.Popen[bytes], home: Path) -> None:
        self._process = process
        self._home = home
        # Stops the server if the client is never closed.
        atexit.register(self._abandon)

    @property
    def socket(self) -> Path:
        """The path of its socket."""
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
        program = os.fspath(nerve) if nerve is not None else program_path()
        try:
            with open(home / "server.log", "wb") as log:
                process = subprocess.Popen(
                    [program, "server", "start", "--foreground"],
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    # Ctrl+C must reach only this program, which then closes its client.
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

    async def stop(self, shutdown: Optional[Callable[[], Awaitable[None]]] = None) -> None:
        """Stops it with its nodes, by the request `shutdown` if given, and removes its home. Can be called again."""
        if shutdown is not None and self._process.poll() is None:
            with contextlib.suppress(NerveError, asyncio.TimeoutError):
                await asyncio.wait_for(shutdown(), STOP_TIMEOUT)
        elif self._process.poll() is None:
            self._process.terminate()
        try:
            await asyncio.wait_for(self._ended(), STOP_TIMEOUT)
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
        """Stops it at the end of the program, without an event loop."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._forget()

    def _forget(self) -> None:
        atexit.unregister(self._abandon)
        shutil.rmtree(self._home, ignore_errors=True)


def _private_home() -> Path:
    """Creates a directory of mode 0700 whose path is short enough for sockets."""
    home = tempfile.mkdtemp(prefix="nerve-")
    if len(os.fsencode(home)) > MAX_HOME_LENGTH:
        os.rmdir(home)
        home = tempfile.mkdtemp(prefix="nerve-", dir="/tmp")
    return Path(home)
