"""Reports the warnings of a server."""

from __future__ import annotations

import warnings
from typing import List, Set

from .errors import NerveWarning

#: Maximum number of remembered warnings.
MAX_WARNINGS = 64


class ServerWarnings:
    """Reports each warning of a server once."""

    def __init__(self) -> None:
        self._reported: Set[str] = set()

    def report(self, texts: List[str]) -> None:
        """Issues warnings, attributed to the caller of the request."""
        for text in texts:
            if text not in self._reported and len(self._reported) < MAX_WARNINGS:
                self._reported.add(text)
                warnings.warn(text, NerveWarning, stacklevel=4)
