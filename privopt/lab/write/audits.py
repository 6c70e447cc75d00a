"""The table and the picture of `privopt audit`, where a results folder holds them."""

from __future__ import annotations

import json
from pathlib import Path

from privopt.lab.write.document import Entry, Picture, Row, Table, in_words

_STEM = "audits/audits"
_OUTCOMES = {"kept": "holds", "refuted": "refuted", "blind": "undecided"}
_CAPTION = (
    "Attacks on complete algorithms and on single mechanisms: a certified lower bound on how far "
    "apart the releases of two neighbours are, over what the guarantee allows."
)


def audits(results: Path) -> tuple[list[Picture], list[Table]]:
    """Both, or none."""
    path = results / f"{_STEM}.json"
    if not path.is_file():
        return [], []
    found = json.loads(path.read_text(encoding="utf-8"))
    first = found[0]
    note = (
        f"({first['epsilon']:g}, {first['delta']:g})-DP, {first['relation']}, {first['runs']:,} "
        "runs on each data set. Above 1 a guarantee is refuted. Controls: the same attack where "
        "noise is smaller (half; a quarter where it says ¼), and where it is forgotten in 19 runs "
        "of 20, must be above 1. Made by `privopt audit --results results/audits`."
    )
    head = ("attacked", "found over claimed", "smaller noise", "forgotten noise", "verdict")
    table = Table("Audits", head, tuple(map(_row, found)), note)
    ratios = ", ".join(f"{each['name']} {each['attack']['ratio']:.2f}" for each in found)
    return [Picture(_STEM, _CAPTION, ratios, suffix=".png")], [table]


def _row(found: dict[str, object]) -> Row:
    ratios = {part: found[part]["ratio"] for part in ("attack", "weakened", "forgotten")}  # type: ignore[index]
    quarter = " (¼)" if found["control"] < 0.5 else ""  # type: ignore[operator]
    verdict = str(found["verdict"])
    return (
        Entry(in_words(str(found["name"]))),
        f"{ratios['attack']:.2f}",
        f"{ratios['weakened']:.2f}{quarter}",
        f"{ratios['forgotten']:.2f}",
        Entry(verdict, outcome=_OUTCOMES[verdict]),
    )
