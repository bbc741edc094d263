"""Parses server-sent events (HTML standard)."""

from __future__ import annotations

from typing import Iterator, List, Optional

from .errors import ProtocolError
from .wire import MAX_LINE

#: Maximum length of an id, in bytes; nerve's have about forty.
MAX_ID = 256


class SseParser:
    """An incremental parser that returns the `data` of each event."""

    def __init__(self) -> None:
        #: Id of the last event, even of one without data; empty before the first.
        self.last_id = ""
        self._id = ""
        self._rest = bytearray()
        self._data: List[bytes] = []
        self._size = 0

    def feed(self, part: bytes) -> Iterator[bytes]:
        """Yields the data of the events that this part completes. Raises `ProtocolError` for an oversized event."""
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
            self.last_id = self._id
            data, self._data, self._size = self._data, [], 0
            return b"\n".join(data) if data else None
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value[1:] if value.startswith(b" ") else value
            self._data.append(value)
            self._size += len(value)
        elif name == b"id" and b"\0" not in value and len(value) <= MAX_ID:
            self._id = value.strip().decode("utf-8", "replace")
        # Comments and retry times matter only to browsers.
        return None
