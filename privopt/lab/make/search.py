"""The search for the best numbers of a method, free of theory: a pilot, and the choice it makes.

Numbers set by theory hand their exponents on to what is measured. Here every candidate of an
absolute grid is run at every strength of a hard family, and the one of least worst mean is taken.
The runs that are then measured are fresh, so their mean is that of the chosen candidate without
bias, and its expectation is at least the minimum over the grid: a pilot of few replicates may miss
the best candidate, and what it takes instead is worse, by about the standard error of the
difference of two pilot means. All candidates draw the same noise, which makes that error small.
A setting costs candidates times strengths times ``PILOT`` runs, and again under every trial: with
the noise off or bent the best numbers are others.

What is found is *oracle-tuned*: it looks at risks that a private method never sees.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from numpy.typing import NDArray

from privopt.core import Plan, run_many
from privopt.lab.make.job import Candidate, Job, Search, steps_of
from privopt.lab.make.keys import replicate_keys, stream
from privopt.lab.make.method import Choice, size

PILOT = 32
"""Runs of every candidate at every strength."""


@dataclass(frozen=True)
class Chosen:
    """What a search has found."""

    candidate: Candidate
    at_edge: tuple[str, ...]  # choices at an end of the grid, beyond which a better one may lie
    candidates: int  # so many were tried

    @property
    def told(self) -> str:
        """As JSON."""
        chosen = {name: size(told) for name, told in self.candidate.choices.items()}
        found = {"chosen": chosen, "at_edge": self.at_edge, "candidates": self.candidates}
        return json.dumps(found, sort_keys=True)


def choose(search: Search, seed: int) -> Chosen:
    """The candidate of least worst mean over the strengths; a mean that is not finite is worst.

    The pilot has keys of its own, named by experiment, method, family, setting and strength: the
    same call finds the same candidate, whichever cell of the setting asks first.
    """
    tried = search.candidates
    means = np.stack([_means(i, job, tried, seed) for i, job in enumerate(search.jobs)])
    worst = np.where(np.isfinite(means), means, np.inf).max(axis=0)
    best = tried[int(np.argmin(worst))]
    at_edge = tuple(name for name, values in search.grid if _is_edge(best.choices[name], values))
    return Chosen(best, at_edge, len(tried))


def _is_edge(value: Choice, values: Sequence[Choice]) -> bool:
    numbers = [each for each in map(size, values) if isinstance(each, int | float)]
    return bool(numbers) and size(value) in (min(numbers), max(numbers))


def _means(number: int, job: Job, tried: Sequence[Candidate], seed: int) -> NDArray[np.float64]:
    """Of every candidate at one strength."""
    cell = job.cell
    keys = replicate_keys(stream(cell.trial.root(seed), role="pilot", **cell.identity), PILOT)
    plans = [candidate.plans[number] for candidate in tried]
    means = np.empty(len(plans))
    for alike in _alike(plans):
        together = [plans[i] for i in alike]
        found = run_many(
            together, job.problem, keys, common_random_numbers=True, execution=job.execution
        )
        every = found.released.reshape(-1, *found.released.shape[2:])
        values = job.quantity.measure(job.problem, found._replace(released=every))
        means[alike] = np.asarray(values).reshape(len(alike), PILOT).mean(axis=1)
    return means


def _alike(plans: Iterable[Plan]) -> list[list[int]]:
    """The numbers of the plans that run as one program, stacked, and for equally many steps."""
    groups = defaultdict(list)
    for number, plan in enumerate(plans):
        structure = jax.tree.structure(plan.params)
        groups[plan.static, structure, steps_of(plan)].append(number)
    return list(groups.values())
