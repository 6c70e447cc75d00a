"""Measuring a cell: replicated runs, block by block, and one number a run."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from privopt.core import Plan, run_many
from privopt.lab.make.bench import Bench
from privopt.lab.make.job import Job
from privopt.lab.make.keys import replicate_keys, stream
from privopt.lab.make.records import Value


def measure(job: Job, bench: Bench) -> tuple[dict[str, NDArray[np.generic]], dict[str, Value]]:
    """The columns of its runs, in float64, and what is measured of a cell as a whole.

    Noise is named by experiment, method, family, setting and strength, and within that by the
    replicate: more replicates, other axes, another delta or a control change no key. A
    population's records are drawn with the same key as the noise.
    """
    cell, plan = job.cell, job.plan
    with jax.enable_x64(True):
        facts: dict[str, Value] = {**bench.facts(job)}
        if job.search is not None:
            chosen = bench.chosen(job.search)
            plan, facts["searched"] = job.search.plan(chosen.candidate, job), chosen.told
        key = stream(cell.trial.root(bench.seed), role="noise", **cell.identity)
        values = np.concatenate(list(_values(job, plan, key)))[: cell.replicates]
    return {"replicate": np.arange(cell.replicates), "value": values}, facts


def _values(job: Job, plan: Plan, key: Array) -> Iterator[NDArray[np.float64]]:
    """What the runs are measured by, a block at a time; the last block is whole, too."""
    for first in range(0, job.cell.replicates, job.cell.block):
        keys = replicate_keys(key, job.cell.block, first)
        found = run_many([plan], job.problem, keys, group=job.cell.group, execution=job.execution)
        values = job.quantity.measure(job.problem, found._replace(released=found.released[0]))
        yield np.asarray(values, np.float64)
