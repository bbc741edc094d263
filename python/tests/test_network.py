"""TCP and HTTP: tokens, TLS, and servers that send invalid data."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator, List, Tuple

import pytest
from servers import PONG, SHELL, Fake, Server, next_request, lacking, result

from nerve_sdk import (
    AuthenticationError,
    Connecting,
    ConnectionClosedError,
    NerveClient,
    NerveError,
    NotFoundError,
    NotRunningError,
    ProtocolError,
    ServerError,
)

RECONNECT_TIMEOUT = 30
TOKEN = "t0ken"


def needs(server: Server, kind: str) -> None:
    if kind not in server.listens:
        lacking(f"this nerve has no --{kind}")


@pytest.fixture(params=["tcp", "http"])
def network(request: pytest.FixtureRequest, server: Server) -> str:
    needs(server, request.param)
    kind: str = request.param
    return kind


def connect(server: Server, kind: str, token: str, **options: Any) -> Connecting:
    address = server.address(kind)
    if kind == "http":
        scheme = "https" if options.get("ssl") else "http"
        return NerveClient.connect_http(f"{scheme}://{address}", token, **options)
    host, _, port = address.rpartition(":")
    return NerveClient.connect_tcp(host, int(port), token, **options)


async def test_token_is_required(server: Server, network: str) -> None:
    for guess in ("", "guess", server.token[:-1]):
        with pytest.raises(AuthenticationError) as error:
            await connect(server, network, guess)
        assert guess == "" or guess not in str(error.value)
    async with connect(server, network, server.token) as client:
        assert (await client.ping()).pong
        assert server.token not in repr(vars(client._connection))
    assert server.token not in server.log.read_text()


async def test_missing_server_error_has_a_hint(server: Server) -> None:
    async with Fake(lambda reader, writer: asyncio.sleep(0), tcp=True) as fake:
        port = fake.port
    with pytest.raises(NotRunningError, match="--tcp"):
        await NerveClient.connect_tcp("127.0.0.1", port, TOKEN)
    with pytest.raises(NotRunningError, match="--http"):
        await NerveClient.connect_http(f"http://127.0.0.1:{port}", TOKEN)


async def test_server_death_fails_all_pending_requests(mortal: Server, network: str) -> None:
    async with connect(mortal, network, mortal.token, reconnect=0) as client:
        node = await client.create_node("me", command=SHELL)
        await node.wait(timeout=60)
        events = await client.subscribe()
        stream = node.execute_stream("sleep 60")
        waiting: List[Any] = [asyncio.ensure_future(node.wait("suspended")) for _ in range(20)]
        waiting.append(asyncio.ensure_future(stream.__anext__()))
        await node.wait("busy", timeout=60)
        mortal.kill()
        outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), RECONNECT_TIMEOUT)
        assert all(isinstance(outcome, ConnectionClosedError) for outcome in outcomes), outcomes
        async for _ in events:
            pass


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Tuple[str, str]:
    """A self-signed certificate for 127.0.0.1, and its key."""
    if shutil.which("openssl") is None:
        lacking("openssl is missing")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=nerve test"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return cert, key


@pytest.fixture(scope="module")
def encrypted(server: Server, certificate: Tuple[str, str]) -> Iterator[Server]:
    needs(server, "tcp")
    with Server("--tls-cert", certificate[0], "--tls-key", certificate[1]) as real_server:
        yield real_server


async def test_over_tls(encrypted: Server, certificate: Tuple[str, str], network: str) -> None:
    trusting = ssl.create_default_context(cafile=certificate[0])
    async with connect(encrypted, network, encrypted.token, ssl=trusting) as client:
        node = await client.create_node(f"tls-{network}", backend="bash")
        assert (await node.execute("echo safe")).text == "safe"
        answers = await asyncio.gather(*(node.execute(f"echo {at}") for at in range(20)))
        assert [answer.text for answer in answers] == [str(at) for at in range(20)]
        await node.stop()
    # The certificate is not trusted.
    with pytest.raises(NerveError, match="TLS"):
        await connect(encrypted, network, encrypted.token, ssl=True)
    with pytest.raises(NerveError, match="TLS"):
        await NerveClient.connect_http(f"https://{encrypted.address('http')}", encrypted.token)
    with pytest.raises(NerveError):
        await asyncio.wait_for(connect(encrypted, network, encrypted.token), RECONNECT_TIMEOUT)


async def test_foreign_server_is_reported() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.com ESMTP\r\n\r\n")
        await reader.read()

    async with Fake(silent, tcp=True) as fake:
        with pytest.raises(NotRunningError, match="AUTHENTICATE"):
            await NerveClient.connect_tcp("127.0.0.1", fake.port, TOKEN, timeout=0.2)
        with pytest.raises(NotRunningError, match="did not answer"):
            await NerveClient.connect_http(f"http://127.0.0.1:{fake.port}", TOKEN, timeout=0.2)
    async with Fake(rude, tcp=True) as fake:
        with pytest.raises(ProtocolError, match="not JSON"):
            await NerveClient.connect_tcp("127.0.0.1", fake.port, TOKEN)
        with pytest.raises(ProtocolError, match="HTTP/1.1"):
            await NerveClient.connect_http(f"http://127.0.0.1:{fake.port}", TOKEN)


async def test_token_is_the_first_message() -> None:
    seen: List[Any] = []

    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for data in ({"authenticated": True}, PONG):
            seen.append(await next_request(reader))
            writer.write(result(seen[-1], data))
        await reader.read()

    async with Fake(manners, tcp=True) as fake:
        async with NerveClient.connect_tcp("127.0.0.1", fake.port, TOKEN) as client:
            assert (await client.ping()).pong
    assert [request["command_type"] for request in seen] == ["AUTHENTICATE", "PING"]
    assert seen[0]["params"] == {"token": TOKEN}


def answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def head_of(reader: asyncio.StreamReader) -> str:
    """Reads the next request and returns its head."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    for line in head.split("\r\n"):
        if line.lower().startswith("content-length:"):
            await reader.readexactly(int(line.split(":")[1]))
    return head


