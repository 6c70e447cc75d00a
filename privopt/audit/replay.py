"""Record and replay: whether a run sees the data through its releases, and through nothing else."""

from __future__ import annotations

from contextlib import ExitStack
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from privopt.arguments import instance
from privopt.audit.pairs import Pair
from privopt.core import Plan, Run, run
from privopt.release import Pytree, Released, Replay, Tape

_COVERED = ("answer", "selection")  # by the guarantee; batches and noise are only compared


class _Told(NamedTuple):
    """A run, and what it handed to :func:`privopt.release.release`."""

    run: Run
    released: list[Released]

    def of(self, name: str) -> list[Pytree]:
        return [entry.value for entry in self.released if entry.name == name]


def replay(pair: Pair, *, key: Array) -> tuple[str, ...]:
    """What a run takes from the data beside its noisy answers, each in words; empty where nothing.

    ``pair.plan`` runs on ``pair.one`` and is recorded. With its answers and selections frozen to
    the recorded ones, it runs twice again:

    - on ``pair.two``. All else must agree in every bit: the released point, the path, the noise,
      the batches, and how many releases there are. So a step size, a stopping rule or a branch that
      looks at the data is found.
    - on ``pair.one`` with its noise off (where the noise is a law, with another key). Every answer
      that it would have given must differ from the recorded one, or it has no noise.

    Nothing is compiled, so a plan should have few steps. The data sets need not be neighbours; a
    leak by something that both have in common, such as the size of a record, is not seen. What is
    released and never handed to :func:`privopt.release.release` cannot be frozen, and is found.

    Examples
    --------
    >>> from privopt import Budget
    >>> from privopt.audit import worst_pair
    >>> budget = Budget(epsilon=4.0, delta=1e-5, relation="replace_one")
    >>> replay(worst_pair("output_perturbation", budget), key=jax.random.key(0))
    ()
    """
    plan, one, two = pair.plan, pair.one, pair.two
    tape, law = Tape(), instance("plan", plan, Plan).algorithm.noise == "law"
    with tape:
        found = run(plan, one, key)
    told = _Told(found, tape.released)
    frozen = {name: told.of(name) for name in _COVERED}
    silent = {} if law else {"noise": [jax.tree.map(np.zeros_like, z) for z in told.of("noise")]}
    other = jax.random.fold_in(key, 1) if law else key
    asked = (
        (_differences, "on the other data set", (two, key), (Tape(), Replay(**frozen))),
        (_bare, "without noise", (one, other), (Replay(**frozen), Tape(), Replay(**silent))),
    )
    faults: list[str] = []
    for compared, where, given, contexts in asked:
        try:
            with ExitStack() as stack:
                for context in reversed(contexts):  # the outermost hears first
                    stack.enter_context(context)
                found = run(plan, *given)
        except ValueError as error:  # a refusal that depends on data is a release too
            faults.append(f"{where} it fails: {error}")
            continue
        (heard,) = (each.released for each in contexts if isinstance(each, Tape))
        faults += [f"{where} {each}" for each in compared(told, _Told(found, heard))]
    return tuple(faults)


def _differences(told: _Told, again: _Told) -> list[str]:
    """Between two runs with the same answers."""
    compared = {
        "the released point": [each.run.released for each in (told, again)],
        "the path": [each.run.path for each in (told, again)],
        "the order of releases": [[e.name for e in each.released] for each in (told, again)],
        "a batch": [each.of("batch") for each in (told, again)],
        "the noise": [each.of("noise") for each in (told, again)],
    }
    return [f"{what} differs" for what, both in compared.items() if not _same(*both)]


def _bare(told: _Told, again: _Told) -> list[str]:
    """Answers that are what they were, although the noise is not."""
    answers = zip(told.of("answer"), again.of("answer"), strict=True)
    return [f"answer {i} stays as it is" for i, both in enumerate(answers) if _same(*both)]


def _same(one: Pytree, two: Pytree) -> bool:
    """In structure, and bit for bit."""
    parts: list[tuple[object, list[bytes]]] = [
        (jax.tree.structure(each), [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(each)])
        for each in (one, two)
    ]
    return parts[0] == parts[1]
