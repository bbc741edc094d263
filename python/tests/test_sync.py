"""The blocking client: same names, threads, streams as iterators."""

from __future__ import annotations

import inspect
import signal
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict

import pytest
from servers import NERVE, SHELL, Server, until

import nerve_sdk
from nerve_sdk import ConnectionClosedError, NerveTimeoutError, NotFoundError, NotRunningError, sync

ROOT = Path(__file__).resolve().parent.parent


def connect(server: Server, transport: str) -> sync.NerveClient:
    if transport == "unix":
        return sync.NerveClient.connect(server.socket)
    address = server.address(transport)
    if transport == "http":
        return sync.NerveClient.connect_http(f"http://{address}", server.token)
    host, _, port = address.rpartition(":")
    return sync.NerveClient.connect_tcp(host, int(port), server.token)


@pytest.mark.parametrize("module", ["sync", "types"])
def test_generated_module_is_up_to_date(module: str) -> None:
    command = [sys.executable, str(ROOT / f"tools/generate_{module}.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["NerveClient", "RemoteNode", "RemoteChannel"])
def test_signatures_match_the_asyncio_client(kind: str) -> None:
    def public(owner: Any) -> Dict[str, Any]:
        return {name: getattr(owner, name) for name in dir(owner) if not name.startswith("_")}

    one, other = public(getattr(nerve_sdk, kind)), public(getattr(sync, kind))
    assert sorted(one) == sorted(other)
    for name, method in one.items():
        if callable(method):
            assert list(inspect.signature(method).parameters) == list(inspect.signature(other[name]).parameters), name


def test_node_lifecycle(server: Server, transport: str, name: str) -> None:
    with connect(server, transport) as client:
        node = client.create_node(name, command=SHELL)
        assert repr(node) == f"RemoteNode('{name}')" and node.id == name and node.session_id is None
        assert node.wait(timeout=60) == "ready"
        assert node.execute("echo hello", timeout=60).text == "hello"
        with node.execute_stream("for i in 1 2 3; do echo $i; sleep 0.1; done") as stream:
            assert "".join(stream) == "1\n2\n3"
        assert stream.response is not None and stream.response.text == "1\n2\n3" and stream.missed == 0
        assert client.usage(name).rows == []
        assert "hello" in node.read() and node.info().state == "ready" and node.history().total > 0
        with pytest.raises(NerveTimeoutError):
            node.wait("suspended", timeout=0.1)
        node.stop()
        assert client.get_node(name).info().state == "stopped"
        node.remove()
        with pytest.raises(NotFoundError):
            client.get_node(name)


def test_events_are_an_iterator(server: Server, transport: str, name: str) -> None:
    with connect(server, transport) as client:
        with client.subscribe(node_id=name, types=["NODE_CREATED", "NODE_STOPPED"]) as events:
            with pytest.raises(TimeoutError):
                events.next(timeout=0.05)
            client.create_node(name, backend="bash").stop()
            first, second = next(events), events.next(timeout=30)
            assert second is not None
            assert (first.event_type, second.event_type) == ("NODE_CREATED", "NODE_STOPPED")
        assert list(events) == []


def test_threads_share_a_client(server: Server, transport: str, name: str) -> None:
    with connect(server, transport) as client, ThreadPoolExecutor(20) as pool:
        node = client.create_node(name, backend="bash")
        answers = list(pool.map(lambda at: node.execute(f"echo {at}").text, range(60)))
        assert answers == [str(at) for at in range(60)]
        node.stop()


def test_graphs_and_sessions(server: Server, name: str) -> None:
    steps = [{"id": "a", "node": "sh", "input": "echo {{ input | sh }}"}]
    with connect(server, "unix") as client:
        definition = {"graph": name, "nodes": {"sh": {"type": "bash"}}, "steps": steps}
        assert client.execute_graph(definition, input="hi").results["a"]["text"] == "hi"
        client.create_session(name)
        assert name in [session.name for session in client.list_sessions()]
        client.delete_session(name)


def test_deprecated_names_work_and_warn(server: Server, name: str) -> None:
    with connect(server, "unix") as client:
        with pytest.warns(DeprecationWarning, match="create_node") as caught:
            channel = client.create_channel(name, command=SHELL)
        assert caught[0].filename == __file__
        with pytest.warns(DeprecationWarning, match="execute"):
            assert channel.send("echo hello", timeout=60).text == "hello"
        with pytest.warns(DeprecationWarning, match="execute_stream"):
            assert "".join(channel.send_stream("echo more")) == "more"
        with pytest.warns(DeprecationWarning, match="list_nodes"):
            assert name in client.list_channels()
        with pytest.warns(DeprecationWarning, match="get_node"):
            again = client.get_channel(name)
        with pytest.warns(DeprecationWarning, match="stop"):
            again.close()


def test_close_ends_the_thread_and_pending_calls(server: Server, transport: str, name: str) -> None:
    def threads() -> int:
        return sum(thread.name == "nerve-sdk" for thread in threading.enumerate())

    before = threads()
    client = connect(server, transport)
    node = client.create_node(name, backend="bash")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(node.execute, "sleep 5")
        with connect(server, "unix") as other:
            other.node(name).wait("busy", timeout=30)
        client.close()
        client.close()
        with pytest.raises(ConnectionClosedError):
            waiting.result(30)
    with pytest.raises(RuntimeError, match="closed"):
        client.ping()
    assert threads() == before


def test_failed_connection_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    with pytest.raises(NotRunningError):
        sync.NerveClient.connect(tmp_path / "none.sock")
    assert threading.active_count() == before


def test_standalone_server_is_stopped(server: Server) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        with sync.NerveClient.standalone(NERVE, env=server.env) as client:
            pid = client._inner._own.pid if client._inner._own else 0
            assert client.create_node("me", backend="bash").execute("echo own").text == "own"
    until("the server is gone", lambda: not Path(f"/proc/{pid}").exists())


def test_keyboard_interrupt_ends_the_wait(server: Server) -> None:
    script = f"""
from nerve_sdk.sync import NerveClient
with NerveClient.standalone({NERVE!r}) as client:
    node = client.create_node("me", backend="bash")
    print(client._inner._own.pid, flush=True)
    node.execute("sleep 60")
"""
    env = {**server.env, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=30)
    assert program.returncode in (130, -signal.SIGINT) and "KeyboardInterrupt" in errors
    until("the server is gone", lambda: not Path(f"/proc/{pid}").exists())
