"""Reconnecting: which requests are repeated, and what event streams deliver."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from typing import Any, List

import pytest
from servers import PONG, SHELL, Fake, Server, next_request, result, message_line, until_async

from nerve_sdk import (
    AuthenticationError,
    ConnectionClosedError,
    Event,
    EventStream,
    NerveClient,
    NerveError,
    NotRunningError,
    ProtocolError,
)
from nerve_sdk.http import RetryPolicy
from nerve_sdk.sync import NerveClient as SyncClient

RECONNECT_TIMEOUT = 30


async def following(stream: EventStream) -> Event:
    return await asyncio.wait_for(stream.__anext__(), RECONNECT_TIMEOUT)


def event(kind: str, seq: int) -> bytes:
    return message_line({"type": "event", "event_type": kind, "node_id": "me", "data": {}, "seq": seq})


async def subscribed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seq: int, server: str) -> Any:
    """Accepts a SUBSCRIBE and returns its `since`."""
    request = await next_request(reader)
    assert request["command_type"] == "SUBSCRIBE"
    writer.write(result(request, {"subscribed": True, "seq": seq, "server": server}))
    return request["params"].get("since")


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers all requests."""
    while True:
        request = await next_request(reader)
        writer.write(result(request, {"seq": 3} if request["command_type"] == "SUBSCRIBE" else PONG))


def free_ports() -> List[int]:
    """Unused loopback ports, so that a restarted server has the same address."""
    with socket.socket() as tcp, socket.socket() as http:
        for free in (tcp, http):
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in (tcp, http)]


async def test_client_reconnects_to_a_restarted_server(transport: str) -> None:
    with Server(ports=free_ports()) as mortal:
        async with mortal.connect(transport, reconnect=60) as client:
            node = await client.create_node("me", command=SHELL)
            assert (await node.execute("echo before", timeout=60)).text == "before"
            events = await client.subscribe(types=["NODE_BUSY"])
            turn = asyncio.ensure_future(node.execute("sleep 1000"))
            await node.wait("busy", timeout=60)
            assert (await following(events)).event_type == "NODE_BUSY"
            mortal.kill()
            with pytest.raises(ConnectionClosedError) as caught:
                await asyncio.wait_for(turn, RECONNECT_TIMEOUT)
            assert caught.value.sent and caught.value.request_id and "may still take effect" in str(caught.value)
            waiting = asyncio.ensure_future(client.ping())
            await asyncio.sleep(0)
            mortal.start()
            assert (await waiting).pong
            # The node outlived the server, and nothing was typed twice.
            await node.interrupt()
            await node.wait(timeout=60)
            assert (await node.execute("echo after", timeout=60)).text == "after"
            assert (await node.read()).count("sleep 1000") == 1
            missing = await following(events)
            assert (missing.event_type, missing.data) == ("EVENTS_DROPPED", {"dropped": None})
            after = await following(events)
            while after.event_type == "EVENTS_DROPPED":
                # Events of the new server from before it listened are lost too; it reports these itself.
                after = await following(events)
            assert after.event_type == "NODE_BUSY"
            assert client.unmatched_answers == 0 and client.in_flight == 0


async def test_only_read_only_commands_are_repeated() -> None:
    seen: List[Any] = []

    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            seen.append(await next_request(reader))
            if len(seen) in (2, 5):
                writer.write(result(seen[-1], PONG))
            else:
                return

    async with Fake(manners) as fake, NerveClient.connect(fake.path) as client:
        assert (await client.ping()).pong
        # The connection ends after the next request was sent.
        with pytest.raises(ConnectionClosedError) as caught:
            await client.node("me").run("x")
        assert caught.value.sent and caught.value.request_id == "2"
        with pytest.raises(ConnectionClosedError) as caught:
            await client.node("me").write("x")
        assert caught.value.sent
        assert (await client.ping()).pong
    assert [request["command_type"] for request in seen] == ["PING", "PING", "RUN_COMMAND", "WRITE_DATA", "PING"]
    assert seen[0] == seen[1]


async def test_reconnecting_times_out_and_can_be_retried() -> None:
    fake = Fake(serve)
    async with fake:
        client = await NerveClient.connect(fake.path, reconnect=0.3)
        assert (await client.ping()).pong
        events = client.events()
        fake.hang_up()

        async def noticed() -> bool:
            return bool(client._connection._connection.ended)  # type: ignore[attr-defined]

        await until_async("the client notices", noticed)
        begun = time.monotonic()
        outcomes = await asyncio.gather(client.ping(), client.node("me").run("x"), client.ping(), return_exceptions=True)
        assert all(isinstance(outcome, NotRunningError) for outcome in outcomes), outcomes
        # All fail together, not one after the other.
        assert 0.2 < time.monotonic() - begun < 5
        with pytest.raises(StopAsyncIteration):
            await following(events)
        await fake.__aenter__()
        assert (await client.ping()).pong
        await client.close()


