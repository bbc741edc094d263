"""As much of HTTP/1.1 (RFC 9112) as a client of a nerve server needs."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from dataclasses import dataclass, field
from typing import AsyncIterator, Dict, List, Optional, Tuple
from urllib.parse import urlsplit

from .alive import keep_alive
from .errors import ConnectionClosedError, NerveError, NotRunningError, ProtocolError

#: The longest head of an answer, in bytes.
MAX_HEAD = 64 << 10
#: The longest body: a line of the wire, and what stands around it.
MAX_BODY = 17 << 20
#: Connections that are kept for the next request.
MAX_IDLE = 32
#: How long they are kept, in seconds: shorter than servers wait, so that no request goes into a connection that is just being closed.
IDLE_SECONDS = 4.0


@dataclass(frozen=True)
class Site:
    """A server's address."""

    host: str
    port: int
    tls: Optional[ssl.SSLContext]
    timeout: Optional[float]
    #: Not in `repr`: it would get into logs.
    token: str = field(repr=False)

    @property
    def name(self) -> str:
        """As the header Host has it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def site_of(url: str, token: str, tls: Optional[ssl.SSLContext], timeout: Optional[float]) -> Site:
    """The site of `http://host:port` or `https://host:port`.

    Raises `ValueError` for any other URL, and for a token that no header can hold.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise ValueError(f"{url!r}: expected http://host:port or https://host:port")
    if parts.username or parts.password:
        raise ValueError("a URL with a user name or a password: the token is given beside it")
    if not token.isascii() or not token.isprintable():
        raise ValueError("the token has characters that no token of nerve has")
    if parts.scheme == "http":
        if tls is not None:
            raise ValueError(f"{url!r}: TLS needs https://")
        return Site(parts.hostname, parts.port or 80, None, timeout, token)
    return Site(parts.hostname, parts.port or 443, tls or ssl.create_default_context(), timeout, token)


@dataclass(frozen=True)
class Head:
    """The head of an answer. Names of headers are in lower case."""

    status: int
    headers: Dict[str, str]

    @property
    def content_type(self) -> str:
        """Without its parameters."""
        return self.headers.get("content-type", "").split(";")[0].strip().lower()


