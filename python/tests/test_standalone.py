"""Standalone servers, which start and stop with their client."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from servers import NERVE, SHELL, Server, until

from nerve_sdk import NerveClient, NotRunningError
from nerve_sdk.paths import program_path, socket_path

ROOT = Path(__file__).resolve().parent.parent


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


async def test_standalone_stops_and_leaves_no_files(server: Server) -> None:
    async with NerveClient.standalone(NERVE, env=server.env) as client:
        assert client._own is not None
        pid, home = client._own.pid, client._own.socket.parent.parent
        assert home.stat().st_mode & 0o777 == 0o700
        node = await client.create_node("me", command=SHELL)
        assert (await node.execute("echo own", timeout=60)).text == "own"
        shell = (await node.info()).metadata["pid"]
    assert gone(pid) and not home.exists()
    until("the node's program is gone", lambda: gone(shell))


async def test_standalone_servers_are_isolated(server: Server) -> None:
    async with NerveClient.standalone(NERVE, env=server.env) as one:
        async with NerveClient.standalone(NERVE, env=server.env) as other:
            await one.create_node("me", backend="bash")
            assert await other.list_nodes() == []


async def test_closing_after_server_death(server: Server) -> None:
    async with NerveClient.standalone(NERVE, env=server.env) as client:
        assert client._own is not None
        home = client._own.socket.parent.parent
        client._own._process.kill()
    assert not home.exists()


async def test_start_failure_is_reported() -> None:
    with pytest.raises(NotRunningError, match="nerve="):
        await NerveClient.standalone("/no/such/nerve")
    with pytest.raises(NotRunningError, match="ended with 1"):
        await NerveClient.standalone("/bin/false")


async def test_server_that_does_not_listen_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    program = tmp_path / "sleeper"
    program.write_text(f"#!/bin/sh\necho trying >&2\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    program.chmod(0o755)
    with pytest.raises(NotRunningError, match="(?s)does not listen after 0.5 s.*trying"):
        await NerveClient.standalone(program, timeout=0.5)
    assert gone(int((tmp_path / "pid").read_text()))
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_dir()] == []


def test_unclosed_client_leaves_no_server(server: Server, tmp_path: Path) -> None:
    script = f"""
import asyncio
from nerve_sdk import NerveClient
async def main():
    client = await NerveClient.standalone({NERVE!r})
    print(client._own.pid, client._own.socket, flush=True)
asyncio.run(main())
"""
    env = {**server.env, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    pid, socket = done.stdout.split()
    assert gone(int(pid)) and not os.path.exists(socket)


def test_socket_path_matches_nerve(server: Server, tmp_path: Path) -> None:
    uid = os.getuid()
    assert socket_path(env={"NERVE_HOME": "/n"}) == Path("/n/run/default.sock")
    assert socket_path("work", {"NERVE_HOME": "/n", "NERVE_SERVER": "other"}) == Path("/n/run/work.sock")
    assert socket_path(env={"NERVE_HOME": "/n", "NERVE_SERVER": "other"}) == Path("/n/run/other.sock")
    assert socket_path(env={"NERVE_HOME": "n"}) == Path.cwd() / "n/run/default.sock"
    assert socket_path(env={"XDG_RUNTIME_DIR": str(tmp_path)}) == tmp_path / "nerve/default.sock"
    assert socket_path(env={"XDG_RUNTIME_DIR": "/no/such/folder"}) == Path(f"/tmp/nerve-{uid}/default.sock")
    assert socket_path(env={"XDG_RUNTIME_DIR": "relative"}) == Path(f"/tmp/nerve-{uid}/default.sock")
    assert socket_path(env={"TMPDIR": "/t"}) == Path(f"/t/nerve-{uid}/default.sock")
    assert socket_path(env=server.env) == server.socket
    for name in ("../x", "a/b", "A", "-a", "a-", "a" * 33):
        with pytest.raises(ValueError, match="server name"):
            socket_path(name, {})


async def test_default_path_is_this_users_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NERVE_HOME", str(server.home))
    monkeypatch.delenv("NERVE_SERVER", raising=False)
    async with NerveClient.connect() as client:
        assert (await client.ping()).pong
    with pytest.raises(NotRunningError):
        await NerveClient.connect(server="missing")


def test_program_of_the_wheel_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nerve_sdk.paths.metadata.files", lambda name: None)
    assert program_path() == "nerve"
    info = tmp_path / "lib" / "nerve_sdk-0.1.0.dist-info"
    info.mkdir(parents=True)
    record = "nerve_sdk/__init__.py,,\n../bin/nerve,,\n"
    (info / "RECORD").write_text(record)
    (info / "METADATA").write_text("Name: nerve-sdk\nVersion: 0.1.0\n")
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(info.parent))
    assert program_path() == "nerve", "the recorded program does not exist"
    program = tmp_path / "bin" / "nerve"
    program.parent.mkdir()
    program.touch()
    assert program_path() == str(program)
