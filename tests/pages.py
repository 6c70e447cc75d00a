"""Python blocks of a Markdown page, run as by copy and paste."""

import contextlib
import io
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """Code and its printed output in the page, or None without output."""

    code: str
    told: str | None


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page):
    """Return the Python blocks of a page in order."""
    return [Block(*found.groups()) for found in BLOCK.finditer(text_of(page))]


def printed(block, page, names):
    """Run a block and return its output; ``names`` are its variables before and after."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(block.code, page, "exec"), names)
    return out.getvalue()
