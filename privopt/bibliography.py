"""The papers that privopt rests on, in ``references.bib``: BibTeX by key.

Standard library only. Code cites a paper by its key, prose by its authors and year.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from privopt.arguments import Catalogue, checked

__all__ = ["bibtex", "entries", "named_in"]


@checked
@cache
def entries() -> Mapping[str, str]:
    """Every entry by its key.

    Examples
    --------
    >>> len(entries()) > 50, entries()["nissim2007"].splitlines()[0]
    (True, '@inproceedings{nissim2007,')
    """
    text = (Path(__file__).parent / "references.bib").read_text(encoding="utf-8")
    found = re.finditer(r"^@\w+\{(\w+),.*?^\}$", text, flags=re.DOTALL | re.MULTILINE)
    return Catalogue("citation", ((each[1], each[0]) for each in found))


@checked
def bibtex(keys: Iterable[str]) -> str:
    """The entries of ``keys``, each once, in their order; a key may be an entry of your own.

    Examples
    --------
    >>> print(bibtex(["@misc{mine, title = {A theorem}}"]))
    @misc{mine, title = {A theorem}}
    """
    told = (key if key.startswith("@") else entries()[key] for key in keys)
    return "\n\n".join(dict.fromkeys(told))


@checked
def named_in(text: str) -> tuple[str, ...]:
    """Keys of the papers that ``text`` names by authors and year, in the order of the file.

    Accents do not count.

    Examples
    --------
    >>> named_in("Kifer, Smith and Thakurta 2012; Kairouz et al. 2021 (arXiv:2103.00039)")
    ('kairouz2021', 'kifer2012')
    """
    plain = _plain(text)
    first = r"(?<![a-z] and )(?<![a-z], )"  # no author stands before the first
    return tuple(
        key
        for key in entries()
        if any(re.search(first + re.escape(name), plain) for name in names(key))
    )


def names(key: str) -> tuple[str, str]:
    """How prose names the paper of ``key``: all authors and the year, and with "et al."."""
    entry = entries()[key]
    said, year = (re.search(rf"{field} = \{{(.*)\}},", entry) for field in ("author", "year"))
    assert said is not None
    assert year is not None
    authors = [author.split(",")[0] for author in _plain(said[1]).split(" and ")]
    whole = " and ".join(filter(None, (", ".join(authors[:-1]), authors[-1])))
    return f"{whole} {year[1]}", f"{authors[0]} et al. {year[1]}"


def _plain(text: str) -> str:
    """Without accents, on one line."""
    letters = unicodedata.normalize("NFD", text)
    return " ".join("".join(each for each in letters if not unicodedata.combining(each)).split())
