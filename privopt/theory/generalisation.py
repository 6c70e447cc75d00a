"""Population risk: generalisation of private methods, descent with repeated records, phased SGD.

``w`` is released from ``n`` independent records. ``F`` is the empirical and ``F_P`` the population
risk.
"""

from __future__ import annotations

import math

from scipy.stats import binom

from privopt.arguments import checked, shown
from privopt.spec import ProblemClass
from privopt.theory.rate import (
    FIXED,
    GIVEN_STEPS,
    Exponents,
    Quantity,
    Rate,
    Term,
    add,
    largest_excess,
)
from privopt.theory.steps import ALL_RECORDS, BatchMoments, batch_moments

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


def _moments(facts: ProblemClass, batch_size: float | None, sampler: str) -> BatchMoments:
    if batch_size is None:
        return ALL_RECORDS
    moments = batch_moments(sampler, n=facts.n, batch_size=batch_size)
    if moments is None:
        raise ValueError(f"sampler must be without_replacement or poisson, got {shown(sampler)}")
    return moments


def _not_smooth(facts: ProblemClass, steps: int, moments: BatchMoments) -> float:
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


@checked
def phase_sizes(n: int) -> tuple[int, ...]:
    """Return ``n_i = floor(n / 2^i)``, ``i = 1..floor(log2 n)``: each ``>= 1``, their sum ``< n``.

    With ``ceil(log2 n)`` phases the last one could be empty. A single record is one phase.
    """
    return tuple(n >> i for i in range(1, n.bit_length())) or (n,)


@checked
def phased_descent_step_size(problem_class: ProblemClass, *, unit_noise_std: float) -> float:
    """Return the ``eta_1 <= 2/H`` that minimises the bound, ``sigma_1 = unit_noise_std * eta_1``.

    Without the cap it is ``(R / (2 L sqrt n)) / sqrt(1/6 + 16 d/(n mu^2))`` up to lower orders.
    """
    start, *growth = _phased_terms(problem_class, unit_noise_std)
    best, smoothness = math.sqrt(start / math.fsum(growth)), problem_class.smoothness
    return min(best, 2.0 / smoothness) if smoothness else best


@checked
def phased_rate(problem_class: ProblemClass, *, step_size: float, noise_std: float) -> Rate:
    """Return the excess population risk of phased SGD.

    Phase ``i = 1..k`` processes ``n_i`` fresh records with step size ``eta_i = eta_1 4^{1-i}`` and
    releases ``w_i = Proj(v_i + xi_i)``. ``v_i`` is its average iterate and ``xi_i`` is noise of
    standard deviation ``sigma_i = sigma_1 4^{1-i}``. For independent records, convex,
    ``L``-Lipschitz losses and a start within ``R`` of every point of the constraint set::

        E F_P(w_k) - F_P* <= R^2 / (2 eta_1 N_1) + sum_{i >= 2} d sigma_{i-1}^2 / (2 eta_i N_i)
                             + (L^2/2) sum_i eta_i + L sqrt(d) sigma_k,    N_i = n_i + 1.

    At the best step size the terms are combined as a root of a sum of squares, ``16 L R sqrt(d)/(n
    mu)`` and ``4 L R/sqrt(6 n)``, the larger one first. At any other step size they are added.
    Proof: :ref:`Descent, Theorem 10 <theory-descent-10>`. The start is the centre, so the radius
    ``R`` replaces the diameter of the source. Source: Feldman, Koren and Talwar 2020, section 4
    (the order).

    Examples
    --------
    >>> facts = ProblemClass(n=4096, dim=50, lipschitz=1.0, radius=1.0, smoothness=0.0)
    >>> step_size = phased_descent_step_size(facts, unit_noise_std=2.0)
    >>> rate = phased_rate(facts, step_size=step_size, noise_std=2.0 * step_size)
    >>> rate.quantity.value, round(rate.upper, 4), rate.leading.name
    ('population risk', 0.0375, 'noise')
    """
    unit = noise_std / step_size
    start, *growth = _phased_terms(problem_class, unit)
    ratio = step_size / math.sqrt(start / math.fsum(growth))  # to the best step size
    tuned = math.isclose(ratio, 1.0, rel_tol=1e-4)  # noise is rounded up after the step is chosen
    # Exponents of b_1, b_2 and b_3 at a fixed mu.
    powers = [Exponents(n=-1.0, dim=1.0, epsilon=-2.0), FIXED]
    powers.append(Exponents(n=-2.0, dim=0.5, epsilon=-1.0))
    if tuned:
        values = [(ratio + 1.0 / ratio) * math.sqrt(start * part) for part in growth]
        powers = [0.5 * power + 0.5 * Exponents(n=-1.0) for power in powers]
    else:
        values = [part * step_size for part in growth]
    names = ("noise", "sampling", "last noise")
    noise, sampling, last = (Term(*each) for each in zip(names, values, powers, strict=True))
    first = (noise, sampling) if noise.value >= sampling.value else (sampling, noise)
    others = (last,) if tuned else (last, Term("start", start / step_size, Exponents(n=-1.0)))
    return Rate(
        quantity=Quantity.POPULATION_RISK,
        theorem="E F_P(w) - F_P* <= 4 L R sqrt(1/(6n) + 16 d/(n mu)^2) and lower orders",
        source="Feldman, Koren and Talwar 2020 (arXiv:2005.04763)",
        terms=first + others,
        combine=math.hypot if tuned else add,
        cap=largest_excess(problem_class),
        regime=(
            "noise leading, 2 d >= n mu^2, and sqrt(d) <= n mu"
            if first[0] is noise
            else "sampling leading, n mu^2 >= 5000 d"
        )
        + "; eta_1 not capped by 2/H",
        tight_on="linear_population",
    )


def _phased_terms(
    problem_class: ProblemClass, unit_noise_std: float
) -> tuple[float, float, float, float]:
    """Return ``a, b_1, b_2, b_3`` of the bound ``a / eta_1 + (b_1 + b_2 + b_3) eta_1``.

    ``b_1``: noise between phases; ``b_2``: gradients of single records; ``b_3``: last noise.
    """
    sizes = phase_sizes(problem_class.n)
    dim, lipschitz = problem_class.dim, problem_class.lipschitz
    steps = [4.0**-i for i in range(len(sizes))]
    noises = [dim * (unit_noise_std * step) ** 2 for step in steps]  # E |xi_i|^2 / eta_1^2
    start = problem_class.radius**2 / (2.0 * (sizes[0] + 1.0))
    noise = sum(
        noise / (2.0 * step * (size + 1.0))
        for noise, step, size in zip(noises, steps[1:], sizes[1:], strict=False)
    )
    last = lipschitz * math.sqrt(noises[-1])
    return start, noise, 0.5 * lipschitz**2 * sum(steps), last
