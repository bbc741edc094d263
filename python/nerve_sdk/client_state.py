"""State that outlives a client's connections: request ids, warnings, events and the position in them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Dict, Mapping, Optional

from .events import EventHub
from .stream_order import StreamOrder
from .server_warnings import ServerWarnings


@dataclass(frozen=True)
class Subscription:
    """A SUBSCRIBE request."""

    #: Its params without `since`; None: all events.
    filter: Optional[Mapping[str, Any]]
    since: Optional[int]
    #: Continues on a new connection where the last one ended.
    resumes: bool = False
    #: The server is another one, so all of its events are new.
    from_start: bool = False

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Subscription:
        """Creates the subscription that these params request."""
        since = params.get("since")
        return cls({name: value for name, value in params.items() if name != "since"}, since if isinstance(since, int) else None)

    def from_the_beginning(self) -> Subscription:
        """Returns a subscription to all events that the server still has."""
        return replace(self, since=0, from_start=True)

    def params(self) -> Dict[str, Any]:
        """Returns the params of the command."""
        return {**(self.filter or {}), "since": self.since}


class ClientState:
    """State shared by the connections of one client."""

    def __init__(self) -> None:
        self.hub = EventHub()
        self.warnings = ServerWarnings()
        self.order = StreamOrder()
        #: Number of ignored answers that match no request.
        self.unmatched = 0
        self._ids = count(1)
        self._last_id = 0
        self._filter: Optional[Mapping[str, Any]] = None
        self._server: Optional[str] = None
        self._seq: Optional[int] = None

    def new_id(self) -> str:
        """Returns a request id that is unique for this client."""
        self._last_id = next(self._ids)
        return str(self._last_id)

    def count_unmatched(self, request_id: object) -> None:
        """Counts an answer that matches no request. Answers to cancelled requests do not count."""
        text = str(request_id)
        if not (text.isascii() and text.isdigit() and 0 < int(text) <= self._last_id):
            self.unmatched += 1

    def publish(self, message: Mapping[str, Any]) -> None:
        """Delivers an event. Raises `ProtocolError` if it is invalid."""
        seq = message.get("seq")
        if isinstance(seq, int) and seq > 0 and message.get("event_type") != "EVENTS_DROPPED":
            self._seq = seq
        self.order.observe_event(message)
        self.hub.publish(message)

    @property
    def has_filter(self) -> bool:
        """True if the server has accepted a SUBSCRIBE."""
        return self._filter is not None

    def to_resume(self) -> Optional[Subscription]:
        """Returns the subscription that a new connection needs to continue the last one; None if there is none."""
        if not self.hub.has_readers and self._filter is None:
            return None
        return Subscription(self._filter, self._seq if self.hub.has_readers else None, resumes=True)

    def subscribed(self, subscription: Subscription, data: object) -> bool:
        """Records that the server accepted a subscription.

        Returns False if it turns out to be another server: then subscribe again from the beginning.
        """
        fields = data if isinstance(data, Mapping) else {}
        seq, server = fields.get("seq"), fields.get("server")
        newest = seq if isinstance(seq, int) else 0
        if not subscription.resumes:
            self._filter = subscription.filter
        elif subscription.from_start:
            self.hub.drop()
        elif subscription.since is None:
            # The position is unknown: the last connection delivered no event.
            self.hub.drop()
        elif self._is_elsewhere(server, newest):
            return False
        self._server = server if isinstance(server, str) else None
        self._seq = subscription.since if subscription.since is not None and subscription.since <= newest else newest
        return True

    def _is_elsewhere(self, server: object, newest: int) -> bool:
        """Returns True if this is another server, which counts its own events."""
        if self._server is not None and isinstance(server, str):
            return self._server != server
        return self._seq is not None and newest < self._seq
