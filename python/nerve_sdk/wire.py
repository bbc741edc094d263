"""Encodes and decodes lines: one JSON object each, at most 16 MiB in both directions."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping

from .errors import ProtocolError

#: Maximum length of a line in bytes, without its newline.
MAX_LINE = 16 << 20

#: Maximum nesting depth. A server cannot parse deeper requests, and could not name their id in the error.
MAX_DEPTH = 120


def encode(command: str, params: Mapping[str, Any], request_id: str) -> bytes:
    """Returns the line of a request with its newline. Omits parameters that are None.

    Raises `ProtocolError` for a request that no server would accept.
    """
    given = {name: value for name, value in params.items() if value is not None}
    _check_depth(command, given)
    request = {"type": "command", "command_type": command, "params": given, "request_id": request_id}
    try:
        text = json.dumps(request, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        line = text.encode("utf-8")
    except (TypeError, ValueError) as error:
        # UnicodeEncodeError (half of a surrogate pair) is a ValueError.
        raise ProtocolError(f"{command}: parameters are not JSON: {error}") from error
    if len(line) > MAX_LINE:
        raise ProtocolError(f"{command}: {len(line)} bytes not sent: a line holds at most {MAX_LINE}")
    return line + b"\n"


def decode(line: bytes) -> Dict[str, Any]:
    """Returns the message of a line.

    Raises `ProtocolError` if it is not a JSON object.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the server sent a line that is not JSON: {str(error)[:200]}") from error
    if not isinstance(message, dict):
        raise ProtocolError("the server sent JSON that is not an object")
    return message


def _check_depth(command: str, params: Any) -> None:
    # Iterative, because recursion has its own limit. Also ends for a value that contains itself.
    level = [params]
    for _ in range(MAX_DEPTH):
        inner = [value for value in level if isinstance(value, (dict, list, tuple))]
        if not inner:
            return
        level = [part for value in inner for part in (value.values() if isinstance(value, dict) else value)]
    raise ProtocolError(f"{command}: parameters more than {MAX_DEPTH} levels deep")
