"""Command ``privopt``. Its parts are imported after the interrupt handler is installed."""

from __future__ import annotations

import sys

from privopt.cli.interrupt import end_at_interrupt

__all__ = ["main"]


def main() -> None:
    """Run the command ``privopt``."""
    end_at_interrupt()
    try:
        from privopt.cli.commands import app
    except ModuleNotFoundError as error:
        if error.name not in ("rich", "typer"):
            raise
        sys.exit(f"privopt: {error}; the command comes with the extra lab: 'privopt[lab]'")
    app(prog_name="privopt")
