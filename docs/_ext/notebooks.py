"""Copies of the notebooks in the source folder of the book.

In a notebook, links to pages and results are paths in the repository. In the copy they lead to the
pages of the book.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from _ext.files import write_files

if TYPE_CHECKING:
    from sphinx.application import Sphinx

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def links_to_pages(text: str) -> str:
    """Replace the paths of links by the pages of the book."""
    text = re.sub(r"\]\(\.\./docs/", "](../", text)
    return re.sub(r"\]\(\.\./results/(\w+)/README\.md\)", r"](../results/\1.md)", text)


def copies() -> dict[str, str]:
    """Return the text of every notebook, by the name of its file."""
    files = {}
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = links_to_pages("".join(cell["source"]))
        files[path.name] = json.dumps(notebook)
    return files


def write(app: Sphinx) -> None:
    """Write the copies before Sphinx searches for source files."""
    write_files(Path(app.srcdir) / "notebooks", copies())


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
