"""The command ``privopt``; its parts are loaded once it can be interrupted."""

from __future__ import annotations

from privopt.cli.interrupt import end_at_interrupt

__all__ = ["main"]


def main() -> None:
    """Entry point of the command ``privopt``."""
    end_at_interrupt()
    from privopt.cli.commands import app

    app(prog_name="privopt")