async def test_socket_events_resume_after_the_last_one() -> None:
    wanted: List[Any] = []

    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(wanted) == 0:
            wanted.append(await subscribed(reader, writer, 4, "x"))
            writer.write(event("NODE_READY", 5))
        elif len(wanted) == 1:
            # Sent before the subscription: these events are sent again.
            writer.write(event("NODE_READY", 7) + event("NODE_BUSY", 8))
            wanted.append(await subscribed(reader, writer, 8, "x"))
            writer.write(event("NODE_READY", 6) + event("NODE_READY", 8))
        else:
            # Another server with as many events.
            wanted.append(await subscribed(reader, writer, 20, "y"))
            writer.write(event("NODE_READY", 20))
            wanted.append(await subscribed(reader, writer, 20, "y"))
            writer.write(event("NODE_READY", 1))
            await reader.read()

    async with Fake(manners) as fake, NerveClient.connect(fake.path) as client:
        events = await client.subscribe(node_id="me")
        seen = [await following(events) for _ in range(5)]
        assert [one.seq for one in seen] == [5, 6, 8, 0, 1]
        assert (seen[3].event_type, seen[3].data) == ("EVENTS_DROPPED", {"dropped": None})
        await client.close()
        with pytest.raises(StopAsyncIteration):
            await following(events)
    assert wanted == [None, 5, 8, 0]


async def test_http_events_resume_after_the_last_one() -> None:
    heads: List[str] = []

    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if head.startswith("POST"):
            pong = b'{"type":"result","success":true,"request_id":"1","data":{"pong":true}}'
            await reader.read(1000)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n")
            writer.write(f"Content-Length: {len(pong)}\r\n\r\n".encode() + pong)
            return
        heads.append(head.split(" ")[1])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        # The third is another server with as many events; the fourth sends only its position.
        server, seqs = [("a", [7, 8]), ("a", [9]), ("b", [0, 9, 10]), ("c", [0]), ("c", [1])][len(heads) - 1]
        for seq in seqs:
            part = f"id: {server}-{seq}\n".encode() + (b"data: " + event("NODE_READY", seq) if seq else b"") + b"\n"
            writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        if len(heads) == 5:
            await reader.read()

    async with Fake(manners, tcp=True) as fake:
        async with NerveClient.connect_http(f"http://127.0.0.1:{fake.port}", "t0ken") as client:
            events = await client.subscribe(node_id="me")
            seen = [await following(events) for _ in range(8)]
            assert [one.seq for one in seen] == [7, 8, 9, 0, 9, 10, 0, 1]
            for missing in (seen[3], seen[6]):
                assert (missing.event_type, missing.data) == ("EVENTS_DROPPED", {"dropped": None})
    since = ["", "&since=a-8", "&since=a-9", "&since=b-10", "&since=c-0"]
    assert heads == [f"/events?node_id=me{more}" for more in since]