PING = b'{"type":"result","success":true,"request_id":"1","data":{"pong":true}}'


async def test_http_response_formats() -> None:
    half = len(PING) // 2
    chunked = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = f"{half:x};note=1\r\n".encode() + PING[:half] + f"\r\n{len(PING) - half:X}\r\n".encode() + PING[half:]
    forms = [answer(PING), b"HTTP/1.1 100 Continue\r\n\r\n" + answer(PING)]
    forms += [chunked.encode() + chunks + b"\r\n0\r\nTrailer: x\r\n\r\n", answer(PING, "200 OK", "Connection: close"), answer(PING)]
    heads: List[str] = []
    connections = 0

    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            heads.append(await head_of(reader))
            writer.write(forms[len(heads) - 1])

    async with Fake(manners, tcp=True) as fake:
        async with NerveClient.connect_http(f"http://127.0.0.1:{fake.port}", TOKEN) as client:
            for _ in forms[1:]:
                assert (await client.ping()).pong
    assert connections == 2 and len(heads) == len(forms)
    assert all(f"Authorization: Bearer {TOKEN}\r\n" in head and f"Host: 127.0.0.1:{fake.port}\r\n" in head for head in heads)


@pytest.mark.parametrize(
    ("words", "kind", "reason"),
    [
        (answer(b"<html>", "502 Bad Gateway"), ProtocolError, "HTTP 502"),
        (answer(b'{"title":"Gone away","status":404}', "404 Not Found"), ServerError, "Gone away"),
        (answer(b'{"detail":"no such","error_type":"not_found_error"}', "404 Not Found"), NotFoundError, "no such"),
        (answer(b'{"detail":"who?","error_type":"authentication_error"}', "401 X"), AuthenticationError, "who"),
        (answer(b"{}"), ProtocolError, "HTTP 200"),
        (b"HTTP/1.1 200 OK\r\n\r\n", ProtocolError, "without a JSON object"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, ProtocolError, "HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 18000000\r\n\r\n" + b"x" * 18_000_000, ProtocolError, "body of more"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", ProtocolError, "chunk"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", ConnectionClosedError, "middle"),
        (b"HTTP/1.1 200", ConnectionClosedError, "closed"),
        (b"", ConnectionClosedError, "closed"),
    ],
    ids=["html", "title", "problem", "token", "object", "length", "head", "body", "chunks", "middle", "half", "nothing"],
)
async def test_invalid_http_responses_are_errors(words: bytes, kind: Any, reason: str) -> None:
    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(words)
        await writer.drain()
        writer.write_eof()
        await reader.read()

    async with Fake(manners, tcp=True) as fake:
        with pytest.raises(kind, match=reason):
            await asyncio.wait_for(NerveClient.connect_http(f"http://127.0.0.1:{fake.port}", TOKEN), RECONNECT_TIMEOUT)


PIECES = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event_server(*parts: bytes, heads: List[str]) -> Fake:
    """A server that answers PING, sends these parts as the event stream, and keeps the heads of its requests."""

    async def manners(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await head_of(reader))
        if heads[-1].startswith("POST"):
            writer.write(answer(PING, "200 OK", "Connection: close"))
            return
        writer.write(PIECES.encode())
        for part in parts:
            writer.write(chunk(part))
            await writer.drain()
            # Lets the client read the part by itself.
            await asyncio.sleep(0)
        await reader.read()

    return Fake(manners, tcp=True)


