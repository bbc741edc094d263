"""What the official client of the protocol sees of `nerve mcp`.

Called with the mode of the client, 'auto' (the newest protocol it knows) or 'legacy' (with 'initialize'), and with the program, or with
the URL where it is served over HTTP. The token is in NERVE_TOKEN.
"""

import asyncio
import contextlib
import os
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

PATIENCE = 60


async def until(check, what):
    """Waits until a coroutine says so."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not await check():
        assert asyncio.get_running_loop().time() < deadline, what
        await asyncio.sleep(0.05)


async def use(client, mode):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {"nerve_create_node", "nerve_execute", "nerve_list_nodes", "nerve_run_graph"} <= tools.keys(), tools
    assert tools["nerve_read"].annotations.read_only_hint is True
    assert client.server_info is None or client.server_info.name == "nerve"

    made = await client.call_tool("nerve_create_node", {"node_id": "sh", "command": "bash --norc", "env": {"PS1": "$ "}})
    assert not made.is_error and made.structured_content["state"] == "ready", made
    done = await client.call_tool("nerve_execute", {"node_id": "sh", "text": "echo $((6 * 7))"})
    assert done.structured_content["text"] == "42" and done.content[0].text == "42", done

    updates = []

    async def progress(progress, total, message):
        updates.append((progress, message))

    slow = "for i in 1 2 3; do echo step-$i; read -t 0.5 <> <(:); done; echo over"
    done = await client.call_tool("nerve_execute", {"node_id": "sh", "text": slow}, progress_callback=progress)
    assert done.content[0].text.endswith("over"), done
    assert updates and any("step-" in message for _, message in updates), updates
    assert updates == sorted(updates, key=lambda one: one[0]), updates

    lost = await client.call_tool("nerve_execute", {"node_id": "lost", "text": "hi"})
    assert lost.is_error and lost.structured_content["error_type"] == "not_found_error", lost
    wrong = await client.call_tool("nerve_execute", {"node_id": "sh"})
    assert wrong.is_error and "text" in wrong.content[0].text, wrong

    listed = (await client.list_resources()).resources
    assert str(listed[0].uri) == "nerve://nodes/sh/screen", listed
    screen = (await client.read_resource("nerve://nodes/sh/screen")).contents[0].text
    assert "42" in screen, screen
    assert (await client.list_resource_templates()).resource_templates

    graph = {
        "graph": "two",
        "nodes": {"one-shot": {"type": "bash"}},
        "steps": [
            {"id": "a", "node": "one-shot", "input": "echo {{ input }}"},
            {"id": "b", "node": "one-shot", "input": "echo got {{ steps.a }}", "depends_on": ["a"]},
        ],
    }
    run = await client.call_tool("nerve_run_graph", {"graph": graph, "input": "tea"})
    assert run.structured_content["results"]["b"]["text"] == "got tea", run

    async def is_busy():
        read = await client.call_tool("nerve_read", {"node_id": "sh"})
        return read.structured_content["state"] == "busy"

    async def is_ready():
        read = await client.call_tool("nerve_read", {"node_id": "sh"})
        return read.structured_content["state"] == "ready"

    arguments = {"node_id": "sh", "text": "sleep 3000", "interrupt_on_cancel": True}
    call = asyncio.create_task(client.call_tool("nerve_execute", arguments))
    await until(is_busy, "the turn does not begin")
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await until(is_ready, "a cancelled call does not interrupt its turn")

    if mode == "auto":
        async with client.listen(resources_list_changed=True) as changes:
            await client.call_tool("nerve_stop_node", {"node_id": "sh"})
            await asyncio.wait_for(anext(aiter(changes)), PATIENCE)
    else:
        await client.call_tool("nerve_stop_node", {"node_id": "sh"})


async def two_at_once(url, mode):
    """Each client gets its own answers and progress, and one that leaves takes nothing of the other's with it."""
    heard = {"one": [], "two": []}

    def hears(name):
        async def progress(progress, total, message):
            heard[name].append(message)

        return progress

    async def turn(client, name):
        await client.call_tool("nerve_create_node", {"node_id": name, "command": "bash --norc", "env": {"PS1": "$ "}})
        slow = f"for i in 1 2 3; do echo {name}-$i; read -t 0.5 <> <(:); done; echo over-{name}"
        return await client.call_tool("nerve_execute", {"node_id": name, "text": slow}, progress_callback=hears(name))

    async with connected(url, mode) as one:
        async with connected(url, mode) as two:
            done = await asyncio.gather(turn(one, "one"), turn(two, "two"))
        for name, result in zip(heard, done):
            assert result.content[0].text.endswith(f"over-{name}"), result
            assert heard[name] and all(name in message or message == "still at work" for message in heard[name]), heard
        # The other one has left.
        again = await one.call_tool("nerve_execute", {"node_id": "two", "text": "echo still-here"})
        assert again.structured_content["text"] == "still-here", again
        for name in heard:
            await one.call_tool("nerve_stop_node", {"node_id": name})


@contextlib.asynccontextmanager
async def connected(where, mode):
    if not where.startswith("http"):
        server = StdioServerParameters(command=where, args=["mcp"], env=dict(os.environ))
        async with Client(server, mode=mode) as client:
            yield client
        return
    headers = {"Authorization": f"Bearer {os.environ['NERVE_TOKEN']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30, read=300)) as http:
        async with Client(streamable_http_client(where, http_client=http), mode=mode) as client:
            yield client


async def refused(url, mode):
    """Without the token there is no client."""
    async with httpx2.AsyncClient(headers={"Authorization": "Bearer wrong"}) as http:
        try:
            async with Client(streamable_http_client(url, http_client=http), mode=mode):
                pass
        except BaseException as error:
            # One, or a group with one in it.
            assert "NameError" not in repr(error), error
            return
    raise AssertionError("a wrong token was taken")


async def session(mode, where):
    async with connected(where, mode) as client:
        await use(client, mode)
        print("protocol", client.protocol_version)
    if where.startswith("http"):
        await two_at_once(where, mode)
        await refused(where, mode)


asyncio.run(asyncio.wait_for(session(*sys.argv[1:]), 3 * PATIENCE))
