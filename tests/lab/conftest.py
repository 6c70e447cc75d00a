"""Synthetic results with known truth: exact power laws with multiplicative noise of mean 1."""

import json
import math
from html.parser import HTMLParser
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from privopt.lab import Recorded
from privopt.lab.evaluation.cells import CellResult
from privopt.lab.runner.cells import BEND, Trial, bent
from privopt.lab.runner.experiment import block_of
from privopt.lab.runner.store import CELLS, RUNS

SWEPT = {
    "n": (500, 1000, 2000, 4000, 8000),
    "dim": (4, 8, 16, 32, 64),
    "epsilon": (0.25, 0.5, 1.0, 2.0, 4.0),
}
BASE = {"n": 2000, "dim": 16, "epsilon": 1.0}
EXPONENTS = {"n": -1.0, "dim": 0.5, "epsilon": -1.0}
PLAN = {
    "rate": {
        "theorem": "E F(w) - F* <= R G / sqrt(T)",
        "source": "Bassily, Smith and Thakurta 2014, Theorem 2.4",
        "regime": "sqrt(d) <= n mu",
        "quantity": "empirical risk",
    },
}


NO_RATE = {"rate": {**PLAN["rate"], "theorem": "none: no theorem"}}


def points(axes):
    """Every setting of a sweep with the axes that it serves."""
    found = {}
    for axis, values in axes.items():
        for value in values:
            point = {**BASE, axis: value}
            found.setdefault(tuple(point.items()), []).append(axis)
    return [(dict(point), served) for point, served in found.items()]


def build(
    *,
    methods=("dp_gd",),
    families=("linear",),
    axes=SWEPT,
    exponents=EXPONENTS,
    true=None,
    strengths=(1.0, 2.0, 4.0),
    profile_of_strength=(0.5, 1.0, 0.7),
    spread=0.25,
    replicates=40,
    bound=2.0,
    gap=0.0,
    tight_on="linear",
    experiment="toy",
    checks=("bound", "slope"),
    off=1e-6,
    bend=BEND,
    seed=0,
):
    """Build results with mean ``c_s n^a d^b eps^c`` and ``max c_s = 0.01`` at base.

    ``true`` contains the exponents of the means, ``exponents`` those of the rate. Without noise the
    share ``off`` of the mean remains. Noise that is bent along an axis adds ``bend`` to its
    exponent. Control runs share their random numbers with the measured runs.
    """
    rng, others = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    true = exponents if true is None else true
    settings = product(
        methods, families, points(axes), list(zip(strengths, profile_of_strength, strict=True))
    )
    cells, runs = [], []

    def add(cell, normal, mean, **told):
        noise = np.exp(spread * normal[: cell["replicates"]] - spread**2 / 2)
        for replicate, value in enumerate(mean * noise):
            runs.append({"cell": len(cells), "replicate": replicate, "value": value})
        cells.append({**cell, "cell": len(cells), **told})

    for method, family, (point, served), (strength, factor) in settings:
        law, claimed = (
            0.01 * np.prod([(point[a] / BASE[a]) ** powers.get(a, 0.0) for a in BASE])
            for powers in (true, exponents)
        )
        cell = {
            "experiment": experiment,
            "method": method,
            "algorithm": "dp_gd",
            "family": family,
            **point,
            "delta": 1e-6,
            "relation": "replace_one",
            "mu": point["epsilon"] / 4.0,
            "strength": strength,
            "trial": Trial.MEASURED,
            "noise_factor": 1.0,
            "choices": json.dumps({"steps": 100}),
            "axes": ",".join(served),
            "replicates": replicates,
            "root_seed": 7,
            "profile": "quick",
            "quantity": "empirical risk",
            "upper": bound * claimed,
            "lower": 0.05 * law,
            "in_regime": True,
            "exponents": json.dumps(exponents),
            "tight_on": tight_on,
            "steps": 100,
            "spent_epsilon_upper": point["epsilon"],
            "plan": json.dumps(PLAN if bound < math.inf else NO_RATE),
            "reference_value": 0.1,
            "reference_gap": gap,
            "start_value": 0.2,
            "nonprivate_value": 0.1 * law,
        }
        normal = rng.normal(size=replicates)
        add(cell, normal, factor * law)
        if "slope" in checks and served:
            cell |= {"replicates": block_of(replicates)}
            second = others.normal(size=block_of(replicates))
            add(cell, second, factor * law, trial=Trial.SECOND_KEY, root_seed=8)
            cell |= {"spent_epsilon_upper": None}
            add(cell, normal, off * factor * law, trial=Trial.NOISE_OFF, noise_factor=0.0)
            for axis in served:
                grown = (point[axis] / BASE[axis]) ** bend
                told = {"axes": axis, "noise_factor": bent(point[axis] / BASE[axis], exponents)}
                add(cell, normal, grown * factor * law, trial=Trial.NOISE_BENT, **told)
    about = {
        "name": experiment,
        "title": f"Title of {experiment}",
        "description": f"What {experiment} shows, with `code` & <signs>.",
        "checks": checks,
        "swept": list(axes),
        "profile": "quick",
        "root_seed": 7,
        "replicates": replicates,
    }
    tables = (pa.Table.from_pylist(rows, of) for rows, of in ((cells, CELLS), (runs, RUNS)))
    return Recorded(about, *tables)


