"""Concurrent and cancelled requests, and servers that die or send invalid data."""

from __future__ import annotations

import asyncio
import json
from typing import Any, List

import pytest
from servers import PONG, SHELL, Fake, Server, next_request, result, message_line, until_async

from nerve_sdk import (
    ConnectionClosedError,
    InvalidRequestError,
    NerveClient,
    NerveError,
    NotRunningError,
    ProtocolError,
    ServerError,
)
from nerve_sdk.wire import MAX_LINE

RECONNECT_TIMEOUT = 30


async def test_concurrent_requests_get_their_own_answers(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        nodes = [await client.create_node(f"{name}-{at}", backend="bash") for at in range(4)]
        answers = await asyncio.gather(*(nodes[at % 4].execute(f"echo answer {at}") for at in range(100)))
        assert [answer.text for answer in answers] == [f"answer {at}" for at in range(100)]
        pongs = await asyncio.gather(*(client.ping() for _ in range(100)))
        assert all(pong.pong for pong in pongs)
        await asyncio.gather(*(node.stop() for node in nodes))


async def test_cancelling_a_request_discards_only_its_answer(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, command=SHELL)
        await node.wait(timeout=60)
        given_up = asyncio.ensure_future(node.execute("sleep 0.5; echo given up"))
        kept = asyncio.ensure_future(client.node(name).wait(["stopped"], timeout=60))
        await node.wait("busy", timeout=60)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert (await client.ping()).pong
        # The turn continued: the next one follows it and contains none of its output.
        assert (await node.execute("echo mine", timeout=60)).text == "mine"
        assert "given up" in await node.read()
        await node.stop()
        assert await kept == "stopped"


async def test_cancelled_requests_leave_no_state(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, command=SHELL)
        for _ in range(50):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(node.wait("suspended"), 0.001)
        assert client.in_flight == 0
        await node.stop()


async def test_large_texts_are_complete(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, backend="bash")
        answer = await node.execute("head -c 400000 /dev/zero | tr '\\0' x; echo ü")
        assert answer.text == "x" * 400_000 + "ü"
        await node.stop()
        with pytest.raises(ServerError):
            await client.request("GET_NODE", {"node_id": "n" * (15 << 20)})
        assert (await client.ping()).pong


async def test_longest_line_is_accepted() -> None:
    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await next_request(reader)
        short = len(result(request, {"buffer": ""})) - 1
        line = result(request, {"buffer": "x" * (MAX_LINE - short)})
        assert len(line) == MAX_LINE + 1
        writer.write(line)
        await reader.read()

    async with Fake(manners) as fake, NerveClient.connect(fake.path) as client:
        assert len(await client.node("me").read()) > MAX_LINE - 1000


async def test_invalid_requests_are_not_sent(server: Server, transport: str) -> None:
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    endless: List[Any] = []
    endless.append(endless)
    wrong = [
        ("x" * (MAX_LINE + 1), "holds at most"),
        (deep, "deep"),
        (endless, "deep"),
        ("\ud800", "JSON"),
        (float("nan"), "JSON"),
        (b"bytes", "JSON"),
    ]
    async with server.connect(transport) as client:
        for value, reason in wrong:
            with pytest.raises(ProtocolError, match=reason):
                await client.request("GET_NODE", {"node_id": value})
        assert (await client.ping()).pong


async def test_server_death_fails_all_pending_requests(mortal: Server) -> None:
    async with mortal.connect(reconnect=0) as client:
        node = await client.create_node("me", command=SHELL)
        await node.wait(timeout=60)
        events = client.events()
        stream = node.execute_stream("sleep 60")
        waiting: List[Any] = [asyncio.ensure_future(node.wait("suspended")) for _ in range(20)]
        waiting.append(asyncio.ensure_future(stream.__anext__()))
        await node.wait("busy", timeout=60)
        mortal.kill()
        outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), RECONNECT_TIMEOUT)
        assert all(isinstance(outcome, ConnectionClosedError) and outcome.sent for outcome in outcomes), outcomes
        assert len({outcome.request_id for outcome in outcomes}) == len(outcomes)
        assert len({id(outcome) for outcome in outcomes}) == len(outcomes)
        async for _ in events:
            pass
        with pytest.raises(ConnectionClosedError) as caught:
            await client.ping()
        assert not caught.value.sent


async def test_missing_server_fails_at_once(mortal: Server) -> None:
    mortal.kill()
    with pytest.raises(NotRunningError) as error:
        await mortal.connect()
    assert "nerve server start" in str(error.value)


