"""Progress and log of long work."""

from __future__ import annotations

import logging
from collections.abc import Callable

logger = logging.getLogger("classify_knn")

#: Called with a stage ("fit: read", "fit: left out") and the number of documents done.
Progress = Callable[[str, int], object]


def report(progress: Progress | None):
    """A function for the compiled part to call: texts are logged, numbers given to `progress`."""

    def call(stage: str, done: int | None, text: str | None) -> None:
        if text is not None:
            logger.info("%s", text)
        elif progress is not None and done is not None:
            progress(stage, done)

    return call
