"""l1 recovery: a mean of sparse vectors from few noisy measurements, by basis pursuit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from privopt.algorithms.choices import MODES, Static, require_delta
from privopt.algorithms.one_shot import Params, planned
from privopt.algorithms.projection_mechanism import Secret, check_paper, rate_of, rate_with
from privopt.algorithms.projection_mechanism import run as run_projection
from privopt.arguments import count, member, shown
from privopt.convex import EmpiricalRisk
from privopt.core import Algorithm, Execution, Plan, Run, planner
from privopt.mechanisms import ClippedMean, CompressedMean, ProjectedMean
from privopt.privacy.calibration import CALIBRATIONS
from privopt.release import Pytree
from privopt.spec import Budget, ProblemClass
from privopt.streams import stream
from privopt.theory import Rate, l1_recovery_rate

_LEAST = 8  # measurements, below which nothing is compressed
_SMALL, _LARGE = 1e-50, 1e50


@planner
def l1_recovery(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    mode: str = "tight",
    calibration: str = "mixture",
    measurements: int | None = None,
    matrix: ArrayLike | None = None,
    clip: float | None = None,
) -> Plan:
    """Plan l1 recovery: ``argmin {|z|_1 : A z = A zbar + N(0, sigma^2 I_m)}``, projected.

    For squared distances with sparse records, whose minimiser is their mean ``zbar``. The matrix
    ``A`` of ``m`` rows is drawn from the run's public coins. A baseline: the projection mechanism
    is cheaper and measured to be no worse.

    Whether anything is compressed follows from public numbers alone. With ``m`` left out, the
    projection mechanism onto ``K'`` takes over where ``s >= d``, ``m >= d``, ``d < m ln^2 m`` (no
    theorem on recovery from noise of unknown size) or ``m < 8``.

    Parameters
    ----------
    problem_class : ProblemClass
        With ``sparsity``, the ``s`` of every record.
    budget : Budget
        ``delta > 0``.
    mode : {"tight", "paper"}
        In the paper's mode ``sigma^2 = 18 L^2 ln(2.5/delta)/(n epsilon)^2`` (``replace_one``), for
        ``epsilon <= 1``; refused where it is not private, which happens at tiny ``m``.
    calibration : {"mixture", "renyi", "split"}
        Of the tight mode: the least noise, or what two simpler proofs give
        (:func:`privopt.privacy.compressed_noise_multiplier`).
    measurements : int, optional
        ``m``, from 1 to ``d - 1``; default ``floor(n epsilon sqrt(s ln(d/s)/ln(1/delta)))``.
    matrix : array, optional
        ``A``, shape ``(m, d)``, public and fixed before the data are seen: it may be used again.
        The sensitivity is then ``2 L kappa/n`` with ``kappa`` certified
        (:func:`privopt.mechanisms.compressed_mean.largest_gain`).
    clip : float, optional
        ``L``, as in the projection mechanism.

    Formal guarantee
    ----------------
    The clipped mean has sensitivity ``2L/n`` (``replace_one``), half that under the other
    relations; compressed by a fresh matrix that is released too, it is a mixture of Gaussian
    mechanisms whose shift is ``sqrt(chi2_m/m)`` times that of the mean: for all data.

    Rate
    ----
    ``C L (s ln(d/s) ln(1/delta))^{1/4}/sqrt(n epsilon)`` for the error, its square for the risk,
    with ``C`` unknown where ``d >= m ln^2 m``.

    Source: Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), theorem 3.4, with
    the condition on a restricted isometry dropped: see :class:`privopt.mechanisms.CompressedMean`.
    The point is projected onto ``K'`` where the paper has a gate at ``2L``.

    Examples
    --------
    >>> facts = ProblemClass(n=64, dim=4096, lipschitz=2.0, radius=1.0, smoothness=1.0,
    ...                      strong_convexity=1.0, sparsity=4)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> l1_recovery(facts, budget).params.mechanism.measurements
    90
    """
    require_delta("l1_recovery", budget)
    member("mode", mode, MODES)
    member("calibration", calibration, CALIBRATIONS)
    if problem_class.sparsity is None:
        raise ValueError("sparsity must be declared for l1_recovery, got None")
    if mode == "paper":
        check_paper(budget)
        calibration = "published"
        if matrix is not None:
            raise ValueError("matrix must be left out for mode='paper', whose matrix is fresh")
    query = ClippedMean.of(problem_class, clip)
    given = None if matrix is None else _checked_matrix(matrix, measurements, problem_class.dim)
    rows = measurements if given is None else given.shape[0]
    rows = _rows(problem_class, budget) if rows is None else _checked_rows(rows, problem_class.dim)
    mechanism: CompressedMean | ProjectedMean
    if rows is None:
        mechanism = ProjectedMean.calibrated(query, budget, classic=mode == "paper")
    else:
        mechanism = CompressedMean.calibrated(
            query, budget, measurements=rows, calibration=calibration, matrix=given
        )
    return planned(L1_RECOVERY, problem_class, budget, mechanism)


def rate(plan: Plan) -> Rate:
    """Of what the body allows; or of the projection mechanism, where it has taken over."""
    params: Any = plan.params
    (mechanism,), facts = params, plan.problem_class
    if isinstance(mechanism, ProjectedMean):
        return rate_of(facts, mechanism)
    query = mechanism.query
    return rate_with(facts, query, l1_recovery_rate(facts, clip=query.l2_clip))


def _rows(problem_class: ProblemClass, budget: Budget) -> int | None:
    """``m``, or None where nothing is compressed: of public numbers alone."""
    sparsity, dim = problem_class.sparsity, problem_class.dim
    assert sparsity is not None
    if sparsity >= dim:
        return None
    spread = sparsity * math.log(dim / sparsity) / math.log(1.0 / budget.delta)
    rows = math.floor(problem_class.n * budget.epsilon * math.sqrt(spread))
    if rows < _LEAST or rows >= dim or dim < rows * math.log(rows) ** 2:
        return None
    return rows


def _checked_rows(rows: object, dim: int) -> int:
    rows = count("measurements", rows)
    if rows >= dim:
        raise ValueError(f"measurements must be below dim = {dim}, got {rows}")
    return rows


def _checked_matrix(matrix: ArrayLike, rows: object, dim: int) -> NDArray[np.float64]:
    if rows is not None:
        raise ValueError(f"measurements must be left out beside matrix, got {shown(rows)}")
    try:
        given = np.asarray(matrix)
    except ValueError:
        raise ValueError(f"matrix must have shape (m, {dim}), got rows of many lengths") from None
    if given.dtype.kind not in "fiu":
        raise ValueError(f"matrix must hold real numbers, got dtype {given.dtype}")
    array = given.astype(np.float64)
    if array.ndim != 2 or array.shape[1] != dim or array.shape[0] == 0:
        raise ValueError(f"matrix must have shape (m, {dim}), got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError("matrix must be finite, got entries that are not")
    largest = float(np.abs(array).max())
    if not _SMALL <= largest <= _LARGE:  # whose products are neither 0 nor infinite
        raise ValueError(
            f"matrix must have its largest entry in [1e-50, 1e50], got {shown(largest)}"
        )
    return array


def coins(static: Static, params: Params, key: Array) -> Pytree:
    """The matrix, which is public."""
    mechanism = params.mechanism
    return mechanism.draw(key, static.dim) if isinstance(mechanism, CompressedMean) else ()


def run(
    static: Static,
    params: Params,
    objective: EmpiricalRisk,
    key: Array,
    execution: Execution,
    matrix: Array,
) -> Run:
    """Clip, add up, measure with noise, recover, project."""
    mechanism = params.mechanism
    if isinstance(mechanism, ProjectedMean):
        return run_projection(static, params, objective, key, execution)
    mean = mechanism.query.mean_of(objective)
    measured = mechanism.measure(stream(key, "noise"), matrix, mean)
    found = objective.constraint.project(mechanism.recover(matrix, measured))
    return Run(found, Secret(mean, mechanism.query.clipped(objective)))


L1_RECOVERY = Algorithm(
    name="l1_recovery",
    summary="few noisy measurements of a mean of sparse vectors, recovered by basis pursuit",
    plan=l1_recovery,
    mechanism=CompressedMean | ProjectedMean,
    run=run,
    rate=rate,
    float64=True,
    coins=coins,
    cites=("ghazi2024",),
)