class Channel:
    """One connection to a site; it carries one exchange at a time."""

    def __init__(self, site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._site = site
        self._reader = reader
        self._writer = writer
        self._reusable = False
        self._idle_since = 0.0

    @classmethod
    async def open(cls, site: Site) -> Channel:
        """Raises `NotRunningError` when nobody takes the connection in time."""
        try:
            opening = asyncio.open_connection(site.host, site.port, ssl=site.tls, limit=MAX_HEAD)
            reader, writer = await asyncio.wait_for(opening, site.timeout)
        except ssl.SSLError as error:
            raise NerveError(f"cannot connect to {site.name}: TLS: {error}") from error
        except ConnectionRefusedError as error:
            hint = f"start one with: nerve server start --http {site.name}"
            raise NotRunningError(f"no server is running at {site.name} ({hint})") from error
        except asyncio.TimeoutError as error:
            raise NotRunningError(f"nobody at {site.name} took the connection within {site.timeout} s") from error
        except OSError as error:
            raise NerveError(f"cannot connect to {site.name}: {error}") from error
        keep_alive(writer.transport)
        return cls(site, reader, writer)

    async def send(self, method: str, target: str, body: bytes = b"", accept: str = "application/json") -> Head:
        """Sends a request and gives the head of its answer."""
        head = [
            f"{method} {target} HTTP/1.1",
            f"Host: {self._site.name}",
            f"Authorization: Bearer {self._site.token}",
            f"Accept: {accept}",
        ]
        if body:
            head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        self._reusable = False
        try:
            self._writer.write("\r\n".join([*head, "", ""]).encode("ascii") + body)
            return await self._head()
        except asyncio.LimitOverrunError as error:
            raise ProtocolError(f"the server sent a head of more than {MAX_HEAD} bytes") from error
        except (asyncio.IncompleteReadError, OSError) as error:
            raise ConnectionClosedError("the server closed the connection") from error

    async def body(self, head: Head) -> bytes:
        """The whole body of the answer."""
        parts: List[bytes] = []
        size = 0
        async for part in self.parts(head):
            size += len(part)
            if size > MAX_BODY:
                raise ProtocolError(f"the server sent a body of more than {MAX_BODY} bytes")
            parts.append(part)
        self._reusable = head.headers.get("connection", "").lower() != "close"
        return b"".join(parts)

    async def parts(self, head: Head, silence: Optional[float] = None) -> AsyncIterator[bytes]:
        """The body as it comes. The connection is ended when nothing comes for `silence` seconds."""
        try:
            if head.headers.get("transfer-encoding", "").lower() == "chunked":
                async for part in self._chunks(silence):
                    yield part
            else:
                left = _length(head)
                while left:
                    part = await self._reader.read(min(left, MAX_HEAD))
                    if not part:
                        raise ConnectionClosedError("the server closed the connection in the middle of an answer")
                    left -= len(part)
                    yield part
        except (asyncio.IncompleteReadError, OSError) as error:
            raise ConnectionClosedError("the server closed the connection in the middle of an answer") from error
        except asyncio.LimitOverrunError as error:
            raise ProtocolError("the server sent chunks that are wrong") from error

    def close(self) -> None:
        """Ends it at once."""
        self._writer.transport.abort()

    async def closed(self) -> None:
        """Ends it, and waits until it is gone."""
        self.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    @property
    def reusable(self) -> bool:
        """It can carry another exchange."""
        return self._reusable and not self._reader.at_eof() and not self._writer.is_closing()

    @property
    def stale(self) -> bool:
        """It was kept for too long."""
        return time.monotonic() - self._idle_since > IDLE_SECONDS

    def rest(self) -> None:
        """Begins to be kept."""
        self._idle_since = time.monotonic()

    async def _head(self) -> Head:
        while True:
            text = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            head = _parse(text)
            # 1xx: the answer comes later.
            if head.status >= 200:
                return head

    async def _chunks(self, silence: Optional[float]) -> AsyncIterator[bytes]:
        while True:
            # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with the data.
            watchdog = asyncio.get_running_loop().call_later(silence, self.close) if silence else None
            try:
                line = await self._reader.readuntil(b"\r\n")
            finally:
                if watchdog is not None:
                    watchdog.cancel()
            try:
                left = int(line.split(b";")[0], 16)
            except ValueError as error:
                raise ProtocolError("the server sent chunks that are wrong") from error
            if left == 0:
                # Trailers, which nobody needs.
                while await self._reader.readuntil(b"\r\n") != b"\r\n":
                    pass
                return
            while left:
                part = await self._reader.read(min(left, MAX_HEAD))
                if not part:
                    raise asyncio.IncompleteReadError(b"", left)
                left -= len(part)
                yield part
            await self._reader.readexactly(2)


class Pool:
    """Connections of one site, kept for a short while."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._idle: List[Channel] = []

    async def take(self) -> Channel:
        """A connection: one that is there, or a new one."""
        while self._idle:
            channel = self._idle.pop()
            if channel.reusable and not channel.stale:
                return channel
            channel.close()
        return await Channel.open(self.site)

    def give_back(self, channel: Channel) -> None:
        """Keeps a connection if it is of use."""
        if channel.reusable and len(self._idle) < MAX_IDLE:
            channel.rest()
            self._idle.append(channel)
        else:
            channel.close()

    async def close(self) -> None:
        """Ends those that are kept."""
        idle, self._idle = self._idle, []
        for channel in idle:
            await channel.closed()


def _parse(text: str) -> Head:
    first, *lines = text.split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
        raise ProtocolError("what answers there does not speak HTTP/1.1: is it a nerve server?")
    pairs: List[Tuple[str, str, str]] = [line.partition(":") for line in lines if line]
    return Head(int(rest[:3]), {name.strip().lower(): value.strip() for name, _, value in pairs})


def _length(head: Head) -> int:
    if head.status == 204:
        return 0
    length = head.headers.get("content-length", "")
    if not length.isdigit():
        raise ProtocolError("the server sent an answer that does not say how long it is")
    return int(length)
