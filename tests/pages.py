"""Python blocks of a Markdown page, run in order as by copy and paste."""

import contextlib
import io
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """Code and the output that the page shows below it, or None."""

    code: str
    output: str | None


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page):
    """Return the Python blocks of a page."""
    return [Block(*match.groups()) for match in BLOCK.finditer(text_of(page))]


def printed(block, page, names):
    """Run a block in the namespace ``names`` and return its output."""
    names.setdefault("__name__", "__main__")  # classes and functions need a module
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(block.code, page, "exec"), names)
    return out.getvalue()


def code_lines(block):
    """Return the lines of a block that are not empty."""
    return [line for line in block.code.splitlines() if line.strip()]
