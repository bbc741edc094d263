"""Validates messages of an agent, one per line on standard input, against the schema of the protocol.

Prints the number of valid messages. A message is validated by its type: the result of a request by the
schema of that request's response, which the order of the requests in the test decides.
"""

import json
import sys

from jsonschema import Draft202012Validator

with open(sys.argv[1], encoding="utf-8") as file:
    SCHEMA = json.load(file)


def validator(name):
    """Returns a validator of one type. A tagged union fails as a whole, so the tag selects the type."""
    return Draft202012Validator({"$defs": SCHEMA["$defs"], "$ref": f"#/$defs/{name}"})


BY_METHOD = {
    "session/update": "SessionNotification",
    "session/request_permission": "RequestPermissionRequest",
    "$/cancel_request": "CancelRequestNotification",
}


def response_types(result):
    """Returns the types that a result with these fields can have."""
    if "protocolVersion" in result:
        return ["InitializeResponse"]
    if "stopReason" in result:
        return ["PromptResponse"]
    if "sessions" in result:
        return ["ListSessionsResponse"]
    if "sessionId" in result:
        return ["NewSessionResponse"]
    return ["LoadSessionResponse", "CloseSessionResponse"]


def check(message):
    """Raises an error unless the message is valid."""
    assert message["jsonrpc"] == "2.0"
    if "method" in message:
        validator(BY_METHOD[message["method"]]).validate(message["params"])
    elif "error" in message:
        validator("Error").validate(message["error"])
    else:
        for name in response_types(message["result"]):
            validator(name).validate(message["result"])
    validator("RequestId").validate(message.get("id"))


COUNT = 0
for line in sys.stdin:
    try:
        check(json.loads(line))
    except Exception as error:
        sys.exit(f"{line}\n{error}")
    COUNT += 1
assert COUNT > 0
print(COUNT)
