"""Record and replay: check that a run depends on the data through its releases only."""

from __future__ import annotations

from contextlib import ExitStack
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from privopt.arguments import instance
from privopt.audit.pairs import Pair
from privopt.core import Plan, Run, run
from privopt.random import as_key
from privopt.release import Pytree, Released, Replay, Tape

_COVERED = ("answer", "selection")  # covered by the guarantee; the rest is only compared


class _Record(NamedTuple):
    """Run and its calls of :func:`privopt.release.release`."""

    run: Run
    released: list[Released]

    def values(self, name: str) -> list[Pytree]:
        return [entry.value for entry in self.released if entry.name == name]


def replay(pair: Pair, *, key: Array) -> tuple[str, ...]:
    """Return the ways in which a run uses the data besides its noisy answers, as sentences.

    The result is empty if there are none. ``pair.plan`` runs on ``pair.one`` and is recorded. With
    its answers and selections replaced by the recorded ones, it runs twice more:

    - on ``pair.two``. Everything else must agree in every bit: the released point, the path, the
      noise, the batches and the number of releases. This detects a step size, a stopping rule or a
      branch that depends on the data.
    - on ``pair.one`` without noise (with another key if the noise is a law). Every answer must
      differ from the recorded one; otherwise it has no noise.

    The runs are not compiled, so a plan should have few steps. The data sets need not be
    neighbours. A
    leak of a property that both data sets share, such as the norm of a record, is not detected. A
    value that is released without a call of :func:`privopt.release.release` cannot be replaced, and
    is detected.

    Parameters
    ----------
    pair : Pair
        A plan and two problems.
    key : Array
        Typed key of JAX.

    Examples
    --------
    >>> from privopt import Budget
    >>> from privopt.audit import worst_pair
    >>> budget = Budget(epsilon=4.0, delta=1e-5, relation="replace_one")
    >>> replay(worst_pair("output_perturbation", budget), key=jax.random.key(0))
    ()
    """
    plan, one, two = instance("pair", pair, Pair)[:3]
    key = as_key(key)
    tape, law = Tape(), instance("plan", plan, Plan).algorithm.noise == "law"
    with tape:
        result = run(plan, one, key)
    record = _Record(result, tape.released)
    frozen = {name: record.values(name) for name in _COVERED}
    zero_noise = [jax.tree.map(np.zeros_like, noise) for noise in record.values("noise")]
    silent = {} if law else {"noise": zero_noise}
    other = jax.random.fold_in(key, 1) if law else key
    repetitions = (
        (_differences, "on the other data set", (two, key), (Tape(), Replay(**frozen))),
        (_noiseless, "without noise", (one, other), (Replay(**frozen), Tape(), Replay(**silent))),
    )
    faults: list[str] = []
    for compare, condition, arguments, contexts in repetitions:
        try:
            with ExitStack() as stack:
                for context in reversed(contexts):  # release calls the last one first
                    stack.enter_context(context)
                result = run(plan, *arguments)
        except ValueError as error:  # an error that depends on the data is a release
            faults.append(f"{condition} it fails: {error}")
            continue
        (released,) = (each.released for each in contexts if isinstance(each, Tape))
        faults += [f"{condition} {each}" for each in compare(record, _Record(result, released))]
    return tuple(faults)


def _differences(first: _Record, second: _Record) -> list[str]:
    """Return the differences of two runs with the same answers."""
    both = (first, second)
    values = {
        "the released point": [each.run.released for each in both],
        "the path": [each.run.path for each in both],
        "the order of releases": [[e.name for e in each.released] for each in both],
        "a batch": [each.values("batch") for each in both],
        "the noise": [each.values("noise") for each in both],
    }
    return [f"{name} differs" for name, pair in values.items() if not _same(*pair)]


def _noiseless(first: _Record, second: _Record) -> list[str]:
    """Return the answers that do not change with the noise."""
    answers = zip(first.values("answer"), second.values("answer"), strict=True)
    return [f"answer {i} does not change" for i, pair in enumerate(answers) if _same(*pair)]


def _same(one: Pytree, two: Pytree) -> bool:
    """Return True if two pytrees agree in structure and in every bit."""
    parts: list[tuple[object, list[bytes]]] = [
        (jax.tree.structure(each), [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(each)])
        for each in (one, two)
    ]
    return parts[0] == parts[1]
