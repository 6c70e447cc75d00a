"""Population risk of noisy descent that sees records again: by uniform stability."""

from __future__ import annotations

import math

from scipy.stats import binom

from privopt.spec import ProblemClass
from privopt.theory.largest_excess import largest_excess
from privopt.theory.rate import GIVEN_STEPS, Powers, Quantity, Rate, Term, add
from privopt.theory.steps import ALL_RECORDS, Moments, batch_moments

__all__ = [
    "descent_population_rate",
    "descent_population_step_size",
    "generalisation_gap",
]


def generalisation_gap(
    problem_class: ProblemClass,
    *,
    steps: int,
    step_size: float,
    batch_size: float | None = None,
    sampler: str = "without_replacement",
) -> float:
    """How much better the average of noisy descent fits its own records than their population.

    ``w_{t+1} = Proj(w_t - eta (g_t + z_t))`` for ``t = 1..T``, ``w`` the mean of ``w_1..w_{T+1}``,
    records independent, ``z_t`` and the batches independent of them::

        E F_P(w) - E F(w) <= eta L^2 T/n                              H-smooth, eta <= 2/H,
        E F_P(w) - E F(w) <= eta L^2 (4 sqrt(a T)/3 + 2 T/n)          whatever the smoothness,

    ``a`` the second moment of the batches (:func:`batch_moments`).

    *Derivation.* Draw record ``i`` again: in the mean over ``i`` the left side is the difference
    of the loss of that record with and without, at most ``L E D`` with ``D`` the distance between
    the two runs, of the same noise and the same batches. They differ by a vector ``e_t`` of the
    gradients at one point, ``E |e_t| <= 2 L/n``: of length ``2 L/b`` with chance ``b/n``.

    *Smooth.* A step along ``b`` or fewer gradients over ``b`` does not expand distances while
    ``eta <= 2/H``, nor does the projection: ``E D_{t+1} <= E D_t + 2 eta L/n``, so that ``D_t`` is
    ``2 eta L (t - 1)/n`` in the mean and that of the average ``eta L T/n``. A Poisson batch of
    more than ``2 b/(eta H)`` records may expand; with the chance ``T P(Bin(n, b/n) > 2 b/(eta H))``
    that there is one, ``2 L R`` is lost at most.

    *Not smooth.* Subgradients ``g``, ``g'`` of one batch have ``<g - g', w - w'> >= 0``, so ::

        E D_{t+1}^2 <= E D_t^2 + 2 eta E |e_t| E D_t + eta^2 E |g - g' + e_t|^2
                    <= E D_t^2 + (4 eta L/n) E D_t + 4 eta^2 a L^2,

    as ``e_t`` is drawn without a look at ``D_t``. ``x^2 <= A^2 + B x`` gives ``x <= A + B`` for the
    largest ``x`` so far: ``E D_t <= 2 eta L sqrt(a (t - 1)) + 4 eta L (t - 1)/n``, and the mean
    over ``t`` of ``sqrt(t - 1)`` is at most ``2 sqrt(T)/3``.

    Parameters
    ----------
    problem_class : ProblemClass
    steps, step_size : int, float
        ``T`` and ``eta``.
    batch_size : float, optional
        ``b``; default all records.
    sampler : str
        ``"without_replacement"`` or ``"poisson"``.

    Source: Hardt, Recht and Singer 2016 (arXiv:1509.01240), Theorem 3.8, and Bassily, Feldman,
    Talwar and Guha Thakurta 2019 (arXiv:1908.09970) for smooth losses; Bassily, Feldman, Guzman and
    Talwar 2020 (arXiv:2006.06914), Lemma 3.1, without. Constants, averages and Poisson batches are
    derived here.

    Examples
    --------
    >>> smooth = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0, smoothness=0.5)
    >>> generalisation_gap(smooth, steps=25, step_size=0.4)
    0.1
    >>> sharp = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0)
    >>> round(generalisation_gap(sharp, steps=25, step_size=0.4), 4)
    2.8667
    """
    lipschitz, smoothness = problem_class.lipschitz, problem_class.smoothness
    size = problem_class.n if batch_size is None else batch_size
    moments = _moments(problem_class, batch_size, sampler)
    unit = step_size * lipschitz**2
    gap = unit * _not_smooth(problem_class, steps, moments)
    if smoothness is not None and step_size * smoothness <= 2.0:
        overfull = 0.0
        if sampler == "poisson" and smoothness > 0.0:
            most = math.floor(2.0 * size / (step_size * smoothness))
            overfull = steps * float(binom.sf(most, problem_class.n, size / problem_class.n))
        lost = 2.0 * lipschitz * problem_class.radius * overfull if overfull > 0.0 else 0.0
        gap = min(gap, unit * steps / problem_class.n + lost)
    return gap


def descent_population_step_size(
    problem_class: ProblemClass,
    *,
    steps: int,
    noise_std: float,
    batch_size: float | None = None,
    sampler: str = "without_replacement",
) -> float:
    """Where :func:`descent_population` is least among steps of one kind.

    ``R/sqrt((T + 1) Q)``, ``Q = a L^2 + d sigma^2 + 2 L^2 T/n`` for smooth losses, at most ``2/H``,
    or ``1/H`` for Poisson batches, which may be twice as full as their mean then; with ``L^2 (8
    sqrt(a T)/3 + 4 T/n)`` at the end of ``Q`` for losses that are not smooth.

    Examples
    --------
    >>> smooth = ProblemClass(n=48, dim=4, lipschitz=1.0, radius=1.0, smoothness=0.5)
    >>> round(descent_population_step_size(smooth, steps=24, noise_std=0.0), 6)
    0.141421
    """
    moments = _moments(problem_class, batch_size, sampler)
    best, smoothness = _best(problem_class, steps, noise_std, moments), problem_class.smoothness
    most = 1.0 if sampler == "poisson" and batch_size is not None else 2.0
    return min(best, most / smoothness) if smoothness else best


