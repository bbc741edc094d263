"""Sessions, graphs, events and warnings, over each transport where it matters."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any, Dict, List

import pytest
from servers import SHELL, Server, until_async

from nerve_sdk import (
    Event,
    InvalidRequestError,
    NerveWarning,
    NotFoundError,
    RunCancelledError,
    ServerError,
)
from nerve_sdk.events import EVENT_QUEUE, EventHub

HELLO: Dict[str, Any] = {
    "graph": "hello",
    "nodes": {"sh": {"type": "bash"}},
    "steps": [
        {"id": "a", "node": "sh", "input": "echo hello {{ input | sh }}"},
        {"id": "b", "node": "sh", "input": "echo {{ steps.a.text | sh }} again", "depends_on": ["a"]},
    ],
}
ENDLESS: Dict[str, Any] = {"nodes": {"sh": {"type": "bash"}}, "steps": [{"id": "a", "node": "sh", "input": "sleep 60"}]}
GATE: Dict[str, Any] = {"steps": [{"id": "ask", "gate": {"question": "Continue?", "choices": ["yes", "no"]}}]}


async def test_ping_returns_counts(server: Server, transport: str) -> None:
    async with server.connect(transport) as client:
        pong = await client.ping()
        assert pong.pong and pong.sessions >= 1 and pong.version


async def test_sessions(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        made = await client.create_session(name, "for a test", tags=["one", "two"])
        assert (made.name, made.description, made.tags, made.nodes) == (name, "for a test", ["one", "two"], [])
        node = await client.create_node("sh", backend="bash", session_id=name)
        assert node.session_id == name and (await node.execute("echo in")).text == "in"
        assert (await client.get_session(name)).nodes == ["sh"]
        assert (await client.stop_session(name)).nodes == ["sh"]
        started = await client.start_session(name)
        assert started.nodes == ["sh"] and started.failed == []
        await node.stop()
        assert name in [session.name for session in await client.list_sessions()]
        assert (await client.get_session()).name == "default"
        await client.delete_session(name)
        with pytest.raises(NotFoundError):
            await client.get_session(name)


async def test_stopped_node_is_restarted(server: Server, name: str) -> None:
    async with server.connect() as client:
        await client.create_session(name)
        node = await client.create_node("sh", command=SHELL, session_id=name)
        await client.stop_session(name)
        assert [(one.node_id, one.state) for one in await client.list_stopped_nodes(name)] == [("sh", "stopped")]
        await node.start()
        assert (await node.execute("echo back", timeout=60)).text == "back"
        await node.stop()
        await node.remove()
        assert await client.prune_nodes(name) == [] and await client.restore_nodes() == []
        await client.delete_session(name)


async def test_graph_runs_from_its_definition(server: Server, transport: str) -> None:
    async with server.connect(transport) as client:
        run = await client.execute_graph(HELLO, input="world", trace=True)
        assert run.state == "completed" and run.results["b"]["text"] == "hello world again"
        assert run.trace is not None and len(run.trace["steps"]) == 2
        seen = await client.get_run(run.run_id)
        assert (seen.state, seen.total_steps, seen.done_steps) == ("completed", 2, 2)
        assert run.run_id in [one.run_id for one in await client.list_runs()]


async def test_failed_graph_reports_completed_steps(server: Server, transport: str) -> None:
    steps = [
        {"id": "a", "node": "sh", "input": "echo done"},
        {"id": "b", "node": "sh", "input": "exit 7", "depends_on": ["a"]},
    ]
    async with server.connect(transport) as client:
        with pytest.raises(ServerError) as error:
            await client.execute_graph({**HELLO, "steps": steps})
        assert error.value.data["state"] == "failed"
        assert error.value.data["results"]["a"]["text"] == "done"


async def test_registered_graphs(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        made = await client.create_graph({**HELLO, "graph": name})
        assert (made.graph_id, made.steps) == (name, ["a", "b"])
        assert (await client.run_graph(name, input="you")).results["a"]["text"] == "hello you"
        begun = await client.start_registered_graph(name, input="me", run_id=f"{name}-r")
        assert begun.run_id == f"{name}-r"

        async def ended() -> bool:
            return (await client.get_run(begun.run_id)).state == "completed"

        await until_async("the run ends", ended)
        assert (await client.get_graph(name)).definition is not None
        assert name in [graph.graph_id for graph in await client.list_graphs()]
        await client.delete_graph(name)
        with pytest.raises(NotFoundError):
            await client.get_graph(name)


async def test_runs_are_cancelled(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        async with await client.subscribe(run_id=name, types=["STEP_STARTED"]) as events:
            waiting = asyncio.ensure_future(client.execute_graph({**ENDLESS, "graph": name}, run_id=name))
            await asyncio.wait_for(events.__anext__(), 30)
        assert name in [run.run_id for run in await client.list_runs()]
        assert await client.cancel_run(name) == [name]
        with pytest.raises(RunCancelledError) as error:
            await waiting
        assert error.value.data["state"] == "cancelled"
        begun = await client.start_graph({**ENDLESS, "graph": f"{name}-g"})
        assert await client.cancel_graph(f"{name}-g") == [begun.run_id]


async def test_gate_is_answered(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        begun = await client.start_graph({**GATE, "graph": name})

        async def asks() -> bool:
            return bool((await client.get_run(begun.run_id)).gates)

        await until_async("the gate asks", asks)
        (gate,) = (await client.get_run(begun.run_id)).gates
        assert (gate.question, gate.choices) == ("Continue?", ["yes", "no"])
        with pytest.raises(InvalidRequestError):
            await client.answer_gate(begun.run_id, "perhaps")
        await client.answer_gate(begun.run_id, "yes", step_id="ask")

        async def ended() -> bool:
            return (await client.get_run(begun.run_id)).state == "completed"

        await until_async("the run ends", ended)


async def test_run_resumes_after_server_death(mortal: Server) -> None:
    slow = {"id": "b", "node": "sh", "input": "sleep 60", "depends_on": ["a"]}
    async with mortal.connect() as client:
        begun = await client.start_graph({**HELLO, "steps": [HELLO["steps"][0], slow]}, input="x", run_id="r")

        async def first_is_done() -> bool:
            return (await client.get_run(begun.run_id)).done_steps == 1

        await until_async("the first step is done", first_is_done)
        mortal.kill()
    mortal.start()
    async with mortal.connect() as client:
        assert (await client.get_run("r")).state == "interrupted"
        edited = {**HELLO, "steps": [HELLO["steps"][0], {**slow, "input": "echo resumed"}]}
        ended = await client.resume_run("r", edited)
        assert ended.state == "completed" and ended.results["b"]["text"] == "resumed"
        with pytest.raises(ServerError):
            await client.restart_run("r")


async def test_subscription_selects_events(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        async with await client.subscribe(node_id=name, types=["NODE_CREATED", "NODE_STOPPED"]) as events:
            node = await client.create_node(name, backend="bash")
            created = await asyncio.wait_for(events.__anext__(), 30)
            assert (created.event_type, created.node_id, created.session_id) == ("NODE_CREATED", name, "default")
            assert created.data["type"] == "bash" and created.seq > 0 and created.emitted_at > "2024"
            await node.stop()
            stopped = await asyncio.wait_for(events.__anext__(), 30)
            assert stopped.event_type == "NODE_STOPPED"
        # Past events are delivered again.
        async with await client.subscribe(node_id=name, since=created.seq) as events:
            assert (await asyncio.wait_for(events.__anext__(), 30)).seq > created.seq


async def test_all_events_without_a_subscription(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        async with client.events() as events:
            seen: List[Event] = []

            async def collect() -> None:
                async for event in events:
                    seen.append(event)

            collecting = asyncio.ensure_future(collect())
            serial = 0

            async def heard() -> bool:
                # Over HTTP the stream opens a little later.
                nonlocal serial
                serial += 1
                await (await client.create_node(f"{name}-{serial}", backend="bash")).stop()
                return {"NODE_CREATED", "NODE_STOPPED"} <= {event.event_type for event in seen}

            await until_async("both events come", heard)
        await asyncio.wait_for(collecting, 30)


async def test_slow_reader_gets_events_dropped() -> None:
    hub = EventHub()
    stream = hub.open()
    for seq in range(1, EVENT_QUEUE + 4):
        hub.publish({"type": "event", "event_type": "NODE_READY", "seq": seq})
    hub.end()
    events = [event async for event in stream]
    assert (events[0].event_type, events[0].data) == ("EVENTS_DROPPED", {"dropped": 3})
    assert [event.seq for event in events[1:]] == list(range(4, EVENT_QUEUE + 4))


async def test_server_warning_is_issued_once(server: Server, transport: str) -> None:
    async with server.connect(transport) as client:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                assert "channels" in await client.request("LIST_CHANNELS")
        assert [warning.category for warning in caught] == [NerveWarning]
        assert "LIST_NODES" in str(caught[0].message) and caught[0].filename == __file__


async def test_deprecated_names_work_and_warn(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        with pytest.warns(DeprecationWarning, match="create_node") as caught:
            channel = await client.create_channel(name, command=SHELL)
        assert caught[0].filename == __file__
        with pytest.warns(DeprecationWarning, match="execute"):
            assert (await channel.send("echo hello", timeout=60)).text == "hello"
        with pytest.warns(DeprecationWarning, match="execute_stream"):
            assert "".join([chunk async for chunk in channel.send_stream("echo more")]) == "more"
        with pytest.warns(DeprecationWarning, match="get_node"):
            again = await client.get_channel(name)
        with pytest.warns(DeprecationWarning, match="id"):
            assert again.channel_id == name
        with pytest.warns(DeprecationWarning, match="list_nodes"):
            assert name in await client.list_channels()
        await again.interrupt()
        with pytest.warns(DeprecationWarning, match="stop"):
            await again.close()


async def test_request_sends_any_command(server: Server, transport: str) -> None:
    async with server.connect(transport) as client:
        assert (await client.request("PING"))["pong"] is True
        with pytest.raises(InvalidRequestError) as error:
            await client.request("NO_SUCH_COMMAND")
        assert "NO_SUCH_COMMAND" in error.value.message
        with pytest.raises(InvalidRequestError) as error:
            await client.request("GET_NODE")
        assert "node_id" in error.value.message


async def test_shutdown_stops_the_server(mortal: Server) -> None:
    async with mortal.connect() as client:
        events = client.events()
        await client.shutdown()
        assert [event.event_type async for event in events][-1] == "SERVER_SHUTDOWN"
    assert mortal.process.wait(30) == 0
