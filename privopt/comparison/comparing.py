"""The call: an experiment of the lab is declared, run, and read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from jax import Array

from privopt.arguments import checked, positive_integer
from privopt.comparison.comparison import Comparison
from privopt.comparison.forecast import forecasting
from privopt.comparison.request import (
    axis_of,
    budget_of,
    experiment_of,
    family_of,
    methods_of,
    seed_of,
)
from privopt.lab.make.method import Method
from privopt.lab.make.records import read_provenance
from privopt.lab.make.resume import Progress, print_notes
from privopt.lab.make.run import run
from privopt.lab.plotting.recorded import read
from privopt.problems import Family, Problem
from privopt.random import as_key
from privopt.spec import Budget

MAX_STEPS = 1000
"""Of a default plan: those that ask for more are held to it, and told."""


@checked
def compare(
    problem: str | Family | Problem,
    algorithms: Sequence[str | Method] | None = None,
    *,
    budget: Budget | Sequence[Budget],
    key: Array,
    axis: str | None = None,
    values: Sequence[float] | None = None,
    n: int | None = None,
    dim: int | None = None,
    sparsity: int | None = None,
    replicates: int = 100,
    data_sets: int | None = None,
    tune: str | None = None,
    max_steps: int | None = MAX_STEPS,
    results: Path | str | None = None,
    progress: Progress = print_notes,
) -> Comparison:
    """Every algorithm that a problem's class admits, measured on it at one guarantee.

    What runs is an experiment of :mod:`privopt.lab`: methods share the data and draw noise of their
    own, optima are certified, refused plans keep their reasons. Excess risk is measured in float64.

    Parameters
    ----------
    problem : str, Family or Problem
        A kind of :func:`privopt.problems.synthetic` or a family by name, e.g. ``"logistic"``, with
        sizes ``n`` and ``dim``; a family, e.g. ``synthetic("logistic", conditioning=10.0)``; or a
        problem of your own, whose first ``n`` records are taken.
    algorithms : sequence of str or Method, optional
        Names in ``ALGORITHMS``, or methods with choices; by default every private one.
    budget : Budget, or several that differ in epsilon alone
        The relation is the budget's: there is no default.
    key : Array
        Typed key: the root of all randomness.
    axis, values : str and sequence of number, optional
        What is swept, ``"n"``, ``"dim"``, ``"sparsity"``, ``"epsilon"`` or ``"steps"``, with the
        rest as given.
    replicates, data_sets : int
        Runs of every method at every value, on so many data sets in equal shares: 5 by default,
        where the problem is a synthetic kind. Data sets are drawn by number and are the same for
        every ``key``; a population draws its records with every run's key.
    tune : {"oracle", "private"}, optional
        Default: the numbers of theory alone. ``"oracle"`` adds to each method its twin
        ``<name>_best`` of the best step size or regularisation of a grid, which looks at the risk:
        labelled *oracle-tuned*, and no winner. ``"private"`` adds ``<name>_tuned`` of
        :func:`privopt.tuned`, whose budget pays for every candidate and for the choice.
    max_steps : int or None
        Plans whose theory asks for more steps are held to this number, and are named. Their
        guarantees and bounds are those of the steps that they take.
    results : path, optional
        A folder of results, where a comparison that was interrupted goes on. By default nothing
        is kept.
    progress : callable, optional
        As in :func:`privopt.lab.run`; it is told a forecast of the work, too.

    Examples
    --------
    >>> import jax, privopt
    >>> found = compare(
    ...     "logistic", ["output_perturbation", "phased_sgd"], n=50, dim=2, replicates=4,
    ...     data_sets=2, key=jax.random.key(0), progress=lambda event: None,
    ...     budget=privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one"),
    ... )
    >>> len(found.points), found.refused
    (2, {})
    """
    key = as_key(key)
    replicates = positive_integer("replicates", replicates)
    budget, axis, values = budget_of(budget, axis, values)
    family = family_of(problem, data_sets, replicates)
    axes, methods = axis_of(family, axis, values), methods_of(algorithms, tune, max_steps)
    sizes = {"n": n, "dim": dim, "sparsity": sparsity}
    experiment = experiment_of(family, methods, budget, axes, sizes, replicates)
    with ExitStack() as stack:
        kept = results or stack.enter_context(TemporaryDirectory(prefix="privopt-"))
        done = run(
            experiment,
            profile="full",
            seed=seed_of(key),
            results=kept,
            progress=forecasting(progress, max_steps),
        )
        found = read(done.folder), axis, read_provenance(done.folder)
        return Comparison.of(*found, max_steps)
