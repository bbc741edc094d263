"""A minimal HTTP/1.1 client (RFC 9112) for nerve servers."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from dataclasses import dataclass, field
from typing import AsyncIterator, Dict, List, Optional, Tuple
from urllib.parse import urlsplit

from .keepalive import keep_alive
from .errors import ConnectionClosedError, NerveError, NotRunningError, ProtocolError

#: Maximum size of a response head, in bytes.
MAX_HEAD = 64 << 10
#: Maximum size of a response body, in bytes: a line of the wire protocol and its envelope.
MAX_BODY = 17 << 20
#: Maximum number of idle connections.
MAX_IDLE = 32
#: Lifetime of an idle connection, in seconds: shorter than the server's, so that no request meets a closing connection.
IDLE_SECONDS = 4.0


@dataclass(frozen=True)
class Site:
    """A server's address."""

    host: str
    port: int
    tls: Optional[ssl.SSLContext]
    timeout: Optional[float]
    #: Not in `repr`, which may be logged.
    token: str = field(repr=False)

    @property
    def name(self) -> str:
        """The value of the header Host."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def site_of(url: str, token: str, tls: Optional[ssl.SSLContext], timeout: Optional[float]) -> Site:
    """Parses `http://host:port` or `https://host:port`.

    Raises `ValueError` for any other URL, and for a token that is not valid in a header.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise ValueError(f"{url!r}: expected http://host:port or https://host:port")
    if parts.username or parts.password:
        raise ValueError("the URL contains a user name or password: pass the token separately")
    if not token.isascii() or not token.isprintable():
        raise ValueError("the token contains invalid characters")
    if parts.scheme == "http":
        if tls is not None:
            raise ValueError(f"{url!r}: TLS needs https://")
        return Site(parts.hostname, parts.port or 80, None, timeout, token)
    return Site(parts.hostname, parts.port or 443, tls or ssl.create_default_context(), timeout, token)


@dataclass(frozen=True)
class Head:
    """The head of a response. Header names are in lower case."""

    status: int
    headers: Dict[str, str]

    @property
    def content_type(self) -> str:
        """The content type without its parameters."""
        return self.headers.get("content-type", "").split(";")[0].strip().lower()


class Channel:
    """A connection for one exchange at a time."""

    def __init__(self, site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._site = site
        self._reader = reader
        self._writer = writer
        self._reusable = False
        self._idle_since = 0.0

    @classmethod
    async def open(cls, site: Site) -> Channel:
        """Connects. Raises `NotRunningError` if no server accepts the connection in time."""
        try:
            opening = asyncio.open_connection(site.host, site.port, ssl=site.tls, limit=MAX_HEAD)
            reader, writer = await asyncio.wait_for(opening, site.timeout)
        except ssl.SSLError as error:
            raise NerveError(f"cannot connect to {site.name}: TLS: {error}") from error
        except ConnectionRefusedError as error:
            hint = f"start one with: nerve server start --http {site.name}"
            raise NotRunningError(f"no server is running at {site.name} ({hint})") from error
        except asyncio.TimeoutError as error:
            raise NotRunningError(f"no server at {site.name} accepted the connection within {site.timeout} s") from error
        except OSError as error:
            raise NerveError(f"cannot connect to {site.name}: {error}") from error
        keep_alive(writer.transport)
        return cls(site, reader, writer)

    async def send(self, method: str, target: str, body: bytes = b"", accept: str = "application/json") -> Head:
        """Sends a request and returns the head of its response."""
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
        """Returns the whole body of the response."""
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
        """Yields the body in pieces. Closes the connection after `silence` seconds without data."""
        try:
            if head.headers.get("transfer-encoding", "").lower() == "chunked":
                async for part in self._chunks(silence):
                    yield part
            else:
                left = _length(head)
                while left:
                    part = await self._reader.read(min(left, MAX_HEAD))
                    if not part:
                        raise ConnectionClosedError("the server closed the connection in the middle of a response")
                    left -= len(part)
                    yield part
        except (asyncio.IncompleteReadError, OSError) as error:
            raise ConnectionClosedError("the server closed the connection in the middle of a response") from error
        except asyncio.LimitOverrunError as error:
            raise ProtocolError("the server sent invalid chunks") from error

    def close(self) -> None:
        """Closes it at once."""
        self._writer.transport.abort()

    async def closed(self) -> None:
        """Closes it and waits until it is closed."""
        self.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    @property
    def reusable(self) -> bool:
        """True if it can carry another exchange."""
        return self._reusable and not self._reader.at_eof() and not self._writer.is_closing()

    @property
    def stale(self) -> bool:
        """True if it was idle for too long."""
        return time.monotonic() - self._idle_since > IDLE_SECONDS

    def rest(self) -> None:
        """Marks it as idle."""
        self._idle_since = time.monotonic()

    async def _head(self) -> Head:
        while True:
            text = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            head = _parse(text)
            # 1xx: the final response follows.
            if head.status >= 200:
                return head

    async def _chunks(self, silence: Optional[float]) -> AsyncIterator[bytes]:
        while True:
            # Not `wait_for`: before Python 3.12 it loses a cancellation that coincides with data.
            watchdog = asyncio.get_running_loop().call_later(silence, self.close) if silence else None
            try:
                line = await self._reader.readuntil(b"\r\n")
            finally:
                if watchdog is not None:
                    watchdog.cancel()
            try:
                left = int(line.split(b";")[0], 16)
            except ValueError as error:
                raise ProtocolError("the server sent invalid chunks") from error
            if left == 0:
                # Ignores trailers.
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
    """Keeps idle connections of one site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._idle: List[Channel] = []

    async def take(self) -> Channel:
        """Returns an idle connection or a new one."""
        while self._idle:
            channel = self._idle.pop()
            if channel.reusable and not channel.stale:
                return channel
            channel.close()
        return await Channel.open(self.site)

    def give_back(self, channel: Channel) -> None:
        """Keeps a connection if it is reusable."""
        if channel.reusable and len(self._idle) < MAX_IDLE:
            channel.rest()
            self._idle.append(channel)
        else:
            channel.close()

    async def close(self) -> None:
        """Closes all idle connections."""
        idle, self._idle = self._idle, []
        for channel in idle:
            await channel.closed()


def _parse(text: str) -> Head:
    first, *lines = text.split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
        raise ProtocolError("the response is not HTTP/1.1: is it a nerve server?")
    pairs: List[Tuple[str, str, str]] = [line.partition(":") for line in lines if line]
    return Head(int(rest[:3]), {name.strip().lower(): value.strip() for name, _, value in pairs})


def _length(head: Head) -> int:
    if head.status == 204:
        return 0
    length = head.headers.get("content-length", "")
    if not length.isdigit():
        raise ProtocolError("the server sent a response without a length")
    return int(length)
