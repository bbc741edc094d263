"""Generates nerve_sdk/types.py, the replies of a server, from docs/openapi.json. `--check` only compares."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any, Dict, Iterator, List

PACKAGE = Path(__file__).resolve().parent.parent / "nerve_sdk"
TARGET = PACKAGE / "types.py"
OPENAPI = PACKAGE.parent.parent / "docs/openapi.json"

HEAD = '''"""Replies of a server as frozen dataclasses. Times are seconds since the Unix epoch.

Generated from docs/openapi.json by tools/generate_types.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional
'''

#: The schemas and their names in Python. References to other objects are dictionaries.
NAMES = {
    "NodeInfo": "NodeInfo",
    "ResponseSection": "Section",
    "TokenCounts": "Tokens",
    "TurnResponse": "Response",
    "RunningTurn": "RunningTurn",
    "NodeExplanation": "Explanation",
    "NodeHistory": "History",
    "TranscriptDialog": "TranscriptDialog",
    "TranscriptTurn": "TranscriptTurn",
    "Transcript": "Transcript",
    "SearchHit": "SearchHit",
    "UnsearchedFile": "UnsearchedFile",
    "SearchResult": "SearchResult",
    "TokenUsage": "TokenUsage",
    "UsageRow": "UsageRow",
    "UnpricedModel": "UnpricedModel",
    "UsageReport": "UsageReport",
    "ResultInfo": "Result",
    "SessionInfo": "SessionInfo",
    "NodeFailure": "NotDone",
    "NodesChanged": "Lifecycle",
    "NodesPruned": "NodesPruned",
    "RestoredNode": "RestoredNode",
    "GraphInfo": "GraphInfo",
    "PlannedStep": "PlannedStep",
    "RunStep": "RunStep",
    "GateInfo": "Gate",
    "RunInfo": "RunInfo",
    "RunEnded": "RunEnded",
    "Pong": "Pong",
    "EventMessage": "Event",
    "RecordedExit": "RecordedExit",
    "RecordingInfo": "RecordingInfo",
    "PrunedRecording": "PrunedRecording",
    "PrunedBranch": "PrunedBranch",
    "RecordingsPruned": "RecordingsPruned",
    "TimelineTurn": "TimelineTurn",
    "TimelineSnapshot": "TimelineSnapshot",
    "TimelineDialog": "TimelineDialog",
    "TimelineSize": "TimelineSize",
    "RecordingDamage": "RecordingDamage",
    "RecordingTimeline": "RecordingTimeline",
    "RecordedTerminal": "RecordedTerminal",
    "RecordedChunk": "RecordedChunk",
    "RecordedOutput": "RecordedOutput",
    "RecordingFile": "RecordingFile",
    "SnapshotFiles": "SnapshotFiles",
    "SnapshotInfo": "SnapshotInfo",
    "SnapshotTaken": "SnapshotTaken",
    "SnapshotRestored": "SnapshotRestored",
    "BranchSnapshot": "BranchSnapshot",
    "BranchFiles": "BranchFiles",
    "BranchEnvironment": "BranchEnvironment",
    "BranchCreated": "BranchCreated",
    "BranchInfo": "BranchInfo",
    "BranchDeleted": "BranchDeleted",
}
#: Schemas whose further properties a class also has: the node and number of a turn.
MERGED = {"TurnResponse": ("Turn", ["node_id", "turn"])}
#: Methods written by hand.
METHODS = {
    "TurnResponse": '''
    def __str__(self) -> str:
        return self.text
