"""Limits of time and memory of a call."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from typing import Any


class LimitError(Exception):
    """Reason why a call was stopped, as text."""


def limit_memory(gigabytes: float) -> None:
    """Limit the memory of this process, so that a larger allocation raises an error."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    most = int(min(gigabytes * 2**30, 0.5 * available))
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def within(seconds: float, call: Callable[[], Any]) -> Any:
    """Return the result of ``call``, or stop it between two instructions after ``seconds``."""

    def stop(number: int, frame: object) -> None:
        raise LimitError(f"takes more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return call()
    except MemoryError:
        raise LimitError("needs more memory than is allowed") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
