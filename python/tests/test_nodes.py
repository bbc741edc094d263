"""Every method of a node, over each transport, against a real server."""

from __future__ import annotations

import asyncio
import enum
import re
from pathlib import Path
from typing import List

import pytest
from servers import NERVE, SHELL, Server, until_async

from nerve_sdk import (
    AlreadyExistsError,
    BlockedError,
    BusyError,
    ExecuteStream,
    InvalidRequestError,
    NerveTimeoutError,
    NotFoundError,
    ProcessError,
    RemoteNode,
)

MOCK = [NERVE, "mock-agent"]


class Parser(enum.Enum):
    NONE = "none"


async def test_response_has_all_wire_fields(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, command=SHELL)
        response = await node.execute(input="echo hello", parser=Parser.NONE, timeout=60)
        assert (str(response), response.text) == ("hello", "hello")
        assert (response.success, response.is_complete, response.is_ready) == (True, True, True)
        assert (response.node_id, response.turn, response.delivery) == (name, 1, "started")
        assert response.error is None and response.attributes["exit_code"] == 0
        await node.stop()
        with pytest.raises(NotFoundError) as error:
            await node.execute("echo gone")
        assert name in error.value.message


async def test_claude_answers_have_sections(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, command=MOCK, profile="claude")
        assert await node.wait("ready", timeout=60) == "ready"
        response = await node.execute("Say hello", parser="claude", timeout=60)
        assert response.text and response.sections[0].type == "text"
        assert response.sections[0].content in response.text
        await node.stop()


async def test_stream_yields_chunks(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, command=SHELL)
        stream = node.execute_stream("for i in 1 2 3; do echo line $i; sleep 0.2; done")
        chunks = [chunk async for chunk in stream]
        assert "".join(chunks).split("\n") == ["line 1", "line 2", "line 3"]
        assert len(chunks) > 1 and stream.missed == 0
        assert stream.response is not None and stream.response.text == "".join(chunks)
        # A second stream gets no chunks of the first.
        assert "".join([chunk async for chunk in node.execute_stream("echo second")]) == "second"
        await node.stop()


