"""Errors of clients and servers."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Type


class NerveError(Exception):
    """Any error of this package."""


class NerveWarning(UserWarning):
    """A warning from the server, for example about a deprecated name or an incomplete file."""


class NotRunningError(NerveError, ConnectionError):
    """No server listens at the address."""


class ConnectionClosedError(NerveError, ConnectionError):
    """The connection ended before the answer arrived. Requests with side effects are never repeated; `sent` tells whether this one was sent."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        #: True if the request was sent, so the command may take effect. If False, repeating it is safe.
        self.sent: bool = False
        #: The id of the request on the wire; None if there was no request.
        self.request_id: Optional[str] = None

    def __str__(self) -> str:
        reason = str(self.args[0])
        return f"{reason}; the command may still take effect" if self.sent else reason


class ProtocolError(NerveError):
    """The server sent an invalid message, or a request cannot be encoded."""


class ServerError(NerveError):
    """The server reported an error. Subclasses correspond to the values of `error_type`."""

    def __init__(self, message: str, data: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(message)
        data = data or {}
        #: The id of the request on the wire, if known.
        self.request_id: Optional[str] = None
        #: The error message.
        self.message: str = message
        #: The kind of error, as on the wire; empty if unknown.
        self.error_type: str = _text(data.get("error_type")) or ""
        #: What to do about the error.
        self.hint: Optional[str] = _text(data.get("hint"))
        #: The terminal's screen, if it explains the error.
        self.screen: Optional[str] = _text(data.get("screen"))
        #: The choices of the blocking dialog, if any.
        self.choices: List[str] = [str(choice) for choice in data.get("choices") or []]
        #: How far the prompt was delivered: `typed`, `submitted`, `started`, `unknown`.
        self.delivery: Optional[str] = _text(data.get("delivery"))
        #: The part of the answer that arrived before the turn failed.
        self.text: Optional[str] = _text(data.get("text"))
        #: All data of the error. For a failed run: `graph_id`, `run_id`, `state`, `results`, `trace`, `exceeded`.
        self.data: Dict[str, Any] = dict(data)

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InvalidRequestError(ServerError):
    """A parameter is wrong."""


class NotFoundError(ServerError):
    """The object does not exist."""


class AlreadyExistsError(ServerError):
    """The name is taken."""


class ProcessError(ServerError):
    """The program could not be started, or ended when it should not."""


class NodeStoppedError(ServerError):
    """The node is stopped or stopping."""


class BlockedError(ServerError):
    """A dialog must be answered first, see `choices`; or the node is suspended, see the message."""


class BusyError(ServerError):
    """Another turn is running, or the queue is full."""


class NerveTimeoutError(ServerError, TimeoutError):
    """The operation timed out."""


class TurnInterruptedError(ServerError):
    """The turn was interrupted."""


class DeliveryError(ServerError):
    """The delivery of the prompt could not be confirmed."""


class NoAnswerError(ServerError):
    """The agent showed no work and no answer."""


class IncompleteError(ServerError):
    """The answer is known or suspected to be incomplete."""


class RunCancelledError(ServerError):
    """The run was cancelled; `data` contains the completed steps."""


class BudgetExceededError(ServerError):
    """A budget is used up, see `data["exceeded"]`."""


class ApiError(ServerError):
    """A model's API, or an agent, answered with an error."""


class AuthenticationError(ServerError):
    """The token is missing or wrong, or a model's API refuses its key."""


class PermissionDeniedError(ServerError):
    """A model's API denies permission to this key."""


class RateLimitError(ServerError):
    """A model's API reached its rate limit."""


class NetworkError(ServerError):
    """The connection to a model's API failed."""


class TooLargeError(ServerError):
    """The answer is longer than a line of the wire."""


class InternalError(ServerError):
    """A bug of the server, or a broken machine."""


_BY_TYPE: Dict[str, Type[ServerError]] = {
    "invalid_request_error": InvalidRequestError,
    "not_found_error": NotFoundError,
    "already_exists_error": AlreadyExistsError,
    "process_error": ProcessError,
    "node_stopped": NodeStoppedError,
    "blocked": BlockedError,
    "busy": BusyError,
    "timeout": NerveTimeoutError,
    "interrupted": TurnInterruptedError,
    "delivery_error": DeliveryError,
    "no_answer": NoAnswerError,
    "incomplete": IncompleteError,
    "cancelled": RunCancelledError,
    "budget_exceeded": BudgetExceededError,
    "api_error": ApiError,
    "authentication_error": AuthenticationError,
    "permission_error": PermissionDeniedError,
    "rate_limit_error": RateLimitError,
    "network_error": NetworkError,
    "too_large": TooLargeError,
    "internal_error": InternalError,
}


def server_error(message: object, data: object) -> ServerError:
    """Creates the error of a failed result. An unknown kind is a plain `ServerError`."""
    fields = data if isinstance(data, Mapping) else {}
    kind = _BY_TYPE.get(_text(fields.get("error_type")) or "", ServerError)
    return kind(_text(message) or "the server gave no reason", fields)


def _text(value: object) -> Optional[str]:
    return value if isinstance(value, str) else None