'''
}
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "List[Any]", "object": "Dict[str, Any]"}
WIDTH = 140

Schema = Dict[str, Any]


def main() -> int:
    """Returns 0 if the file is up to date or was written."""
    schemas: Dict[str, Schema] = json.loads(OPENAPI.read_text())["components"]["schemas"]
    text = HEAD + "".join(class_of(name, schemas) for name in NAMES)
    if "--check" not in sys.argv:
        TARGET.write_text(text)
    elif TARGET.read_text() != text:
        print("nerve_sdk/types.py is out of date: run tools/generate_types.py")
        return 1
    return 0


def class_of(name: str, schemas: Dict[str, Schema]) -> str:
    """Returns the source of a schema's class."""
    schema = schemas[name]
    properties: Dict[str, Schema] = dict(schema["properties"])
    if name in MERGED:
        other, further = MERGED[name]
        properties.update((property, schemas[other]["properties"][property]) for property in further)
    required = [property for property in properties if property in schema.get("required", [])]
    # Fields with a default follow those without.
    order = required + [property for property in properties if property not in required]
    lines = [f"class {NAMES[name]}:", *docstring(schema["description"]), ""]
    for property in order:
        lines += comment(described(properties[property], schemas))
        lines.append(f"    {property}: {declaration(properties[property], property in required, schemas)}")
    return "\n\n@dataclass(frozen=True)\n" + "\n".join(lines) + "\n" + METHODS.get(name, "")


def declaration(schema: Schema, required: bool, schemas: Dict[str, Schema]) -> str:
    """Returns the type of a field and its default."""
    kind = type_of(schema, schemas)
    if required:
        return kind
    if kind.startswith(("List[", "Dict[")):
        return f"{kind} = field(default_factory={kind[:4].lower()})"
    default = schema.get("default")
    if kind in NAMES.values() and default is not None:
        # The defaults of the object's fields are those of the class.
        return f"{kind} = field(default_factory={kind})"
    if default is None and kind != "Any" and not kind.startswith("Optional["):
        kind = f"Optional[{kind}]"
    return f"{kind} = {json.dumps(default) if isinstance(default, str) else default}"


def type_of(schema: Schema, schemas: Dict[str, Schema]) -> str:
    """Returns the type of a schema's values."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return NAMES.get(name) or type_of(schemas[name], schemas)
    if "anyOf" in schema:
        (other,) = [choice for choice in schema["anyOf"] if choice != {"type": "null"}]
        return f"Optional[{type_of(other, schemas)}]"
    kinds: Any = schema.get("type")
    if kinds is None:
        return "Any"
    if isinstance(kinds, list):
        (kind,) = [kind for kind in kinds if kind != "null"]
        return f"Optional[{type_of({**schema, 'type': kind}, schemas)}]"
    if kinds == "array" and isinstance(schema["items"], dict):
        return f"List[{type_of(schema['items'], schemas)}]"
    return PLAIN[kinds]


def described(schema: Schema, schemas: Dict[str, Schema]) -> str:
    """Returns the description of a field, with the values of a closed set. A newer server may have further values."""
    description: str = schema["description"]
    found = [f"`{value}`" for value in values(schema, schemas)]
    if not found or any(value in description for value in found):
        return description
    return f"{description} One of {', '.join(found)}."


def values(schema: Schema, schemas: Dict[str, Schema]) -> List[str]:
    """Returns the values of a schema that is a closed set, or optionally one."""
    if "$ref" in schema:
        return values(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    choices = schema.get("anyOf", [])
    return schema.get("enum", []) or next((found for found in (values(choice, schemas) for choice in choices) if found), [])


def docstring(description: str) -> List[str]:
    """Returns the lines of a docstring."""
    lines = list(wrapped(description, '    """', "    "))
    return [*lines[:-1], lines[-1] + '"""'] if len(lines) == 1 else [*lines, '    """']


def comment(description: str) -> List[str]:
    """Returns the lines of a field's comment."""
    return list(wrapped(description, "    #: ", "    #: "))


def wrapped(description: str, first: str, rest: str) -> Iterator[str]:
    """Yields the lines of a text. Links to other structs become names in Python."""
    text = re.sub(r"\[`(\w+)`\]", lambda link: f"`{NAMES.get(link[1], link[1])}`", " ".join(description.split()))
    yield from textwrap.wrap(text, WIDTH - 3, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


if __name__ == "__main__":
    sys.exit(main())
