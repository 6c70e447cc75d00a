"""The results folder: marked as ours, and written so that no file is ever half there."""

from __future__ import annotations

import json
import os
import platform
import time
import uuid
from contextlib import suppress
from pathlib import Path

from privopt.arguments import shown

FORMAT = 1
MARKER = ".privopt"
_ABANDONED = 3600.0  # seconds


class ResultsError(Exception):
    """The results folder cannot be used, or written any further; the message says how to go on."""


def open_results(path: Path | str) -> Path:
    """The results folder at ``path``, made and marked if there is nothing yet.

    A folder that holds files but no marker of privopt's, or that was written in a newer format, is
    a ``ResultsError``, and nothing in it is touched.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_dir():
            raise ResultsError(f"results must be a folder, got the file {path}")
        if (path / MARKER).exists():
            return existing_results(path)
        if path.is_dir() and any(map(_is_foreign, path.iterdir())):
            raise ResultsError(
                f"results must be an empty folder or one that privopt made: {path} holds other "
                f"files and no {MARKER}. Nothing was touched; name another folder"
            )
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultsError(f"results folder {path} cannot be used: {error}") from error
    write_file(path / MARKER, json.dumps({"format": FORMAT}).encode() + b"\n")
    return path


def _is_foreign(entry: Path) -> bool:
    """Neither half written nor the marker, which another process may just have made."""
    return entry.suffix != ".tmp" and entry.name != MARKER


def existing_results(path: Path | str) -> Path:
    """The results folder at ``path``, which must be there already; see :func:`open_results`."""
    path = Path(path)
    try:
        text = (path / MARKER).read_text(encoding="utf-8")
        found = json.loads(text)["format"]
    except FileNotFoundError:
        raise ResultsError(f"{path} is no results folder of privopt: no {MARKER} in it") from None
    except OSError as error:
        raise ResultsError(f"results folder {path} cannot be read: {error}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise ResultsError(
            f'{path / MARKER} is damaged; it should read {{"format": {FORMAT}}}'
        ) from error
    if found != FORMAT:
        raise ResultsError(
            f"{path} must be of results format {FORMAT}, got {shown(found)}: "
            "use the version of privopt that wrote it, or another folder"
        )
    return path


def write_file(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` whole or not at all, whenever the process dies.

    What is there already is not written again, so that finished results can be read-only. Where the
    disk is full or refuses, whatever stood at ``path`` is unchanged.
    """
    partial = path.with_name(f"{path.name}.{platform.node()}.{uuid.uuid4().hex}.tmp")
    try:
        if path.is_file() and path.read_bytes() == data:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise ResultsError(
            f"{path} cannot be written: {error.strerror or error}. Every finished cell is safe; "
            "make room (or leave to write) and repeat the same command to continue"
        ) from error
    finally:
        with suppress(OSError):  # what remains is a .tmp file, which nothing reads
            partial.unlink(missing_ok=True)


def clear_partial(folder: Path) -> None:
    """Remove what killed processes have left half written; a file is written in seconds."""
    for path in folder.rglob("*.tmp"):
        with suppress(OSError):  # another process did, or the disk is read-only
            if time.time() - path.stat().st_mtime > _ABANDONED:
                path.unlink()
