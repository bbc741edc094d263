"""The wire's lines: one JSON object each, at most 16 MiB long in both directions."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping

from .errors import ProtocolError

#: The longest line in bytes, its newline not counted.
MAX_LINE = 16 << 20

#: Objects and lists within each other. A server reads no deeper ones, and could not say whose request that was.
MAX_DEPTH = 120


def encode(command: str, params: Mapping[str, Any], request_id: str) -> bytes:
    """The line of a request, newline included. Parameters that are None are left out: they are the same as absent ones.

    Raises `ProtocolError` for what no server would read.
    """
    given = {name: value for name, value in params.items() if value is not None}
    _check_depth(command, given)
    request = {"type": "command", "command_type": command, "params": given, "request_id": request_id}
    try:
        text = json.dumps(request, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        line = text.encode("utf-8")
    except (TypeError, ValueError) as error:
        # UnicodeEncodeError, half of a surrogate pair, is a ValueError.
        raise ProtocolError(f"{command}: parameters that are no JSON: {error}") from error
    if len(line) > MAX_LINE:
        raise ProtocolError(f"{command}: {len(line)} bytes not sent: a line holds at most {MAX_LINE}")
    return line + b"\n"


def decode(line: bytes) -> Dict[str, Any]:
    """The message of a line.

    Raises `ProtocolError` for what is no JSON object.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the server sent what is not JSON: {str(error)[:200]}") from error
    if not isinstance(message, dict):
        raise ProtocolError("the server sent JSON that is no message")
    return message


def _check_depth(command: str, params: Any) -> None:
    # Level by level and not by recursion, which has a limit of its own. A value that holds itself ends here too.
    level = [params]
    for _ in range(MAX_DEPTH):
        inner = [value for value in level if isinstance(value, (dict, list, tuple))]
        if not inner:
            return
        level = [part for value in inner for part in (value.values() if isinstance(value, dict) else value)]
    raise ProtocolError(f"{command}: parameters more than {MAX_DEPTH} levels deep")
