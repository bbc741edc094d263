"""Finding out that the other machine is gone although it never said so."""

from __future__ import annotations

import asyncio
import socket

#: After how many seconds of silence the other machine is asked, how often, and how many times in vain.
IDLE, INTERVAL, TRIES = 60, 15, 4


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Lets the kernel ask. Does nothing for a Unix socket: its other end is on this machine."""
    connected = transport.get_extra_info("socket")
    if connected is None or connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Not every system has them.
    for name, value in (("TCP_KEEPIDLE", IDLE), ("TCP_KEEPINTVL", INTERVAL), ("TCP_KEEPCNT", TRIES)):
        option = getattr(socket, name, None)
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
