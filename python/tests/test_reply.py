"""Replies from JSON."""

from __future__ import annotations

from typing import Any

import pytest

from nerve_sdk import Event, ProtocolError, Response, Result, RunInfo, RunStep, Section, Tokens
from nerve_sdk.reply import from_wire, list_of


def test_replies_contain_objects_of_their_types() -> None:
    response = {"text": "hi", "sections": [{"type": "text", "later": 1}], "tokens": {"input": 1, "output": None}}
    result = from_wire(Result, {"result_id": "r", "created_at": "2026-01-31T10:30:05.000Z", "response": response, "webhook": {"delivered": True}})
    assert result.response == Response(text="hi", sections=[Section("text")], tokens=Tokens(input=1))
    assert str(result.response) == "hi" and result.created_at == "2026-01-31T10:30:05.000Z" and result.webhook == {"delivered": True}
    run = from_wire(RunInfo, {"run_id": "r", "graph_id": "g", "state": "running", "steps": [{"step_id": "a", "state": "queued"}]})
    assert run.steps == [RunStep("a", "queued")] and run.gates == [] and run.ended_at is None
    assert from_wire(Event, {"event_type": "NODE_READY", "data": None}) == Event("NODE_READY")


@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        (Event, {}, "Event: the server sent no event_type"),
        (Event, {"event_type": None}, "Event: the server sent no event_type"),
        (Event, {"event_type": "x", "seq": True}, "Event: seq is bool, not int"),
        (Event, {"event_type": "x", "emitted_at": 1.5}, "Event: emitted_at is float, not str"),
        (Event, {"event_type": "x", "data": []}, "Event: data is list, not dict"),
        (Result, {"choices": "a"}, "Result: choices is str, not list"),
        (Result, {"response": []}, "Response: the server sent list instead of an object"),
        (Response, {"sections": {}}, "Section: the server sent dict instead of a list"),
        (Response, {"sections": [{}]}, "Section: the server sent no type"),
    ],
)
def test_invalid_replies_are_rejected(kind: Any, data: Any, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        from_wire(kind, data)
    with pytest.raises(ProtocolError, match=reason):
        list_of(kind, [data])