def descent_population_rate(
    problem_class: ProblemClass,
    *,
    steps: int,
    noise_std: float,
    batch_size: float | None = None,
    sampler: str = "without_replacement",
    steps_powers: Powers = GIVEN_STEPS,
    lower: float = 0.0,
) -> Rate:
    """The rate of :func:`descent_population` at :func:`descent_population_step_size`.

    For smooth losses, unless smoothness caps the step::

        E F_P(w) - F_P* <= R sqrt((a L^2 + d sigma^2 + 2 L^2 T/n)/(T + 1)),

    at most ``L R sqrt(a/T + 2/n + 4 d/(n mu)^2)`` with ``sigma = 2 L sqrt(T)/(n mu)``.

    Parameters
    ----------
    problem_class, steps, noise_std, batch_size, sampler
        As for :func:`descent_population`.
    steps_powers : Powers
        How ``T`` moves with the axes; by default it is an axis of its own.
    lower : float
        From :func:`privopt.theory.population_lower_bound`.

    Examples
    --------
    >>> smooth = ProblemClass(n=48, dim=4, lipschitz=1.0, radius=1.0, smoothness=0.5)
    >>> rate = descent_population_rate(smooth, steps=24, noise_std=0.0)
    >>> round(rate.upper, 6), rate.quantity.value
    (0.282843, 'population risk')
    """
    facts, moments = problem_class, _moments(problem_class, batch_size, sampler)
    step_size = descent_population_step_size(
        facts, steps=steps, noise_std=noise_std, batch_size=batch_size, sampler=sampler
    )
    smooth, best = facts.smoothness is not None, _best(facts, steps, noise_std, moments)
    gap = generalisation_gap(
        facts, steps=steps, step_size=step_size, batch_size=batch_size, sampler=sampler
    )
    square, moved = facts.lipschitz**2, Powers(n=-2.0, dim=1.0, epsilon=-2.0) + steps_powers
    seen_again = (2.0 if smooth else 4.0) * square * steps / facts.n
    parts = [
        Term("noise", facts.dim * noise_std**2, moved),
        Term("generalisation", seen_again, Powers(n=-1.0) + steps_powers),
        Term("gradients", moments.second_moment * square),
    ]
    if not smooth:
        kinks = 8.0 / 3.0 * square * math.sqrt(moments.second_moment * steps)
        parts.append(Term("kinks", kinks, 0.5 * steps_powers))
    left = gap - 0.5 * step_size * sum(part.value for part in parts if part.name in _OF_GAP)
    tuned = math.isclose(step_size, best, rel_tol=_ROUND_OFF) and left <= _ROUND_OFF * gap
    if tuned:
        factor, powers = facts.radius / math.sqrt(steps + 1.0), -0.5 * steps_powers
        terms = [
            Term(part.name, factor * math.sqrt(part.value), 0.5 * part.powers + powers)
            for part in parts
        ]
    else:
        terms = [Term(part.name, 0.5 * step_size * part.value, part.powers) for part in parts]
        start = facts.radius**2 / (2.0 * step_size * (steps + 1.0))
        terms += [
            Term("start", start, -1.0 * steps_powers),
            Term("overfull", max(left, 0.0)),
        ]
    return Rate(
        quantity=Quantity.POPULATION_RISK,
        theorem="E F_P(w) - F_P* <= R sqrt((a L^2 + d sigma^2 + 2 L^2 T/n)/(T + 1))",
        source="Hardt, Recht and Singer 2016 (arXiv:1509.01240); Bassily, Feldman, Guzman and "
        "Talwar 2020 (arXiv:2006.06914); constants derived here",
        terms=tuple(term for term in terms if term.value > 0.0),
        combine=math.hypot if tuned else add,
        cap=largest_excess(facts),
        lower=lower,
        regime="noise leading, sqrt(d) sigma >= 7 L and sqrt(2 d n) >= 35 n mu, at fixed steps",
    )


_OF_GAP = ("generalisation", "kinks")
_ROUND_OFF = 1e-9


def _moments(facts: ProblemClass, batch_size: float | None, sampler: str) -> Moments:
    if batch_size is None:
        return ALL_RECORDS
    moments = batch_moments(sampler, n=facts.n, batch_size=batch_size)
    if moments is None:
        raise ValueError(f"sampler must be without_replacement or poisson, got {sampler!r}")
    return moments


def _not_smooth(facts: ProblemClass, steps: int, moments: Moments) -> float:
    """The gap over ``eta L^2``."""
    return 4.0 / 3.0 * math.sqrt(moments.second_moment * steps) + 2.0 * steps / facts.n


def _best(facts: ProblemClass, steps: int, noise_std: float, moments: Moments) -> float:
    smooth = facts.smoothness is not None
    gap = steps / facts.n if smooth else _not_smooth(facts, steps, moments)
    square = facts.lipschitz**2 * (moments.second_moment + 2.0 * gap) + facts.dim * noise_std**2
    return facts.radius / math.sqrt(square * (steps + 1.0))
