"""What the connections of one client leave for it, one after the other: ids, warnings, events, and how far it has come in those."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Dict, Mapping, Optional

from .events import EventHub
from .order import StreamOrder
from .warner import Warner


@dataclass(frozen=True)
class Subscribing:
    """A SUBSCRIBE that is on its way."""

    #: Its params, `since` left out; None: all events.
    filter: Optional[Mapping[str, Any]]
    since: Optional[int]
    #: A new connection goes on where the last one ended.
    resumes: bool = False
    #: It leads to another server, all of whose events are new.
    anew: bool = False

    @classmethod
    def asked(cls, params: Mapping[str, Any]) -> Subscribing:
        """What somebody asks for with these params."""
        since = params.get("since")
        return cls({name: value for name, value in params.items() if name != "since"}, since if isinstance(since, int) else None)

    def from_the_beginning(self) -> Subscribing:
        """The same events once more: all that the server has."""
        return replace(self, since=0, anew=True)

    def params(self) -> Dict[str, Any]:
        """The params of the command."""
        return {**(self.filter or {}), "since": self.since}


class Inbox:
    """Shared by the connections of one client."""

    def __init__(self) -> None:
        self.hub = EventHub()
        self.warner = Warner()
        self.order = StreamOrder()
        #: Answers that came to what was never asked. They were passed over.
        self.unmatched = 0
        self._ids = count(1)
        self._last_id = 0
        self._filter: Optional[Mapping[str, Any]] = None
        self._server: Optional[str] = None
        self._seq: Optional[int] = None

    def new_id(self) -> str:
        """The id of a new request; no other one of this client has it, over whatever connection."""
        self._last_id = next(self._ids)
        return str(self._last_id)

    def count_unmatched(self, request_id: object) -> None:
        """An answer to a request that was given up is no surprise; any other that nobody waits for is counted."""
        text = str(request_id)
        if not (text.isascii() and text.isdigit() and 0 < int(text) <= self._last_id):
            self.unmatched += 1

    def publish(self, message: Mapping[str, Any]) -> None:
        """Raises `ProtocolError` for what is no event."""
        seq = message.get("seq")
        if isinstance(seq, int) and seq > 0 and message.get("event_type") != "EVENTS_DROPPED":
            self._seq = seq
        self.order.heed_event(message)
        self.hub.publish(message)

    def to_resume(self) -> Optional[Subscribing]:
        """What a new connection must ask for before it is as the last one was; None if nothing."""
        if not self.hub.heard and self._filter is None:
            return None
        return Subscribing(self._filter, self._seq if self.hub.heard else None, resumes=True)

    def subscribed(self, asked: Subscribing, data: object) -> bool:
        """The server has taken a SUBSCRIBE: what comes from here on is what was asked for.

        Not so where it turns out to be another server: then gives False, and it must be asked anew.
        """
        told = data if isinstance(data, Mapping) else {}
        seq, server = told.get("seq"), told.get("server")
        newest = seq if isinstance(seq, int) else 0
        if not asked.resumes:
            self._filter = asked.filter
        elif asked.anew:
            self.hub.drop()
        elif asked.since is None:
            # Where the last connection ended is not known: no event came over it.
            self.hub.drop()
        elif self._is_elsewhere(server, newest):
            return False
        self._server = server if isinstance(server, str) else None
        self._seq = asked.since if asked.since is not None and asked.since <= newest else newest
        return True

    def _is_elsewhere(self, server: object, newest: int) -> bool:
        """The server that says this counts its events anew."""
        if self._server is not None and isinstance(server, str):
            return self._server != server
        return self._seq is not None and newest < self._seq
