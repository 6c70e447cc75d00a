"""BibTeX entries of ``references.bib`` by key.

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
    """Return every entry by its key.

    Examples
    --------
    >>> len(entries()) > 50, entries()["nissim2007"].splitlines()[0]
    (True, '@inproceedings{nissim2007,')
    """
    text = (Path(__file__).parent / "references.bib").read_text(encoding="utf-8")
    matches = re.finditer(r"^@\w+\{(\w+),.*?^\}$", text, flags=re.DOTALL | re.MULTILINE)
    return Catalogue("citation", ((each[1], each[0]) for each in matches))


@checked
def bibtex(keys: Iterable[str]) -> str:
    """Return the entries of ``keys`` without repetition; a key may also be a BibTeX entry.

    Examples
    --------
    >>> print(bibtex(["@misc{mine, title = {A theorem}}"]))
    @misc{mine, title = {A theorem}}
    """
    texts = (key if key.startswith("@") else entries()[key] for key in keys)
    return "\n\n".join(dict.fromkeys(texts))


@checked
def named_in(text: str) -> tuple[str, ...]:
    """Return the keys of papers that ``text`` names by authors and year, in the order of the file.

    Accents are ignored.

    Examples
    --------
    >>> named_in("Kifer, Smith and Thakurta 2012; Kairouz et al. 2021 (arXiv:2103.00039)")
    ('kairouz2021', 'kifer2012')
    """
    plain = _plain(text)
    first = r"(?<![a-z] and )(?<![a-z], )"  # no other author precedes the first
    return tuple(
        key
        for key in entries()
        if any(re.search(first + re.escape(name), plain) for name in names(key))
    )


def names(key: str) -> tuple[str, str]:
    """Return the name of a paper in prose: all authors and the year, and with "et al."."""
    entry = entries()[key]
    author, year = (re.search(rf"{field} = \{{(.*)\}},", entry) for field in ("author", "year"))
    assert author is not None
    assert year is not None
    authors = [name.split(",")[0] for name in _plain(author[1]).split(" and ")]
    whole = " and ".join(filter(None, (", ".join(authors[:-1]), authors[-1])))
    return f"{whole} {year[1]}", f"{authors[0]} et al. {year[1]}"


def _plain(text: str) -> str:
    """Return the text without accents, on one line."""
    letters = unicodedata.normalize("NFD", text)
    return " ".join("".join(each for each in letters if not unicodedata.combining(each)).split())
