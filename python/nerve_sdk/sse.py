"""Server-sent events, as the HTML standard has them."""

from __future__ import annotations

from typing import Iterator, List, Optional

from .errors import ProtocolError
from .wire import MAX_LINE


class SseParser:
    """Takes a stream of bytes apart; gives the `data` of each event."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: List[bytes] = []
        self._size = 0

    def feed(self, part: bytes) -> Iterator[bytes]:
        """The data that is complete with this part. Raises `ProtocolError` for more than a line of the wire holds."""
        scanned = len(self._rest)
        self._rest += part
        start = 0
        while True:
            end = self._rest.find(b"\n", max(start, scanned))
            if end < 0:
                break
            data = self._line(bytes(self._rest[start:end]).rstrip(b"\r"))
            start = end + 1
            if data is not None:
                yield data
        del self._rest[:start]
        if len(self._rest) + self._size > MAX_LINE:
            raise ProtocolError(f"the server sent an event of more than {MAX_LINE} bytes")

    def _line(self, line: bytes) -> Optional[bytes]:
        if not line:
            data, self._data, self._size = self._data, [], 0
            return b"\n".join(data) if data else None
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value[1:] if value.startswith(b" ") else value
            self._data.append(value)
            self._size += len(value)
        # Comments, ids and times to wait concern only who connects again by itself.
        return None
