"""Ctrl-C and SIGTERM: a clean end at any moment, that of imports and compilation included.

The interpreter delivers ``KeyboardInterrupt`` wherever it happens to be: an import may swallow it,
a compilation delays it, and its unwinding tears the runtime of XLA down under threads that still
use it, which ends in a segmentation fault. So nothing is unwound. Files are whole or absent
whenever a process ends (:func:`privopt.lab.make.store.write_file`), and locks end with it.

The standard library's lightest modules alone, for the time before this is in place is unguarded.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SAID = b"\nInterrupted. Every finished cell is safe: repeat the same command to continue.\n"
_SHOW_CURSOR = b"\x1b[?25h"


def end_at_interrupt() -> None:
    """From now on SIGINT and SIGTERM end the process with one line, whatever it is doing.

    The status is what a shell calls it, 128 and the number of the signal: 130 or 143. Must be
    called by the main thread. A signal that is ignored, as of a job in the background, stays so.
    """
    heeded = [each for each in _SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
    heard, told = os.pipe()
    os.set_blocking(told, False)
    threading.Thread(target=_wait, args=(heard, heeded), daemon=True).start()
    # The number of a signal is written in C at once, even while the main thread is not in Python.
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    for each in heeded:
        signal.signal(each, lambda *_: None)


def _wait(heard: int, heeded: list[signal.Signals]) -> None:
    while (number := os.read(heard, 1)[0]) not in heeded:
        pass
    show = _SHOW_CURSOR if sys.stderr is not None and os.isatty(2) else b""
    try:
        os.write(2, show + _SAID)
    finally:
        os._exit(128 + number)