async def test_http_outage_is_not_a_restart(
    server: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, _, port = server.address("http").rpartition(":")
    refused = asyncio.Event()

    class Noticed(RetryPolicy):
        async def failed(self, error: NerveError) -> None:
            if isinstance(error, NotRunningError):
                refused.set()
            await super().failed(error)

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, int(port))

        async def pass_on(come: asyncio.StreamReader, go: asyncio.StreamWriter) -> None:
            while part := await come.read(1 << 16):
                go.write(part)
                await go.drain()

        ways = [asyncio.ensure_future(way) for way in (pass_on(reader, back), pass_on(there, writer))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        back.transport.abort()

    monkeypatch.setattr("nerve_sdk.http.RetryPolicy", Noticed)
    async with server.connect() as here, Fake(forward, tcp=True) as fake:
        async with NerveClient.connect_http(f"http://127.0.0.1:{fake.port}", server.token, reconnect=60) as client:
            events = await client.subscribe(types=["NODE_CREATED"], since=0)
            nodes = [f"{name}-{at}" for at in range(3)]
            await here.create_node(nodes[0], backend="bash")
            before = [await following(events)]
            while before[-1].node_id != nodes[0]:
                before.append(await following(events))
            fake.hang_up()
            await asyncio.wait_for(refused.wait(), RECONNECT_TIMEOUT)
            await here.create_node(nodes[1], backend="bash")
            await fake.__aenter__()
            await here.create_node(nodes[2], backend="bash")
            after = [await following(events) for _ in range(2)]
            assert [(one.event_type, one.node_id) for one in after] == [("NODE_CREATED", node) for node in nodes[1:]]
            for node in nodes:
                await here.node(node).stop()


async def test_http_restart_delivers_all_new_events() -> None:
    with Server(ports=free_ports()) as mortal:
        async with mortal.connect("http", reconnect=60) as client:
            events = await client.subscribe(types=["NODE_CREATED"])
            for at in range(3):
                await client.create_node(f"a{at}", backend="bash")
                assert (await following(events)).node_id == f"a{at}"
            mortal.kill()
            mortal.start()
            async with mortal.connect() as here:
                # More events than the first server sent.
                for at in range(9):
                    await here.create_node(f"b{at}", backend="bash")
            missing = await following(events)
            assert (missing.event_type, missing.data) == ("EVENTS_DROPPED", {"dropped": None})
            seen = []
            while "b8" not in seen:
                one = await following(events)
                assert one.event_type == "NODE_CREATED"
                seen.append(one.node_id)
            assert seen[-9:] == [f"b{at}" for at in range(9)]


async def test_closing_listener_is_retried_with_pauses() -> None:
    times: List[float] = []

    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        times.append(time.monotonic())
        if len(times) == 6:
            await serve(reader, writer)

    async with Fake(manners) as fake, NerveClient.connect(fake.path) as client:
        events = client.events()
        assert (await following(events)).event_type == "EVENTS_DROPPED"
        assert (await client.ping()).pong
    assert times[5] - times[0] > 0.3


async def test_rejected_token_ends_reconnecting() -> None:
    connections = 0

    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        request = await next_request(reader)
        assert request["params"] == {"token": "t0ken"}
        if connections == 1:
            writer.write(result(request, {"authenticated": True}))
            return
        error = {"type": "result", "success": False, "error": "wrong token", "data": {"error_type": "authentication_error"}}
        writer.write(message_line({**error, "request_id": request["request_id"]}))
        await reader.read()

    async with Fake(manners, tcp=True) as fake:
        async with NerveClient.connect_tcp("127.0.0.1", fake.port, "t0ken") as client:
            with pytest.raises(AuthenticationError):
                # The first request may still use the old connection.
                for _ in range(2):
                    with pytest.raises(ConnectionClosedError):
                        await asyncio.wait_for(client.node("me").run("x"), RECONNECT_TIMEOUT)
    assert connections == 2


async def test_invalid_server_is_not_reconnected_to() -> None:
    connections = 0

    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await next_request(reader)
        writer.write(b"hello\n")
        await reader.read()

    async with Fake(manners) as fake, NerveClient.connect(fake.path) as client:
        for _ in range(3):
            with pytest.raises(ProtocolError):
                await asyncio.wait_for(client.ping(), RECONNECT_TIMEOUT)
    assert connections == 1


async def test_unmatched_answers_are_counted() -> None:
    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        late = await next_request(reader)
        request = await next_request(reader)
        strange = [result({"request_id": "99"}), result({"request_id": None})]
        writer.write(b"".join([result(late, PONG), *strange, result(request, PONG)]))
        await reader.read()

    async with Fake(manners) as fake, NerveClient.connect(fake.path) as client:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(client.ping(), 0.05)
        assert (await client.ping()).pong
        assert client.unmatched_answers == 2


async def test_cancelling_at_any_moment_leaves_no_state() -> None:
    seen: "Counter[str]" = Counter()
    lines = 0

    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal lines
        while True:
            request = await next_request(reader)
            if request["command_type"] != "PING":
                seen[request["request_id"]] += 1
                lines += 1
                if lines % 5 == 0:
                    return
            writer.write(result(request, {**PONG, "written": 1}))

    async def attempt(node: Any, reconnect_timeout: float) -> None:
        try:
            await asyncio.wait_for(node.write("x"), reconnect_timeout)
        except (asyncio.TimeoutError, ConnectionClosedError):
            pass

    async with Fake(manners) as fake, NerveClient.connect(fake.path, reconnect=60) as client:
        node = client.node("me")
        for turn in range(150):
            await asyncio.gather(*(attempt(node, turn * at * 7919 % 400 / 100_000) for at in (1, 2, 3)))
        assert (await client.ping()).pong
        assert client.in_flight == 0 and client.unmatched_answers == 0
    assert len(seen) > 20 and set(seen.values()) == {1}


def test_blocking_client_reconnects(mortal: Server) -> None:
    with SyncClient.connect(mortal.socket, reconnect=60) as client:
        node = client.create_node("me", command=SHELL)
        assert node.execute("echo before", timeout=60).text == "before"
        with client.events() as events:
            mortal.kill()
            mortal.start()
            node.wait(timeout=60)
            assert node.execute("echo after", timeout=60).text == "after"
            while True:
                found = events.next(timeout=RECONNECT_TIMEOUT)
                assert found is not None
                if found.event_type == "EVENTS_DROPPED":
                    break
    with SyncClient.connect(mortal.socket, reconnect=0) as client:
        mortal.kill()
        with pytest.raises(NerveError):
            client.ping()
