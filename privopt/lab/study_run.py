"""Running a study: every part that is not there yet, then the table of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import pyarrow as pa

from privopt.arguments import instance, member
from privopt.lab import records
from privopt.lab.environment import code_fingerprint, environment
from privopt.lab.experiment import PROFILES, check_name
from privopt.lab.folder import open_results
from privopt.lab.parquet import read_kept
from privopt.lab.resume import Piece, Progress, SweepResult, conclude, resume
from privopt.lab.study import Part, Study
from privopt.lab.user_code import user_code
from privopt.privacy import Interval

__all__ = ["run_study"]

_OURS = ("experiment", "part", "profile")


def run_study(
    study: Study,
    *,
    profile: str,
    results: Path | str,
    progress: Progress = lambda event: None,
) -> SweepResult:
    """Compute every part of a study that is not there yet and write its table.

    As with a sweep, each finished part is kept at once, under a key of everything that changes it,
    the code of its function included; whenever it is interrupted, the same call continues and
    arrives at the same table to the bit.

    Parameters
    ----------
    study : Study
    profile : {"quick", "full"}
    results : path
        A folder that is empty, absent, or made by privopt.
    progress : callable, optional
        Told of every event; nothing is printed here.

    Raises
    ------
    ValueError
        If a part gives no rows, or something else than numbers, texts, ``None`` and intervals, or
        lacks a quantity that is claimed or shown.
    ResultsError
        If ``results`` is not ours or cannot be written; finished parts stay.
    """
    instance("study", study, Study)
    member("profile", profile, PROFILES)
    folder = open_results(results)
    made_by: dict[str, Any] = {"environment": environment(), "code": code_fingerprint()}

    def piece(part: Part) -> Piece:
        key = part.key(user_code=user_code(study.parts[part.name]), **made_by)
        return Piece(
            part,
            records.cell_path(folder, study.name, key),
            measure=lambda: _rows(part, study.parts[part.name](profile)),
            read=partial(read_kept, fits=lambda rows: rows.num_rows > 0),
        )

    parts = [Part(study.name, name, profile) for name in study.parts]
    tables, reused = resume(study.name, [piece(part) for part in parts], progress)
    for part, quantity in study.shown.quantities():
        _check_quantity(part, quantity, tables[list(study.parts).index(part)])
    return conclude(
        records.table_path(folder, study.name),
        _joined(tables),
        {
            "name": study.name,
            "title": study.title,
            "description": study.description,
            "profile": profile,
            "study": study.shown.to_json(),
        },
        list(zip(parts, tables, strict=True)),
        reused,
        made_by,
    )


def _rows(part: Part, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The rows of a part, with its name."""
    found = [_flat(part.name, row) for row in rows]
    if not found:
        raise ValueError(f"part {part.name} must give at least one row, got none")
    names = dict.fromkeys(name for row in found for name in row)
    ours = {"experiment": part.experiment, "part": part.name, "profile": part.profile}
    columns = {name: [row.get(name) for row in found] for name in names}
    columns |= {name: [value] * len(found) for name, value in ours.items()}
    with _one_kind(f"part {part.name}"):
        table = pa.table({name: columns[name] for name in (*_OURS, *names)})
    return table.cast(pa.schema([_settled(field) for field in table.schema]))


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """All parts one after another; what a part does not give is null in its rows."""
    with _one_kind("all parts"):
        return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


@contextmanager
def _one_kind(where: str) -> Iterator[None]:
    """Say in our words what Arrow cannot put into one column."""
    try:
        yield
    except pa.ArrowException as error:
        raise ValueError(
            f"quantities of one name must be of one kind, numbers or texts, in {where}: {error}"
        ) from error


def _flat(part: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as plain values; an interval as its two ends."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        check_name(f"quantity of {part}", name)
        if name in _OURS:
            raise ValueError(f"quantity of {part} must not be one of {', '.join(_OURS)}: {name}")
        match value:
            case Interval():
                flat |= {f"{name}_lower": value.lower, f"{name}_upper": value.upper}
            case None | str():
                flat[name] = value
            case Integral() if not isinstance(value, bool):
                flat[name] = int(value)
            case Real() if not isinstance(value, bool):
                flat[name] = float(value)
            case _:
                raise ValueError(
                    f"{name} of {part} must be a number, a text, None or an Interval, got {value!r}"
                )
    return flat


def _settled(field: pa.Field) -> pa.Field:
    """Numbers of a column that has none yet are float64."""
    return field.with_type(pa.float64()) if pa.types.is_null(field.type) else field


def _check_quantity(part: str, quantity: str, table: pa.Table) -> None:
    names = table.column_names
    if quantity not in names and f"{quantity}_lower" not in names:
        raise ValueError(f"quantity must be one that part {part} gives, got {quantity!r}")
