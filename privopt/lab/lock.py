"""Who works on a cell: one process at a time, so that several share a sweep."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from privopt.lab.folder import ResultsError

try:
    import fcntl
except ImportError:  # a system without: every process then makes every cell, as correctly
    fcntl = None  # type: ignore[assignment]

__all__ = ["claimed"]


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Whether the piece at ``path`` is ours to make; it is nobody else's within the block.

    The system holds the lock, on a file beside the piece, and drops it when its process ends in
    whatever way: a lock that is left behind is free. Only time depends on it: two processes that
    make one piece write the same rows, each of them whole or not at all.
    """
    beside = path.with_suffix(".lock")
    try:
        beside.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(beside, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise ResultsError(f"{beside} cannot be written: {error.strerror}") from error
    try:
        ours = _taken(file)
        yield ours
        if ours and path.exists():
            with suppress(OSError):
                beside.unlink()
    finally:
        os.close(file)


def _taken(file: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
