"""Warnings about data that is probably not what the user meant."""

from __future__ import annotations

import warnings
from collections.abc import Iterable


class DataWarning(UserWarning):
    """The data is probably not what you meant, such as labels that differ only in spelling.

    ``warnings.simplefilter("ignore", DataWarning)`` silences these warnings, and ``"error"`` turns
    them into errors.
    """


def warn(notes: Iterable[str]) -> None:
    """Issue warnings that point to the caller of the calling function."""
    for note in notes:
        warnings.warn(note, DataWarning, stacklevel=3)
