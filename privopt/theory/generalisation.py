"""Generalisation: population risk of private methods and of descent with repeated records.

``w`` is released from ``n`` independent records. ``F`` is the empirical and ``F_P`` the population
risk.
"""

from __future__ import annotations

import math

from scipy.stats import binom

from privopt.arguments import checked, shown
from privopt.spec import ProblemClass
from privopt.theory.rate import GIVEN_STEPS, Exponents, Quantity, Rate, Term, add, largest_excess
from privopt.theory.steps import ALL_RECORDS, Moments, batch_moments

_GAP_TERMS = ("generalisation", "kinks")
_ROUND_OFF = 1e-9
_ROUNDS = 50  # of a fixed point; each round more than halves the error


@checked
def expected_generalisation(epsilon: float, delta: float, *, spread: float) -> float:
    """Return a bound of ``|E F_P(w) - E F(w)|`` for an ``(epsilon, delta)``-DP release.

    The bound is ``spread min(1, e^epsilon - 1 + delta)`` under ``replace_one``, for losses in an
    interval of length ``spread``. At ``epsilon = 0``, ``delta`` is the total variation distance of
    neighbours and the bound is smallest. Proof: :ref:`Accountants, Theorem 1
    <theory-accountants-1>`. Source: Bassily, Nissim, Smith, Steinke, Stemmer and Ullman 2016
    (arXiv:1511.02513), Section 3.

    Examples
    --------
    >>> round(expected_generalisation(0.1, 1e-6, spread=2.0), 4)
    0.2103
    """
    return spread * min(1.0, math.expm1(min(epsilon, 1.0)) + delta)


@checked
def information_generalisation(information: float, *, n: int, spread: float) -> float:
    """Return ``spread sqrt(I/(2 n))``, a bound of ``|E F_P(w) - E F(w)|``.

    ``I`` is the mutual ``information`` of the records and ``w``, in nats. It is at most ``n rho``
    for a ``rho``-zCDP release under ``replace_one`` and ``n mu^2/2`` for ``mu``-Gaussian DP. Losses
    are in an interval of length ``spread``. Proof: :ref:`Accountants, Theorem 2
    <theory-accountants-2>`. Sources: Xu and Raginsky 2017 (arXiv:1705.07809), Theorem 1; Bun and
    Steinke 2016 (arXiv:1605.02065), Proposition 1.4.

    Examples
    --------
    >>> information_generalisation(2.0, n=100, spread=1.0)
    0.1
    """
    return spread * math.sqrt(information / (2.0 * n))


@checked
def generalisation_gap(
    problem_class: ProblemClass,
    *,
    steps: int,
    step_size: float,
    batch_size: float | None = None,
    sampler: str = "without_replacement",
) -> float:
    """Return a bound of ``E F_P(w) - E F(w)`` for the average of noisy descent, by stability.

    ``w`` is the mean of ``w_1..w_{T+1}``, ``w_{t+1} = Proj(w_t - eta (g_t + z_t))``. Records are
    independent; ``z_t`` and the batches are independent of them::

        E F_P(w) - E F(w) <= eta L^2 T/n                              H-smooth, eta <= 2/H,
        E F_P(w) - E F(w) <= (eta L^2 T/(2 n)) (1 + 1.18 h + h^2/3)   and all records,
        E F_P(w) - E F(w) <= eta L^2 (4 sqrt(a T)/3 + 2 T/n)          without smoothness,

    with ``h = eta H T/n`` and the second moment ``a`` of the batches (:func:`batch_moments`). For
    Poisson batches and smooth losses, ``2 L R`` times the probability of a batch with more than ``2
    b/(eta H)`` records is added. Proof: :ref:`Descent, Theorem 8 <theory-descent-8>`. Source:
    Hardt, Recht and Singer 2016 (arXiv:1509.01240), Theorem 3.8; Bassily, Feldman, Talwar and Guha
    Thakurta 2019 (arXiv:1908.09970); Bassily, Feldman, Guzman and Talwar 2020 (arXiv:2006.06914),
    Lemma 3.1; constants derived here.

    ``batch_size`` is ``b``, by default all records; ``sampler`` is ``"without_replacement"`` or
    ``"poisson"``.
    """
    lipschitz, smoothness = problem_class.lipschitz, problem_class.smoothness
    size = problem_class.n if batch_size is None else batch_size
    moments = _moments(problem_class, batch_size, sampler)
    unit = step_size * lipschitz**2
    gap = unit * _not_smooth(problem_class, steps, moments)
    if smoothness is not None and step_size * smoothness <= 2.0:
        overfull = 0.0  # probability of a batch whose step may expand distances
        if sampler == "poisson" and smoothness > 0.0:
            most = math.floor(2.0 * size / (step_size * smoothness))
            overfull = steps * float(binom.sf(most, problem_class.n, size / problem_class.n))
        extra = 2.0 * lipschitz * problem_class.radius * overfull if overfull > 0.0 else 0.0
        share = _share(problem_class, steps, step_size, batch_size)
        gap = min(gap, share * unit * steps / problem_class.n + extra)
    return gap


