"""The Python blocks of a page of Markdown, run as its reader would, by copy and paste."""

import contextlib
import io
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """Code, and what the page says below that it prints; None if it says nothing."""

    code: str
    told: str | None


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page):
    """Every Python block of a page, in its order."""
    return [Block(*found.groups()) for found in BLOCK.finditer(text_of(page))]


def printed(block, page, names):
    """What a block prints; it reads and leaves ``names``."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(block.code, page, "exec"), names)
    return out.getvalue()
