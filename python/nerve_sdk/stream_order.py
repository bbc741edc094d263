"""Assigns the chunks of answers to a client's streams."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

#: Maximum number of nodes whose turns are remembered.
MAX_NODES = 1024

#: A node: its session and its id.
Key = Tuple[Optional[str], str]

#: Commands and events after which a node's turns are counted from one again.
_RESET_EVENTS = frozenset(("NODE_CREATED", "NODE_STOPPED", "CREATE_NODE", "STOP_NODE", "START_NODE"))


class StreamOrder:
    """Assigns chunks that do not name their request. A node runs one turn at a time, in the order of the requests.

    A chunk therefore belongs to the oldest open stream, unless its turn is known to be another's. Streams of other clients on the
    same node cannot be distinguished.
    """

    def __init__(self) -> None:
        self._open: Dict[Key, List[object]] = {}
        self._ended: Dict[Key, int] = {}
        self._server = ""

    def begin(self, key: Key, stream: object) -> None:
        """Records that a stream's prompt is sent."""
        self._open.setdefault(key, []).append(stream)

    def accepts(self, key: Key, stream: object, turn: int) -> bool:
        """Returns True if a chunk of this turn may belong to the stream; 0: unknown turn."""
        first = self._open.get(key, [None])[0]
        return first is stream and (turn == 0 or turn > self._ended.get(key, 0))

    def end(self, key: Key, stream: object, turn: int, answered: bool) -> None:
        """Records that the stream was answered or closed; `turn` is the last one seen. Can be called again."""
        streams = self._open.get(key, [])
        if stream in streams:
            streams.remove(stream)
        known = self._ended.pop(key, 0)
        if not streams:
            self._open.pop(key, None)
            if answered:
                # All chunks up to this turn have arrived, so a later stream gets none of them.
                return
        self._ended[key] = max(turn, known)
        while len(self._ended) > MAX_NODES:
            del self._ended[next(iter(self._ended))]

    def observe(self, kind: object, session: object, node: object) -> None:
        """Handles the creation or stop of a node, reported by an event or a command. Ignores other types."""
        if kind in _RESET_EVENTS:
            for key in [key for key in self._ended if key[1] == node and (key[0] == session or None in (key[0], session))]:
                del self._ended[key]

    def observe_event(self, event: Mapping[str, Any]) -> None:
        """Handles an event like `observe`."""
        self.observe(event.get("event_type"), event.get("session_id"), event.get("node_id"))

    def reset(self) -> None:
        """Forgets all turns, because the server may be another one."""
        self._ended.clear()

    def set_server(self, server: str) -> None:
        """Sets the server that events come from; empty: unknown."""
        if server and self._server != server:
            self.reset()
            self._server = server
