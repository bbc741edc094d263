"""Detects that a remote server is gone without having closed the connection."""

from __future__ import annotations

import asyncio
import socket
from typing import List, Tuple

#: Seconds of silence before the first probe, seconds between probes, and number of unanswered probes.
IDLE, INTERVAL, TRIES = 60, 15, 4


def socket_options() -> List[Tuple[int, int, int]]:
    """Returns the options of a TCP socket that enable keepalive: level, name and value."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    # Not every system has these options.
    for name, value in (("TCP_KEEPIDLE", IDLE), ("TCP_KEEPINTVL", INTERVAL), ("TCP_KEEPCNT", TRIES)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Enables TCP keepalive. Does nothing for a Unix socket."""
    connected = transport.get_extra_info("socket")
    if connected is None or connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    for option in socket_options():
        connected.setsockopt(*option)