async def test_silent_event_stream_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nerve_sdk.http.SILENCE_TIMEOUT", 0.2)
    heads: List[str] = []
    async with event_server(b'id: 1\ndata: {"type":"event","event_type":"NODE_READY","seq":1}\n\n', heads=heads) as fake:
        async with NerveClient.connect_http(f"http://127.0.0.1:{fake.port}", TOKEN, reconnect=0) as client:
            stream = await client.subscribe(types=["NODE_READY", "NODE_BUSY"], node_id="me", since=0, aliases=True)
            assert [event.event_type async for event in stream] == ["NODE_READY"]
    assert heads[1].startswith("GET /events?types=NODE_READY%2CNODE_BUSY&node_id=me&since=0&aliases=true HTTP/1.1\r\n")


async def test_events_arrive_in_any_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nerve_sdk.http.SILENCE_TIMEOUT", 0.2)
    text = b': hello\nretry: 2000\nid: a-1\n\nid: a-2\ndata: {"type":"event",\r\ndata:"event_type":"\xc3\xa9","seq":2}\r\n\r\n: beat\n\n'
    text += b'event: x\ndata\n\ndata: {"type":"news"}\n\nid: a-3\ndata: {"type":"event","event_type":"b","seq":3}\n\n'
    for size in (1, 2, 7, 64, len(text)):
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        async with event_server(*parts, heads=[]) as fake:
            async with NerveClient.connect_http(f"http://127.0.0.1:{fake.port}", TOKEN, reconnect=0) as client:
                stream = await client.subscribe()
                assert [(event.event_type, event.seq) async for event in stream] == [("é", 2), ("b", 3)], size


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([b"x" * (1 << 20)] * 18, "event of more"),
        ([b"data: " + b"x" * (1 << 20) + b"\n"] * 18, "event of more"),
        ([b"id: " + b"x" * 1000 + b"\n\n"], "id of more"),
        ([b"data: [1]\n\n"], "not an object"),
    ],
    ids=["line", "lines", "id", "array"],
)
async def test_invalid_event_ends_the_stream(parts: List[bytes], reason: str) -> None:
    async with event_server(*parts, heads=[]) as fake:
        async with NerveClient.connect_http(f"http://127.0.0.1:{fake.port}", TOKEN) as client:
            stream = await client.subscribe()
            with pytest.raises(ProtocolError, match=reason):
                await asyncio.wait_for(stream.__anext__(), RECONNECT_TIMEOUT)


async def test_many_small_events_may_exceed_the_limit_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nerve_sdk.http.MAX_BODY", 1000)
    parts = [b'data: {"type":"event","event_type":"NODE_READY","seq":%d}\n\n: beat\n\n' % at for at in range(1, 101)]
    async with event_server(*parts, heads=[]) as fake:
        async with NerveClient.connect_http(f"http://127.0.0.1:{fake.port}", TOKEN) as client:
            stream = await client.subscribe()
            seen = [await asyncio.wait_for(stream.__anext__(), RECONNECT_TIMEOUT) for _ in parts]
            assert [event.seq for event in seen] == list(range(1, 101))


async def test_invalid_urls_are_rejected() -> None:
    for url in ("127.0.0.1:80", "ftp://x", "http://", "http://x/path", "http://x?token=1", "http://me:pass@x", "http://x:port"):
        with pytest.raises(ValueError):
            await NerveClient.connect_http(url, TOKEN)
    with pytest.raises(ValueError, match="https"):
        await NerveClient.connect_http("http://x", TOKEN, ssl.create_default_context())
    with pytest.raises(ValueError, match="token"):
        await NerveClient.connect_http("http://x", "a\r\nb")
    # No server listens there, if the machine has IPv6 at all.
    with pytest.raises(NerveError, match=r" \[::1\]:1\b"):
        await NerveClient.connect_http("http://[::1]:1/", TOKEN)


async def test_proxies_of_the_environment_are_ignored(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    needs(server, "http")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with connect(server, "http", server.token) as client:
        assert (await client.ping()).pong


def test_sockets_work_without_the_http_extra(server: Server) -> None:
    script = f"""
import sys
sys.modules["httpx"] = None
from nerve_sdk.sync import NerveClient
with NerveClient.connect({str(server.socket)!r}) as client:
    assert client.ping().pong
try:
    NerveClient.connect_http("http://127.0.0.1:1", "t0ken")
except ImportError as error:
    print(error)
"""
    env = {**server.env, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert 'pip install "nerve-sdk[http]"' in done.stdout