async def test_closed_client_raises(server: Server, transport: str) -> None:
    client = await server.connect(transport)
    waiting = asyncio.ensure_future(client.request("WAIT_NODE", {"node_id": "none", "until": "ready"}))
    events = client.events()
    await client.close()
    await client.close()
    with pytest.raises((ConnectionClosedError, ServerError)):
        await waiting
    with pytest.raises(ConnectionClosedError):
        await client.ping()
    async for _ in events:
        pass


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (b"this is no JSON\n", "not JSON"),
        (b"\xff\xfe\n", "not JSON"),
        (b"[1, 2]\n", "not an object"),
        (b"[" * 100_000 + b"\n", "not JSON"),
        (b'{"type": "event"}\n', "event_type"),
        (b'{"type": "event", "event_type": "X", "seq": "one"}\n', "seq"),
        (b"x" * (MAX_LINE + 1), "more than"),
        (b"x" * (MAX_LINE + 1) + b"\n", "more than"),
    ],
    ids=["text", "bytes", "list", "deep", "event", "seq", "long", "long-line"],
)
async def test_invalid_message_ends_the_connection(words: bytes, reason: str) -> None:
    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await next_request(reader)
        writer.write(words + b"\n" + result(request, PONG))
        await reader.read()

    async with Fake(manners) as fake, NerveClient.connect(fake.path) as client:
        waiting = [asyncio.ensure_future(client.ping()) for _ in range(3)]
        for one in waiting:
            with pytest.raises(ProtocolError, match=reason):
                await asyncio.wait_for(one, RECONNECT_TIMEOUT)
        with pytest.raises(ProtocolError, match=reason):
            await client.ping()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"success": True, "data": {"nodes": 1}}, "the server sent no pong"),
        ({"success": True, "data": {"pong": True, "nodes": "one"}}, "nodes is str"),
        ({"success": True, "data": [1]}, "instead of an object"),
        ({"data": {}}, "without `success`"),
    ],
)
async def test_invalid_result_fails_only_its_request(answer: Any, reason: str) -> None:
    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, second = await next_request(reader), await next_request(reader)
        writer.write(message_line({"type": "result", "request_id": first["request_id"], **answer}) + result(second, PONG))
        await reader.read()

    async with Fake(manners) as fake, NerveClient.connect(fake.path) as client:
        wrong, right = asyncio.ensure_future(client.ping()), asyncio.ensure_future(client.ping())
        with pytest.raises(ProtocolError, match=reason):
            await asyncio.wait_for(wrong, RECONNECT_TIMEOUT)
        assert (await right).pong


async def test_unknown_additions_are_ignored() -> None:
    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await next_request(reader)
        writer.write(b"\n" + message_line({"type": "greeting"}) + message_line({"type": "result", "success": True, "request_id": "999"}))
        writer.write(message_line({"type": "event", "event_type": "NODE_DANCES", "mood": 1}))
        line = result(request, {**PONG, "weather": "fine"})
        for byte in range(0, len(line), 7):
            writer.write(line[byte : byte + 7])
            await writer.drain()
        second = await next_request(reader)
        error = {"type": "result", "success": False, "error": "no", "data": {"error_type": "new_kind"}}
        writer.write(message_line({**error, "request_id": second["request_id"]}))
        await reader.read()

    async with Fake(manners) as fake, NerveClient.connect(fake.path) as client:
        assert (await client.ping()).pong
        with pytest.raises(ServerError) as caught:
            await client.ping()
        assert type(caught.value) is ServerError and caught.value.error_type == "new_kind"


async def test_error_without_id_fails_all_pending_requests() -> None:
    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await next_request(reader)
        await next_request(reader)
        refusal = {"error": "I do not understand", "error_type": "invalid_request_error", "request_id": None}
        writer.write(message_line({"type": "error", **refusal}))
        writer.write(result(await next_request(reader), PONG))
        await reader.read()

    async with Fake(manners) as fake, NerveClient.connect(fake.path) as client:
        for outcome in await asyncio.gather(client.ping(), client.ping(), return_exceptions=True):
            assert isinstance(outcome, InvalidRequestError) and "understand" in str(outcome)
        assert (await client.ping()).pong


async def test_blocked_write_does_not_block_the_loop() -> None:
    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async with Fake(manners) as fake, NerveClient.connect(fake.path) as client:
        asking = [asyncio.ensure_future(client.request("X", {"text": "x" * (8 << 20)})) for _ in range(8)]
        done, _ = await asyncio.wait(asking, timeout=0.2)
        assert not done
        for one in asking:
            one.cancel()
        outcomes = await asyncio.wait_for(asyncio.gather(*asking, return_exceptions=True), RECONNECT_TIMEOUT)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
        # Requests cancelled while queued were not sent.
        await asyncio.wait_for(client.close(), RECONNECT_TIMEOUT)


