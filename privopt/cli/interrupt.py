"""Clean end at Ctrl-C and SIGTERM, also during imports and compilation.

Python raises ``KeyboardInterrupt`` anywhere: an import may swallow it, a compilation delays it, and
unwinding destroys the XLA runtime while threads still use it, which ends in a segmentation fault.
So the stack is not unwound. Files are complete or absent at any time, and locks end with the
process.

Only light modules of the standard library are imported, because signals are not handled before.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_MESSAGE = b"\nInterrupted. Every finished cell is safe: repeat the same command to continue.\n"
_SHOW_CURSOR = b"\x1b[?25h"


def end_at_interrupt() -> None:
    """Set handlers that end the process with one line at SIGINT and SIGTERM.

    The exit status is 128 plus the number of the signal, as in a shell: 130 or 143. The main thread
    must call this. Ignored signals, as in a background job, stay ignored.
    """
    handled = [each for each in _SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    threading.Thread(target=_wait, args=(reading, handled), daemon=True).start()
    # C code writes the number of a signal at once, even if the main thread is not in Python.
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for each in handled:
        signal.signal(each, lambda *_: None)


def _wait(reading: int, handled: list[signal.Signals]) -> None:
    while (number := os.read(reading, 1)[0]) not in handled:
        pass
    show = _SHOW_CURSOR if sys.stderr is not None and os.isatty(2) else b""
    try:
        os.write(2, show + _MESSAGE)
    finally:
        os._exit(128 + number)
