"""A lease on a piece of work, which is nobody else's for a while, on this machine or another."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from privopt.lab.make.folder import ResultsError

try:
    import fcntl
except ImportError:  # a system without: a run that died there is noticed as on another machine
    fcntl = None  # type: ignore[assignment]

BEAT = 15.0
"""Seconds between the signs of life of who holds a lease."""

LAPSE = 120.0
"""Seconds without a sign after which a lease is anyone's; network folders tell of it late."""

_PLACE = platform.node().encode()
_HEARD: dict[Path, tuple[int, float]] = {}  # of others' leases: the last sign, and when we saw it


@contextmanager
def leased(piece: Path) -> Iterator[bool]:
    """Whether ``piece`` is ours to make; it is nobody else's within the block.

    The lease is a file beside the piece, made by one process alone. Its holder touches it every
    ``BEAT`` seconds, and it lapses when that has not been seen for ``LAPSE`` seconds on the watch
    of who waits; clocks are not compared. On one machine the system tells at once that a holder has
    ended. Only time depends on all this: two processes that make one piece write the same rows,
    each of them whole or not at all.
    """
    path = piece.with_suffix(".lease")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _take(path)
    except OSError as error:
        raise ResultsError(f"{path} cannot be written: {error.strerror}") from error
    if file is None:
        yield False
        return
    ended = threading.Event()
    living = threading.Thread(target=_live, args=(file, ended), daemon=True)
    living.start()
    try:
        yield True
    finally:
        ended.set()
        living.join()
        with suppress(OSError):
            if os.path.samestat(os.fstat(file), path.stat()):  # and not of who took it over
                path.unlink()
        os.close(file)


def _take(path: Path) -> int | None:
    """The open file of a lease that is ours now, or ``None`` while another one holds it."""
    for _ in range(2):
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            if not _is_free(path):
                return None
            with suppress(FileNotFoundError):
                path.unlink()
        else:
            _lock(file)
            os.write(file, _PLACE)
            _HEARD.pop(path, None)
            return file
    return None


def _is_free(path: Path) -> bool:
    """Whether who holds the lease has ended, or has not been heard of for long."""
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        here = os.read(file, len(_PLACE) + 1) == _PLACE
        sign = os.fstat(file).st_mtime_ns
        if here and _lock(file):
            return True
    finally:
        os.close(file)
    heard, since = _HEARD.setdefault(path, (sign, time.monotonic()))
    if heard != sign:
        _HEARD[path] = sign, time.monotonic()
        return False
    return time.monotonic() - since > LAPSE


def _lock(file: int) -> bool:
    """Whether no living process of this machine holds the file; it is then ours."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held, or a file system without locks
        return False
    return True


def _live(file: int, ended: threading.Event) -> None:
    while not ended.wait(BEAT):
        with suppress(OSError, TypeError):  # a system that touches no open file
            os.utime(file)
