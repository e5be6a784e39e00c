"""Progress and log messages of long operations."""

from __future__ import annotations

import logging
from collections.abc import Callable

logger = logging.getLogger("classify_knn")

#: Called with a stage ("fit: read", "fit: held out") and the number of documents done.
Progress = Callable[[str, int], object]


def report(progress: Progress | None):
    """Return a callback for the compiled part, which logs messages and reports progress."""
    if progress is not None and not callable(progress):
        raise TypeError(
            f"progress={progress!r}: expected a function of a stage and a number of documents"
        )

    def call(stage: str, done: int | None, text: str | None) -> None:
        if text is not None:
            logger.info("%s", text)
        elif progress is not None and done is not None:
            progress(stage, done)

    return call
