"""Validates messages of an agent against the schemas of the protocol.

Argument: the folder of the schemas. Standard input: the methods of the requests by their ids as JSON, then the
messages, one per line. Prints the number of valid messages.

Each message must be valid in the unstable schema. It must also be valid in the stable one, and may have no
fields that the stable one lacks, except the documented ones.
"""

import json
import sys
from pathlib import Path

from jsonschema import Draft202012Validator

STABLE, UNSTABLE = (
    json.loads((Path(sys.argv[1]) / name).read_text(encoding="utf-8"))["$defs"]
    for name in ("schema.json", "schema.unstable.json")
)

# Fields that only the unstable schema has, by the path of their object.
UNSTABLE_FIELDS = {
    "PromptResponse": {"usage"},
    "InitializeResponse.agentCapabilities.sessionCapabilities": {"fork"},
    "InitializeResponse.capabilities.session": {"fork"},
}

BY_METHOD = {
    "session/update": "UpdateSessionNotification" if "UpdateSessionNotification" in STABLE else "SessionNotification",
    "session/request_permission": "RequestPermissionRequest",
    "$/cancel_request": "CancelRequestNotification",
}

BY_REQUEST = {
    "initialize": "InitializeResponse",
    "session/new": "NewSessionResponse",
    "session/load": "LoadSessionResponse",
    "session/resume": "ResumeSessionResponse",
    "session/list": "ListSessionsResponse",
    "session/close": "CloseSessionResponse",
    "session/prompt": "PromptResponse",
}


def validate(name, value):
    """Raises an error unless the value is valid in both schemas."""
    for types in (UNSTABLE, STABLE):
        Draft202012Validator({"$defs": types, "$ref": f"#/$defs/{name}"}).validate(value)
    check_fields(name, types[name], value)


def check_fields(path, schema, value):
    """Raises an error if an object has fields that the stable schema lacks."""
    while "properties" not in schema:
        parts = schema.get("allOf") or schema.get("anyOf") or [schema]
        if "$ref" not in parts[0]:
            return
        schema = STABLE[parts[0]["$ref"].rsplit("/", 1)[-1]]
    fields = schema["properties"]
    unknown = set(value) - set(fields) - UNSTABLE_FIELDS.get(path, set())
    assert not unknown, f"{path}: not in the stable schema: {unknown}"
    for field, content in value.items():
        if isinstance(content, dict) and field in fields and field != "_meta":
            check_fields(f"{path}.{field}", fields[field], content)


def check(message):
    """Raises an error unless the message is valid."""
    assert message["jsonrpc"] == "2.0"
    if "method" in message:
        validate(BY_METHOD[message["method"]], message["params"])
    elif "error" in message:
        validate("Error", message["error"])
    else:
        validate(BY_REQUEST[METHODS[str(message["id"])]], message["result"])
    if "id" in message:
        validate("RequestId", message["id"])


METHODS = json.loads(next(sys.stdin))
COUNT = 0
for line in sys.stdin:
    try:
        check(json.loads(line))
    except Exception as error:
        sys.exit(f"{line}\n{error}")
    COUNT += 1
assert COUNT > 0
print(COUNT)
