"""What can go wrong between a client and its server."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Type


class NerveError(Exception):
    """Any error of this package."""


class NerveWarning(UserWarning):
    """What a server warned of: an older name that was used, a file that could not be read whole."""


class NotRunningError(NerveError, ConnectionError):
    """Nobody listens where a server was looked for."""


class ConnectionClosedError(NerveError, ConnectionError):
    """The connection ended before the answer came. What changes something is never sent twice: `sent` says whether it was sent at all."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        #: Something of the request had gone out: it may have been done. If not, it was not done, and asking again is safe.
        self.sent: bool = False
        #: The id of the request on the wire; None where nothing was asked.
        self.request_id: Optional[str] = None

    def __str__(self) -> str:
        reason = str(self.args[0])
        return f"{reason}; what was asked may have been done" if self.sent else reason


class ProtocolError(NerveError):
    """What came is not what a nerve server sends, or what should go cannot be sent."""


class ServerError(NerveError):
    """The server could not or would not do it. Its subclasses tell which kind of error it is."""

    def __init__(self, message: str, data: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(message)
        data = data or {}
        #: The id of the request on the wire, where it is known which one failed.
        self.request_id: Optional[str] = None
        #: What happened, to what.
        self.message: str = message
        #: Which kind, as the wire names it; empty if the server says none.
        self.error_type: str = _text(data.get("error_type")) or ""
        #: What to do about it.
        self.hint: Optional[str] = _text(data.get("hint"))
        #: What the terminal showed, where that explains it.
        self.screen: Optional[str] = _text(data.get("screen"))
        #: The choices of the dialog that blocks, if one does.
        self.choices: List[str] = [str(choice) for choice in data.get("choices") or []]
        #: How far a prompt came: `typed`, `submitted`, `started`, `unknown`.
        self.delivery: Optional[str] = _text(data.get("delivery"))
        #: All the server said. Of a run that failed: `graph_id`, `run_id`, `status`, `results`, `trace`, `exceeded`.
        self.data: Dict[str, Any] = dict(data)

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InvalidRequestError(ServerError):
    """A parameter is wrong."""


class NotFoundError(ServerError):
    """There is no such thing."""


class AlreadyExistsError(ServerError):
    """The name is taken."""


class ProcessError(ServerError):
    """The program could not be started, or ended when it should not."""


class NodeStoppedError(ServerError):
    """The node is stopped or stops."""


class BlockedError(ServerError):
    """A dialog must be answered first, see `choices`; or the node is suspended, see the message."""


class BusyError(ServerError):
    """Another turn runs, or the queue is full."""


class NerveTimeoutError(ServerError, TimeoutError):
    """Not done in time."""


class TurnInterruptedError(ServerError):
    """Somebody interrupted it."""


class DeliveryError(ServerError):
    """The prompt could not be shown to have arrived."""


class RunCancelledError(ServerError):
    """The run was cancelled; `data` has what was done."""


class BudgetExceededError(ServerError):
    """A budget is used up, see `data["exceeded"]`."""


class ApiError(ServerError):
    """A model's API, or an agent, answered with an error."""


class AuthenticationError(ServerError):
    """The token is missing or wrong, or a model's API refuses its key."""


class PermissionDeniedError(ServerError):
    """A model's API does not allow it to this key."""


class RateLimitError(ServerError):
    """A model's API was asked too often."""


class NetworkError(ServerError):
    """The server has no connection to a model's API, or it broke."""


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
    """The error of a result that is a failure. A kind this package does not know is a plain `ServerError`."""
    fields = data if isinstance(data, Mapping) else {}
    kind = _BY_TYPE.get(_text(fields.get("error_type")) or "", ServerError)
    return kind(_text(message) or "the server gave no reason", fields)


def _text(value: object) -> Optional[str]:
    return value if isinstance(value, str) else None