@checked
def descent_population_step_size(
    problem_class: ProblemClass,
    *,
    steps: int,
    noise_std: float,
    batch_size: float | None = None,
    sampler: str = "without_replacement",
) -> float:
    """Return the minimiser of :func:`descent_population_rate`, or a step within 1 % of the minimum.

    ``R/sqrt((T + 1) Q)`` with ``Q = a L^2 + d sigma^2 + 2 c L^2 T/n`` for smooth losses, at most
    ``2/H``, or ``1/H`` for Poisson batches. ``c`` is 1, or the factor for all records in
    :func:`generalisation_gap`. Without smoothness the last term of ``Q`` is ``L^2 (8 sqrt(a T)/3 +
    4 T/n)``.
    """
    best = _best(problem_class, steps, noise_std, batch_size, sampler)
    smoothness = problem_class.smoothness
    most = 1.0 if sampler == "poisson" and batch_size is not None else 2.0
    return min(best, most / smoothness) if smoothness else best


@checked
def descent_population_rate(
    problem_class: ProblemClass,
    *,
    steps: int,
    noise_std: float,
    batch_size: float | None = None,
    sampler: str = "without_replacement",
    steps_powers: Exponents = GIVEN_STEPS,
) -> Rate:
    """Return the excess population risk of the average of noisy descent.

    ``E F_P(w) - F_P* <= R^2/(2 eta (T + 1)) + eta G^2/2`` (:func:`privopt.theory.descent_rate`)
    ``+`` :func:`generalisation_gap`, at :func:`descent_population_step_size`. For smooth losses,
    if the step is below its cap::

        E F_P(w) - F_P* <= R sqrt((a L^2 + d sigma^2 + 2 c L^2 T/n)/(T + 1)),

    at most ``L R sqrt(a/T + 2 c/n + 4 d/(n mu)^2)`` with ``sigma = 2 L sqrt(T)/(n mu)``.

    ``noise_std`` is ``sigma``, per coordinate of the mean gradient. ``steps_powers`` are the
    exponents of ``T`` in the axes; by default ``T`` is an axis.

    Examples
    --------
    >>> smooth = ProblemClass(n=48, dim=4, lipschitz=1.0, radius=1.0, smoothness=0.5)
    >>> rate = descent_population_rate(smooth, steps=24, noise_std=0.0)
    >>> round(rate.upper, 6), rate.quantity.value
    (0.246912, 'population risk')
    """
    facts, moments = problem_class, _moments(problem_class, batch_size, sampler)
    step_size = descent_population_step_size(
        facts, steps=steps, noise_std=noise_std, batch_size=batch_size, sampler=sampler
    )
    smooth = facts.smoothness is not None
    best = _best(facts, steps, noise_std, batch_size, sampler)
    gap = generalisation_gap(
        facts, steps=steps, step_size=step_size, batch_size=batch_size, sampler=sampler
    )
    square = facts.lipschitz**2
    by_noise = Exponents(n=-2.0, dim=1.0, epsilon=-2.0) + steps_powers
    share = _share(facts, steps, step_size, batch_size) if smooth else 2.0
    generalisation = 2.0 * share * square * steps / facts.n
    parts = [
        Term("noise", facts.dim * noise_std**2, by_noise),
        Term("generalisation", generalisation, Exponents(n=-1.0) + steps_powers),
        Term("gradients", moments.second_moment * square),
    ]
    if not smooth:
        kinks = 8.0 / 3.0 * square * math.sqrt(moments.second_moment * steps)
        parts.append(Term("kinks", kinks, 0.5 * steps_powers))
    overfull = gap - 0.5 * step_size * sum(part.value for part in parts if part.name in _GAP_TERMS)
    tuned = math.isclose(step_size, best, rel_tol=_ROUND_OFF) and overfull <= _ROUND_OFF * gap
    if tuned:
        factor, powers = facts.radius / math.sqrt(steps + 1.0), -0.5 * steps_powers
        terms = [part.root(factor, powers) for part in parts]
    else:
        terms = [part.times(0.5 * step_size) for part in parts]
        start = facts.radius**2 / (2.0 * step_size * (steps + 1.0))
        terms += [Term("start", start, -1.0 * steps_powers), Term("overfull", max(overfull, 0.0))]
    return Rate(
        quantity=Quantity.POPULATION_RISK,
        theorem="E F_P(w) - F_P* <= R sqrt((a L^2 + d sigma^2 + 2 c L^2 T/n)/(T + 1))",
        source="Hardt, Recht and Singer 2016 (arXiv:1509.01240); Bassily, Feldman, Guzman and "
        "Talwar 2020 (arXiv:2006.06914); constants derived here",
        terms=tuple(term for term in terms if term.value > 0.0),
        combine=math.hypot if tuned else add,
        cap=largest_excess(facts),
        regime="noise leading, sqrt(d) sigma >= 7 L and sqrt(2 d n) >= 35 n mu, at fixed steps",
    )


