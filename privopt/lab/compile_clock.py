"""How long JAX spends on tracing and compiling, apart from running."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import jax

__all__ = ["CompileClock", "compile_clock"]

_STAGES = "/jax/core/compile/"
_COMPILED = "/jax/core/compile/backend_compile_duration"


class CompileClock:
    """What was compiled since the clock was started.

    Attributes
    ----------
    seconds : float
        Time during which something was traced, lowered or compiled; nested stages count once.
    programs : list of str
        Names of the programs compiled.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.programs: list[str] = []
        self._stages: list[tuple[float, float]] = []

    def hear(self, event: str, duration_secs: float, **details: str | int) -> None:
        """Note one event of ``jax.monitoring``, which is told when its stage ends."""
        if not event.startswith(_STAGES):
            return
        if event == _COMPILED:
            self.programs.append(str(details.get("fun_name", "")))
        end = time.perf_counter()
        begin = end - duration_secs
        while self._stages and self._stages[-1][0] >= begin:
            inner = self._stages.pop()
            self.seconds -= inner[1] - inner[0]
        if self._stages:
            begin = max(begin, self._stages[-1][1])
        self._stages.append((begin, end))
        self.seconds += end - begin


@contextmanager
def compile_clock() -> Iterator[CompileClock]:
    """A clock that runs within the block."""
    clock = CompileClock()
    jax.monitoring.register_event_duration_secs_listener(clock.hear)
    try:
        yield clock
    finally:
        jax.monitoring.unregister_event_duration_listener(clock.hear)
