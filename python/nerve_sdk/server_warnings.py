"""What a server warns of."""

from __future__ import annotations

import warnings
from typing import List, Set

from .errors import NerveWarning

#: Texts of warnings that are remembered, so that each is told once.
KEPT_WARNINGS = 64


class Warner:
    """Tells each warning of a server once."""

    def __init__(self) -> None:
        self._told: Set[str] = set()

    def tell(self, texts: List[str]) -> None:
        """Warns in the name of who waits for the answer."""
        for text in texts:
            if text not in self._told and len(self._told) < KEPT_WARNINGS:
                self._told.add(text)
                warnings.warn(text, NerveWarning, stacklevel=4)