async def test_stream_raises_the_turns_error(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        stream = client.node(name).execute_stream("echo unused")
        with pytest.raises(NotFoundError):
            async for _ in stream:
                pass
        assert stream.response is None
        assert [chunk async for chunk in stream] == []


async def test_closed_stream_does_not_affect_the_next(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, command=SHELL)
        async with node.execute_stream("for i in 1 2 3; do echo line $i; sleep 0.1; done") as stream:
            assert await stream.__anext__()
        # Its turn continues; its output is not mistaken for that of the next turn.
        assert [chunk async for chunk in node.execute_stream("echo after")] == ["after"]
        await node.stop()


async def test_recreated_node_streams(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, backend="bash")
        for at in range(3):
            assert "".join([chunk async for chunk in node.execute_stream(f"echo {at}")]) == str(at)
        # Closed: later chunks of its turn must not get into another stream.
        async with node.execute_stream("echo begun; sleep 60") as stream:
            assert "begun" in await stream.__anext__()
        await node.stop()
        node = await client.create_node(name, backend="bash")
        assert [chunk async for chunk in node.execute_stream("echo again")] == ["again"]
        await node.stop()


async def test_concurrent_streams_on_one_node(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, command=SHELL)
        await node.wait(timeout=60)
        first = node.execute_stream("for i in 1 2 3; do echo first $i; sleep 0.1; done")
        chunks = [await first.__anext__()]
        second = node.execute_stream("for i in 1 2; do echo second $i; sleep 0.1; done")

        async def rest(stream: ExecuteStream) -> List[str]:
            return [chunk async for chunk in stream]

        more, others = await asyncio.gather(rest(first), rest(second))
        assert "".join(chunks + more) == "first 1\nfirst 2\nfirst 3"
        assert "".join(others) == "second 1\nsecond 2"
        await node.stop()


async def test_write_run_read_and_clear(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, command=SHELL)
        await node.wait(timeout=60)
        await node.run("echo typed-$((1+1))")

        async def shows(text: str) -> bool:
            return text in await node.read()

        await until_async("what was typed runs", lambda: shows("typed-2"))
        assert await node.write("echo wrïtten-$((2+2))\n") == len("echo wrïtten-$((2+2))\n".encode())
        await until_async("what was written runs", lambda: shows("wrïtten-4"))
        assert len((await node.read(lines=1)).splitlines()) <= 1
        assert "wrïtten-4" in await node.read_tail(3)
        await node.execute("seq 1 200", timeout=60)
        assert "typed-2" in await node.read()
        # The screen is not cleared.
        await node.clear_buffer()
        assert "typed-2" not in await node.read() and "200" in await node.read()
        await node.stop()


async def test_interrupt_ends_a_turn(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, command=SHELL)
        turn = asyncio.ensure_future(node.execute("sleep 60"))
        await node.wait("busy", timeout=60)
        with pytest.raises(BusyError):
            await node.execute("echo no", fail_if_busy=True)
        await node.interrupt()
        response = await turn
        assert response.attributes["interrupted"] is True
        await node.stop()


async def test_prompt_can_refuse_to_wait_behind_a_dialog(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, command=MOCK, profile="claude")
        result_id = await node.execute_async("PERMIT")
        assert await node.wait(["blocked"], timeout=60) == "blocked"
        with pytest.raises(BlockedError):
            await node.execute("hello", timeout=60, fail_if_blocked=True)
        await node.answer("yes")
        assert (await client.wait_for_result(result_id, timeout=60)).state == "done"
        await node.stop()


async def test_slow_turn_times_out(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, command=SHELL)
        await node.wait(timeout=60)
        with pytest.raises(NerveTimeoutError) as error:
            await node.execute("sleep 60", timeout=0.5)
        assert error.value.error_type == "timeout" and isinstance(error.value, TimeoutError)
        with pytest.raises(NerveTimeoutError):
            await node.wait("suspended", timeout=0.1)
        await node.stop()


async def test_info_why_resize_and_history(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, command=SHELL, cols=100, rows=30, cwd="/tmp", env={"COLOUR": "blue"})
        assert (await node.execute("echo $COLOUR $PWD $COLUMNS", timeout=60)).text.startswith("blue /tmp")
        info = await node.info()
        assert (info.node_id, info.type, info.state, info.persistent) == (name, "pty", "ready", True)
        assert info.metadata["cols"] == 100
        await node.resize(90, 20)

        async def resized() -> bool:
            return bool((await node.info()).metadata["cols"] == 90)

        await until_async("the terminal has its new size", resized)
        why = await node.why()
        assert why.node_id == name and why.state == "ready" and why.evidence and "blue /tmp" in why.screen
        history = await node.history()
        assert history.total == len(history.entries) and history.node_id == name
        transcript = await node.transcript()
        assert transcript.turns[-1].turn == len(transcript.turns) and transcript.turns[-1].source == "history"
        assert (await node.transcript(turn=1)).turns == transcript.turns[:1]
        page = await node.transcript(before=2, limit=1)
        assert page.turns == transcript.turns[:1] and page.turn_count == len(transcript.turns)
        found = await client.search("echo $COLOUR", node_id=name, kinds=["prompt"])
        assert [(hit.kind, hit.node_id, hit.turn) for hit in found.hits] == [("prompt", name, 1)]
        start, end = found.hits[0].matches[0]
        # The positions are bytes.
        assert found.hits[0].text.encode()[start:end] == b"echo $COLOUR"
        # Nodes of other tests have longer texts than the index takes.
        assert all(name not in file.path for file in found.unsearched)
        assert (await client.usage(name)).rows == []
        sent = await node.history(last=1, op="send")
        assert [entry["input"] for entry in sent.entries] == ["echo $COLOUR $PWD $COLUMNS"]
        assert len((await node.history(inputs_only=True)).entries) == 1
        await node.stop()


async def test_dialog_blocks_and_is_answered(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, command=[*MOCK, "--onboarding"], profile="claude")
        assert await node.wait(["blocked", "ready"], timeout=60) == "blocked"
        with pytest.raises(BlockedError) as error:
            await node.execute("hello", timeout=30)
        assert len(error.value.choices) >= 2 and error.value.screen
        assert (await node.why()).choices == error.value.choices
        with pytest.raises(InvalidRequestError):
            await node.answer(99)
        assert await node.answer(_trusting(error.value.choices)) is None
        assert await node.wait("ready", timeout=60) == "ready"
        await node.stop()


def _trusting(choices: List[str]) -> int:
    (number,) = [at for at, choice in enumerate(choices, 1) if choice.lower().startswith("yes")]
    return number


async def test_history_has_answers_cancels_and_unsent_prompts(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, command=MOCK, profile="claude")
        for _ in range(2):
            with pytest.raises(BlockedError):
                await node.execute("PERMIT", timeout=60)
            waiting = await node.execute_async("never sent")
            await client.cancel_result(waiting)
            if (await node.history(op="answer")).total == 0:
                await node.answer("yes", wait=True, timeout=60)
            else:
                await node.cancel_dialog()
                await node.wait("ready", timeout=60)
        with pytest.raises(InvalidRequestError):
            await node.execute("\x07")
        await node.stop()
        entries = {op: (await node.history(op=op)).entries for op in ("answer", "cancel", "unsent")}
    (answer,) = entries["answer"]
    assert answer["dialog"] == "permission" and answer["choice"].lower().endswith("yes"), answer
    (cancel,) = [entry for entry in entries["cancel"] if entry["dialog"]]
    assert cancel["dialog"] == "permission" and cancel["input"] is None, cancel
    for op in ("cancel", "unsent"):
        assert [entry["input"] for entry in entries[op] if entry["input"]] == ["never sent"] * 2, entries[op]
    client_pattern = r"uid \d+ pid \d+" if transport == "unix" else r"127\.0\.0\.1:\d+"
    for entry in [answer, *entries["cancel"], *entries["unsent"]]:
        assert entry["transport"] == transport and re.fullmatch(client_pattern, entry["client"]), entry


async def test_answer_can_wait_for_the_turn(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, command=MOCK, profile="claude")
        with pytest.raises(BlockedError) as error:
            await node.execute("PERMIT", timeout=60)
        assert error.value.delivery == "started"
        response = await node.answer("yes", wait=True, timeout=60)
        assert response is not None and [section.type for section in response.sections] == ["text", "tool_call", "text"]
        assert response.sections[1].metadata["tool"] == "Bash"
        with pytest.raises(BlockedError):
            await node.execute("PERMIT", timeout=60)
        await node.cancel_dialog()
        assert await node.wait("ready", timeout=60) == "ready"
        await node.stop()


async def test_fork_continues_the_conversation(server: Server, transport: str, name: str, tmp_path: Path) -> None:
    claude = tmp_path / "claude"
    claude.write_text(f"#!/bin/sh\nexec '{NERVE}' mock-agent \"$@\"\n")
    claude.chmod(0o755)
    async with server.connect(transport) as client:
        node = await client.create_node(name, command=[str(claude)], backend="claude")
        await node.execute("one", timeout=60)
        await node.execute("two", timeout=60)
        fork = await node.fork(f"{name}-f")
        assert fork.id == f"{name}-f" and "one | two" in (await fork.execute("RECALL", timeout=60)).text
        early = await node.fork(f"{name}-e", at=1)
        recalled = (await early.execute("RECALL", timeout=60)).text
        assert "one" in recalled and "two" not in recalled
        with pytest.raises(InvalidRequestError):
            await node.fork(f"{name}-x", at=99)
        await asyncio.gather(*(one.stop() for one in (node, fork, early)))


async def test_asynchronous_results(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, command=SHELL)
        result_id = await node.execute_async("echo later")
        result = await client.wait_for_result(result_id, timeout=60)
        assert result.state == "done" and result.response is not None and result.response.text == "later"
        assert (await client.get_result(result_id)).turn == 1
        listed = await client.list_results(node_id=name)
        assert [(one.result_id, one.response) for one in listed] == [(result_id, None)]
        endless = await node.execute_async("sleep 60")
        await node.wait("busy", timeout=60)
        with pytest.raises(NerveTimeoutError):
            await client.wait_for_result(endless, timeout=0.1)
        await client.cancel_result(endless)
        assert (await client.wait_for_result(endless, timeout=60)).state in ("cancelled", "done")
        await node.stop()


async def test_nodes_are_listed_and_found(server: Server, transport: str, name: str) -> None:
    async with server.connect(transport) as client:
        node = await client.create_node(name, backend="bash")
        assert repr(node) == f"RemoteNode('{name}')"
        assert name in [info.node_id for info in await client.list_nodes()]
        found = await client.get_node(name)
        assert isinstance(found, RemoteNode) and (found.id, found.session_id) == (name, None)
        failed = await found.execute("echo out; echo err >&2; exit 3")
        assert not failed.success and failed.attributes["exit_code"] == 3
        with pytest.raises(AlreadyExistsError):
            await client.create_node(name, backend="bash")
        with pytest.raises(NotFoundError):
            await client.get_node("no-such-node")
        with pytest.raises(InvalidRequestError):
            await client.create_node("Not A Name", backend="bash")
        with pytest.raises(ProcessError):
            await client.create_node(f"{name}-x", command="/no/such/program")
        with pytest.raises(InvalidRequestError) as error:
            await client.request("CREATE_NODE", {"node_id": f"{name}-y", "cols": "wide"})
        assert "cols" in error.value.message
        await node.stop()


async def test_turn_gets_the_parent_span(server: Server, transport: str, name: str) -> None:
    caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    async with server.connect(transport) as client:
        node = await client.create_node(name, backend="bash")
        assert (await node.execute("printenv TRACEPARENT", traceparent=caller)).text == caller
        steps = [{"id": "one", "node": name, "input": "printenv TRACEPARENT"}]
        run = await client.execute_graph({"graph": "traced", "steps": steps}, traceparent=caller)
        assert run.results["one"]["text"] == caller
        await node.stop()