def change(recorded, column, new):
    """``recorded`` with one column rewritten by ``new(row) -> value``, rows as in ``table()``."""
    where = "cells" if column in CELLS.names else "runs"
    table = getattr(recorded, where)
    rows = (recorded.cells if where == "cells" else recorded.table()).to_pylist()
    field = table.schema.field(column)
    values = pa.array([new(row) for row in rows], field.type)
    return recorded._replace(
        **{where: table.set_column(table.column_names.index(column), field, values)}
    )


def sweep_cells(
    trial=Trial.MEASURED,
    *,
    true=-1.0,
    target=-1.0,
    bound=-1.0,
    axis="n",
    values=SWEPT["n"],
    strengths=(1.0, 0.7),
    scale=0.01,
    spread=0.1,
    replicates=40,
    seed=0,
    **facts,
):
    """Return cells with mean ``strengths[s] * scale * (value/base)^true`` at each value.

    The bound has slope ``bound``. ``facts`` are fields of the cells; they and ``scale`` are numbers
    or functions of the value.
    """
    rng = np.random.default_rng([seed, list(Trial).index(trial)])
    found = []
    for value in values:
        ratio = value / BASE[axis]
        told = {name: fact(value) if callable(fact) else fact for name, fact in facts.items()}
        size = scale(value) if callable(scale) else scale
        for number, share in enumerate(strengths):
            noise = np.exp(spread * rng.normal(size=replicates) - spread**2 / 2)
            fields = {
                "experiment": "toy",
                "method": "dp_gd",
                "algorithm": "dp_gd",
                "family": "linear",
                "setting": {**BASE, axis: value},
                "strength": 2.0**number,
                "delta": 1e-6,
                "relation": "replace_one",
                "mu": value / 4.0 if axis == "epsilon" else 0.25,
                "quantity": "empirical risk",
                "values": share * size * ratio**true * noise,
                "gap": 0.0,
                "upper": 2.0 * size * ratio**bound,
                "lower": 0.0,
                "own_lower": 0.0,
                "own_guarantee": "",
                "start": 0.2,
                "nonprivate": 0.0,
                "exponents": {axis: target},
                "tight_on": "linear",
                "axes": frozenset({axis}),
                "root_seed": 7,
                "trial": trial,
                "in_regime": True,
                "law": None,
                "searched": None,
                "private": True,
            }
            found.append(CellResult(**{**fields, **told}))
    return found


@pytest.fixture(scope="session")
def cells_of():
    """``cells_of(trial, **truth) -> list of CellResult``: one sweep, without tables."""
    return sweep_cells


@pytest.fixture(scope="session")
def synthetic():
    """``synthetic(**truth) -> Recorded``."""
    return build


@pytest.fixture(scope="session")
def replaced():
    """``replaced(recorded, column, new) -> Recorded``: another column, by its rows."""
    return change


@pytest.fixture(scope="session")
def shuffled():
    """``shuffled(recorded) -> Recorded``: the same rows in another order."""

    def shuffle(recorded):
        rng = np.random.default_rng(0)
        cells, runs = (
            table.take(rng.permutation(table.num_rows)) for table in (recorded.cells, recorded.runs)
        )
        return Recorded(recorded.about, cells, runs)

    return shuffle


@pytest.fixture(scope="session")
def tables():
    """``tables(result) -> list of bytes``: both tables of a run."""
    return lambda result: [
        (result.folder / f"{name}.parquet").read_bytes() for name in ("cells", "runs")
    ]


@pytest.fixture(scope="session")
def contents():
    """``contents(folder) -> dict``: the bytes of every file below a folder."""
    return lambda folder: {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


class Page(HTMLParser):
    """Parser for the tags, ids, links and pictures of a page; all tags must match."""

    VOID = ("meta", "img", "source", "br", "link", "wbr", "input")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.links, self.pictures = [], [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found[name] for name in ("href", "src", "srcset") if name in found]
        self.pictures += [found["alt"]] if tag == "img" else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="session")
def parsed():
    """``parsed(text) -> Page``; fails on tags that do not match."""
    return Page
