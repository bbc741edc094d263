"""Creates the dataclasses of `types` from JSON.

Fields that a newer server adds are ignored. A missing field without a default, or a field of a wrong type, raises `ProtocolError`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Dict, List, Mapping, Tuple, Type, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import ProtocolError
from .types import Response

T = TypeVar("T")


def from_wire(cls: Type[T], data: object) -> T:
    """Creates a `cls` from a JSON object.

    Raises `ProtocolError` if a field is missing or has a wrong type.
    """
    if not isinstance(data, Mapping):
        raise ProtocolError(f"{cls.__name__}: the server sent {type(data).__name__} instead of an object")
    values: Dict[str, Any] = {}
    for name, kind, required in _fields_of(cls):  # type: ignore[arg-type]
        value = data.get(name)
        if value is not None:
            values[name] = _value(cls, name, kind, value)
        elif required:
            raise ProtocolError(f"{cls.__name__}: the server sent no {name}")
    return cls(**values)


def list_of(cls: Type[T], data: object) -> List[T]:
    """Creates a list of `cls` from a JSON array."""
    if not isinstance(data, list):
        raise ProtocolError(f"{cls.__name__}: the server sent {type(data).__name__} instead of a list")
    return [from_wire(cls, value) for value in data]


def response_of(data: object) -> Response:
    """Returns the `Response` in the data of an execution, with its node and turn."""
    if not isinstance(data, Mapping):
        raise ProtocolError(f"Response: the server sent {type(data).__name__} instead of an object")
    response = from_wire(Response, data.get("response"))
    if response.raw is None:
        # The server sends it only if it differs.
        response = dataclasses.replace(response, raw=response.text)
    return dataclasses.replace(response, node_id=str(data.get("node_id") or ""), turn=int(data.get("turn") or 0))


def field_of(data: Any, name: str) -> Any:
    """Returns a required field of a result's data."""
    if not isinstance(data, Mapping) or data.get(name) is None:
        raise ProtocolError(f"the server's result has no {name}")
    return data[name]


@functools.lru_cache(maxsize=None)
def _fields_of(cls: Any) -> List[Tuple[str, Any, bool]]:
    """Returns the name and type of each field, and True if it is required. The type of an `Optional[X]` is `X`."""
    hints = get_type_hints(cls)
    fields = []
    for spec in dataclasses.fields(cls):
        kind = hints[spec.name]
        if get_origin(kind) is Union:
            kind = get_args(kind)[0]
        required = spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING
        fields.append((spec.name, kind, required))
    return fields


def _value(cls: type, name: str, kind: Any, value: Any) -> Any:
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return from_wire(kind, value)  # type: ignore[arg-type]
    expected = get_origin(kind) or kind
    items = get_args(kind)
    if expected is list and dataclasses.is_dataclass(items[0]):
        return list_of(items[0], value)  # type: ignore[arg-type]
    # JSON has one type of number; in Python, bool is a subclass of int.
    wrong_bool = isinstance(value, bool) and expected in (int, float)
    if wrong_bool or not isinstance(value, (int, float) if expected is float else expected):
        raise ProtocolError(f"{cls.__name__}: {name} is {type(value).__name__}, not {expected.__name__}")
    return value
