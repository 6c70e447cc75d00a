"""A results table whose truth is known: exact power laws with multiplicative noise of mean 1."""

import json

import numpy as np
import pyarrow as pa
import pytest

from privopt.lab.make.records import COLUMNS

SWEPT = {
    "n": (500, 1000, 2000, 4000, 8000),
    "dim": (4, 8, 16, 32, 64),
    "epsilon": (0.25, 0.5, 1.0, 2.0, 4.0),
}
BASE = {"n": 2000, "dim": 16, "epsilon": 1.0}
EXPONENTS = {"n": -1.0, "dim": 0.5, "epsilon": -1.0}
PLAN = {
    "choices": {"steps": 100},
    "rate": {
        "theorem": "E F(w) - F* <= R G / sqrt(T)",
        "source": "Bassily, Smith and Thakurta 2014, Theorem 2.4",
        "regime": "sqrt(d) <= n mu",
    },
}


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
    algorithm="dp_gd",
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
    drift=0.0,
    correction=0.0,
    tight_on="linear",
    experiment="toy",
    checks=("bound", "slope"),
    seed=0,
):
    """One row a replicate; mean ``c_s n^a d^b eps^c`` with ``max c_s = 0.01`` at base.

    ``true`` are the exponents of the means, ``exponents`` what the rate claims; ``drift`` is the
    exponent with which epsilon/mu moves along epsilon. A ``correction`` multiplies every mean by
    ``1 + correction r``, ``r`` the noise ratio.
    """
    rng = np.random.default_rng(seed)
    true = exponents if true is None else true
    rows = []
    for family in families:
        for point, served in points(axes):
            law = 0.01 * np.prod([(point[a] / BASE[a]) ** true.get(a, 0.0) for a in BASE])
            noise_ratio = 4.0 * point["dim"] ** 0.5 / (point["n"] * point["epsilon"])
            law *= 1.0 + correction * noise_ratio
            for strength, factor in zip(strengths, profile_of_strength, strict=True):
                noise = np.exp(spread * rng.normal(size=replicates) - spread**2 / 2)
                for replicate, risk in enumerate(factor * law * noise):
                    rows.append(
                        {
                            "experiment": experiment,
                            "algorithm": algorithm,
                            "family": family,
                            **point,
                            "delta": 1e-6,
                            "relation": "replace_one",
                            "mu": point["epsilon"] ** (1.0 - drift) / 4.0,
                            "strength": strength,
                            "replicate": replicate,
                            "excess_risk": risk,
                            "reference_gap": gap,
                            "reference_value": 0.1,
                            "upper": bound * law,
                            "lower": 0.05 * law,
                            "start_risk": 0.2,
                            "nonprivate_risk": 0.1 * law,
                            "spent_epsilon_upper": point["epsilon"],
                            "steps": 100,
                            "axes": ",".join(served),
                            "tight_on": tight_on,
                            "exponents": json.dumps(exponents),
                            "root_seed": 7,
                            "profile": "quick",
                            "plan": json.dumps(PLAN),
                        }
                    )
    about = {
        "name": experiment,
        "title": f"Title of {experiment}",
        "description": f"What {experiment} shows, with `code` & <signs>.",
        "checks": checks,
        "axes": axes,
        "profile": "quick",
        "root_seed": 7,
        "replicates": replicates,
    }
    table = pa.Table.from_pylist(rows, schema=COLUMNS)
    return table.replace_schema_metadata({b"privopt": json.dumps(about).encode()})


@pytest.fixture(scope="session")
def synthetic():
    """``synthetic(**truth) -> pyarrow.Table``."""
    return build
