"""Which of a client's streams a chunk of an answer belongs to."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

#: Nodes whose turns are remembered; then the oldest are forgotten.
KEPT_NODES = 1024

#: A node: its session and its id.
Key = Tuple[Optional[str], str]

#: After these a node's turns count from one again. In a request or an event.
_ANEW = frozenset(("NODE_CREATED", "NODE_STOPPED", "CREATE_NODE", "STOP_NODE", "START_NODE"))


class StreamOrder:
    """Which stream a chunk is of that does not name its request: a node does one turn at a time, in the order they were asked for.

    So a chunk is of the stream that was opened first, and of no turn that is known to be another's. What other clients stream on the same
    node at the same time cannot be told apart.
    """

    def __init__(self) -> None:
        self._open: Dict[Key, List[object]] = {}
        self._ended: Dict[Key, int] = {}
        self._server = ""

    def begin(self, key: Key, stream: object) -> None:
        """A prompt goes out."""
        self._open.setdefault(key, []).append(stream)

    def takes(self, key: Key, stream: object, turn: int) -> bool:
        """A chunk of this turn may be the stream's; 0 is a turn that is not known."""
        first = self._open.get(key, [None])[0]
        return first is stream and (turn == 0 or turn > self._ended.get(key, 0))

    def end(self, key: Key, stream: object, turn: int, answered: bool) -> None:
        """Its answer is there, or was given up when this turn was seen last. May be called again."""
        streams = self._open.get(key, [])
        if stream in streams:
            streams.remove(stream)
        known = self._ended.pop(key, 0)
        if not streams:
            self._open.pop(key, None)
            if answered:
                # All chunks of this turn and of those before it have come: a later stream gets none of them.
                return
        self._ended[key] = max(turn, known)
        while len(self._ended) > KEPT_NODES:
            del self._ended[next(iter(self._ended))]

    def heed(self, kind: object, session: object, node: object) -> None:
        """A node was made or has stopped, by the type of an event or of a command. Others change nothing."""
        if kind in _ANEW:
            for key in [key for key in self._ended if key[1] == node and (key[0] == session or None in (key[0], session))]:
                del self._ended[key]

    def heed_event(self, event: Mapping[str, Any]) -> None:
        """The same by an event."""
        self.heed(event.get("event_type"), event.get("session_id"), event.get("node_id"))

    def forget(self) -> None:
        """What comes now may be of another server."""
        self._ended.clear()

    def meet(self, server: str) -> None:
        """What comes now is of this server; empty: nobody knows."""
        if server and self._server != server:
            self.forget()
            self._server = server
