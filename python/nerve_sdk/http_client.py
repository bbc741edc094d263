"""Creates httpx clients, and raises the errors of httpx as errors of this package."""

from __future__ import annotations

import contextlib
import ssl
from typing import Iterator, Optional

import httpx

from .errors import ConnectionClosedError, NerveError, NotRunningError, ProtocolError
from .keepalive import socket_options

#: Maximum number and lifetime of idle connections. Servers keep them longer, so that no request meets a closing connection.
IDLE_CONNECTIONS = httpx.Limits(max_keepalive_connections=32, keepalive_expiry=4.0)


def client_of(url: str, token: str, tls: Optional[ssl.SSLContext], timeout: Optional[float]) -> httpx.AsyncClient:
    """Creates the client of `http://host:port` or `https://host:port`, which ignores the environment's proxies.

    Raises `ValueError` for any other URL, and for a token that is not valid in a header.
    """
    expected = "expected http://host:port or https://host:port"
    try:
        base = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{url!r}: {expected}: {error}") from error
    if base.scheme not in ("http", "https") or not base.host or base.path != "/" or base.query:
        raise ValueError(f"{url!r}: {expected}")
    if base.userinfo:
        raise ValueError("the URL contains a user name or password: pass the token separately")
    if not token.isascii() or not token.isprintable():
        raise ValueError("the token contains invalid characters")
    if tls is not None and base.scheme == "http":
        raise ValueError(f"{url!r}: TLS needs https://")
    transport = httpx.AsyncHTTPTransport(
        verify=tls or ssl.create_default_context(), trust_env=False, limits=IDLE_CONNECTIONS, socket_options=socket_options()
    )
    return httpx.AsyncClient(
        base_url=base,
        transport=transport,
        trust_env=False,
        # httpx rejects header values that end with a space, so an empty token is stripped. Compression is off: the size limit counts
        # the bytes received.
        headers={"Authorization": f"Bearer {token}".rstrip(), "Accept-Encoding": "identity"},
        timeout=httpx.Timeout(None, connect=timeout),
    )


def address_of(url: httpx.URL) -> str:
    """Returns the host and port of a URL."""
    port = url.port or (443 if url.scheme == "https" else 80)
    return f"[{url.host}]:{port}" if ":" in url.host else f"{url.host}:{port}"


@contextlib.contextmanager
def transport_errors() -> Iterator[None]:
    """Raises the errors of httpx as errors of this package."""
    try:
        yield
    except httpx.ConnectTimeout as error:
        timeout = error.request.extensions["timeout"]["connect"]
        where = address_of(error.request.url)
        raise NotRunningError(f"no server at {where} accepted the connection within {timeout} s") from error
    except httpx.ConnectError as error:
        cause = _cause_of(error)
        raise _connect_error(address_of(error.request.url), cause) from cause
    except httpx.RemoteProtocolError as error:
        # An early end and invalid data are the same exception.
        reason = str(error)
        if reason.startswith("Server disconnected"):
            raise ConnectionClosedError("the server closed the connection") from error
        if reason.startswith("peer closed connection"):
            raise ConnectionClosedError("the server closed the connection in the middle of a response") from error
        raise ProtocolError(f"the response is not HTTP/1.1: is it a nerve server? ({reason[:200]})") from error
    except httpx.TransportError as error:
        raise ConnectionClosedError("the server closed the connection") from error


def _connect_error(where: str, cause: BaseException) -> NerveError:
    if isinstance(cause, ssl.SSLError):
        return NerveError(f"cannot connect to {where}: TLS: {cause}")
    if isinstance(cause, ConnectionRefusedError):
        return NotRunningError(f"no server is running at {where} (start one with: nerve server start --http {where})")
    if isinstance(cause, OSError):
        return NerveError(f"cannot connect to {where}: {cause}")
    return NotRunningError(f"the server at {where} closed the connection before it was established")


def _cause_of(error: BaseException) -> BaseException:
    """Returns the first cause, below the errors of the libraries. For a host with several addresses, that of the first one."""
    cause = getattr(error, "exceptions", (error.__cause__ or error.__context__,))[0]
    return error if cause is None else _cause_of(cause)