def _share(facts: ProblemClass, steps: int, step_size: float, batch_size: float | None) -> float:
    """Return ``c``: for smooth losses the gap is ``c eta L^2 T/n``."""
    if batch_size is not None or facts.smoothness is None:
        return 1.0
    h = step_size * facts.smoothness * steps / facts.n
    return min(1.0, 0.5 + 5.0 * math.sqrt(2.0) / 12.0 * h + h**2 / 6.0)


def _moments(facts: ProblemClass, batch_size: float | None, sampler: str) -> Moments:
    if batch_size is None:
        return ALL_RECORDS
    moments = batch_moments(sampler, n=facts.n, batch_size=batch_size)
    if moments is None:
        raise ValueError(f"sampler must be without_replacement or poisson, got {shown(sampler)}")
    return moments


def _not_smooth(facts: ProblemClass, steps: int, moments: Moments) -> float:
    """Return the gap without smoothness, divided by ``eta L^2``."""
    return 4.0 / 3.0 * math.sqrt(moments.second_moment * steps) + 2.0 * steps / facts.n


def _best(
    facts: ProblemClass, steps: int, noise_std: float, batch_size: float | None, sampler: str
) -> float:
    """Return the fixed point ``eta = R/sqrt((T + 1) Q)``, where ``Q`` depends on ``eta``."""
    moments = _moments(facts, batch_size, sampler)
    smooth, eta = facts.smoothness is not None, 0.0
    for _ in range(_ROUNDS):
        gap = _not_smooth(facts, steps, moments)
        if smooth:
            gap = _share(facts, steps, eta, batch_size) * steps / facts.n
        square = facts.lipschitz**2 * (moments.second_moment + 2.0 * gap)
        size = facts.radius / math.sqrt((square + facts.dim * noise_std**2) * (steps + 1.0))
        if size == eta:
            break
        eta = size
    return eta
