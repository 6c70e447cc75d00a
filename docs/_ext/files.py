"""Generated source files of the book."""

from __future__ import annotations

from pathlib import Path


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Write the files of ``folder`` and delete its other files.

    A file that does not change is not written, so that Sphinx does not read it again.
    """
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path.is_file() and path.name not in files:
            path.unlink()
    for name, text in files.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
