"""Detects that a remote server is gone without having closed the connection."""

from __future__ import annotations

import asyncio
import socket

#: Seconds of silence before the first probe, seconds between probes, and number of unanswered probes.
IDLE, INTERVAL, TRIES = 60, 15, 4


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Enables TCP keepalive. Does nothing for a Unix socket."""
    connected = transport.get_extra_info("socket")
    if connected is None or connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Not every system has these options.
    for name, value in (("TCP_KEEPIDLE", IDLE), ("TCP_KEEPINTVL", INTERVAL), ("TCP_KEEPCNT", TRIES)):
        option = getattr(socket, name, None)
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