async def test_dropped_chunks_are_counted() -> None:
    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await next_request(reader)
        event = {"type": "event", "event_type": "OUTPUT_CHUNK", "node_id": "me"}
        writer.write(message_line({**event, "node_id": "other", "data": {"chunk": "not mine"}}))
        for at in range(1500):
            writer.write(message_line({**event, "data": {"turn": 1, "chunk": f"{at} "}}))
        writer.write(result(request, {"response": {"text": "whole", "success": True}, "node_id": "me", "turn": 1}))
        writer.write(message_line({**event, "data": {"turn": 2, "chunk": "a later turn"}}))
        await reader.read()

    async with Fake(manners) as fake, NerveClient.connect(fake.path) as client:
        stream = client.node("me").execute_stream("x")
        chunks = [await stream.__anext__()]

        async def answered() -> bool:
            return client.in_flight == 0

        await until_async("the answer is there", answered)
        chunks += [chunk async for chunk in stream]
        assert len(chunks) + stream.missed == 1500 and stream.missed > 0
        assert chunks[:2] == ["0 ", "1 "] and "not mine" not in chunks and "a later turn" not in chunks
        assert stream.response is not None and str(stream.response) == "whole"


async def test_missing_server_error_has_a_hint(tmp_path: Any) -> None:
    with pytest.raises(NotRunningError, match="nerve server start"):
        await NerveClient.connect(tmp_path / "none.sock")
    with pytest.raises(ConnectionError):
        await NerveClient.connect(str(tmp_path / "none.sock"))
    (tmp_path / "file").write_text("")
    with pytest.raises(NerveError):
        await NerveClient.connect(tmp_path / "file")
    with pytest.raises(NerveError):
        await NerveClient.connect(tmp_path / ("x" * 200))


async def test_requests_have_the_wire_format() -> None:
    lines: List[Any] = []

    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for data in ({"node_id": "me"}, {"response": {}, "node_id": "me", "turn": 1}):
            lines.append(await next_request(reader))
            writer.write(result(lines[-1], data))
        await reader.read()

    async with Fake(manners) as fake, NerveClient.connect(fake.path) as client:
        node = await client.create_node("me", command=("a", "b"), cwd="/", record=False, conversation={"workspace": "w", "chat": "c"})
        await node.execute("grüße", timeout=1.5)
    create, execute = lines
    assert create["type"] == "command" and create["command_type"] == "CREATE_NODE"
    assert create["params"] == {
        "node_id": "me",
        "command": ["a", "b"],
        "cwd": "/",
        "record": False,
        "conversation": {"workspace": "w", "chat": "c"},
    }
    assert execute["params"]["text"] == "grüße" and execute["params"]["timeout"] == 1.5
    assert create["request_id"] != execute["request_id"] and "session_id" not in json.dumps(lines)


async def test_subscription_excludes_events_from_before_its_filter() -> None:
    def event(kind: str, seq: int) -> bytes:
        return message_line({"type": "event", "event_type": kind, "seq": seq})

    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await next_request(reader)
        writer.write(event("NODE_BUSY", 3) + result(request, {"subscribed": True, "seq": 3}) + event("NODE_READY", 4))
        await reader.read()

    async with Fake(manners) as fake, NerveClient.connect(fake.path) as client:
        events = await client.subscribe(types=["NODE_READY"])
        assert (await asyncio.wait_for(events.__anext__(), RECONNECT_TIMEOUT)).seq == 4


async def test_first_event_stream_subscribes_to_all_events() -> None:
    seen: List[Any] = []

    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await next_request(reader)
            seen.append((request["command_type"], request["params"]))
            writer.write(result(request, {"subscribed": True, "seq": 4, "server": "x"} if request["command_type"] == "SUBSCRIBE" else PONG))
            writer.write(message_line({"type": "event", "event_type": "NODE_ACTIVITY", "seq": 4 + len(seen)}))

    async with Fake(manners) as fake, NerveClient.connect(fake.path) as client:
        events, more = client.events(), client.events()
        assert (await client.ping()).pong
        assert (await asyncio.wait_for(events.__anext__(), RECONNECT_TIMEOUT)).event_type == "NODE_ACTIVITY"
        selected = await client.subscribe(node_id="me")
        assert client.unmatched_answers == 0
        for stream in (events, more, selected, client.events()):
            await stream.aclose()
        assert (await client.ping()).pong
    assert seen == [("SUBSCRIBE", {}), ("PING", {}), ("SUBSCRIBE", {"node_id": "me", "aliases": False}), ("PING", {})]
