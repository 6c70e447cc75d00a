"""Population risk of noisy descent that sees records again: by uniform stability."""

from __future__ import annotations

import math

from scipy.stats import binom

from privopt.arguments import checked, shown
from privopt.spec import ProblemClass
from privopt.theory.rate import GIVEN_STEPS, Powers, Quantity, Rate, Term, add, largest_excess
from privopt.theory.steps import ALL_RECORDS, Moments, batch_moments


@checked
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
        E F_P(w) - E F(w) <= (eta L^2 T/(2 n)) (1 + 1.18 h + h^2/3)   and all records,
        E F_P(w) - E F(w) <= eta L^2 (4 sqrt(a T)/3 + 2 T/n)          whatever the smoothness,

    ``h = eta H T/n``, and ``a`` the second moment of the batches (:func:`batch_moments`).

    *Derivation.* Draw record ``i`` again: in the mean over ``i`` the left side is at most ``L E D``
    with ``D`` the distance between the two runs, of the same noise and the same batches. Their
    gradients at one point differ by ``e_t``, ``E |e_t| <= 2 L/n``: of length ``2 L/b`` with chance
    ``b/n``.

    *Smooth.* Steps along ``b`` or fewer gradients over ``b`` do not expand distances while ``eta <=
    2/H``, so ``E D_{t+1} <= E D_t + 2 eta L/n``. A Poisson batch of more than ``2 b/(eta H)``
    records may: with the chance ``T P(Bin(n, b/n) > 2 b/(eta H))`` that there is one, ``2 L R`` is
    lost.

    *Smooth, all records.* Let ``z`` and ``z'`` be the two draws of record ``i``, ``w`` and ``w'``
    the runs, and ``u`` the run without it, still divided by ``n``. The gap is half the mean of the
    change of ``l_z - l_z'`` from ``w`` to ``w'``. Both are within ``r_t = eta L (t - 1)/n`` of
    ``u``, so with ``d(p) = |grad l_z(p) - grad l_z'(p)|``, ``|w_t - w'_t| <= (eta/n) sum_{s < t}
    (d(u_s) + 2 H r_s)``, and ``l_z - l_z'`` has between the averages a slope of ``d(u) + H eta L
    T/n``. As ``u`` depends on neither draw, ``E d^2 <= 2 L^2``, and by Cauchy and Schwarz the gap
    is at most ``(eta L^2 T/(2 n)) (sqrt(2) + h) (1/sqrt(2) + h/3)``. Linear losses attain it; the
    half alone is false at ``h = 1``.

    *Not smooth.* Subgradients ``g``, ``g'`` of one batch have ``<g - g', w - w'> >= 0``, so ``E
    D_{t+1}^2 <= E D_t^2 + (4 eta L/n) E D_t + 4 eta^2 a L^2``, hence ``E D_t <= 2 eta L sqrt(a (t -
    1)) + 4 eta L (t - 1)/n``.

    ``batch_size`` is ``b``, by default all records; ``sampler`` is ``"without_replacement"`` or
    ``"poisson"``.

    Source: Hardt, Recht and Singer 2016 (arXiv:1509.01240), Theorem 3.8, and Bassily, Feldman,
    Talwar and Guha Thakurta 2019 (arXiv:1908.09970) for smooth losses; Bassily, Feldman, Guzman and
    Talwar 2020 (arXiv:2006.06914), Lemma 3.1, without. Constants, averages and Poisson batches are
    derived here.
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
        share = _share(problem_class, steps, step_size, batch_size)
        gap = min(gap, share * unit * steps / problem_class.n + lost)
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
    """Where :func:`descent_population_rate` is least, or within a hundredth of it.

    ``R/sqrt((T + 1) Q)``, ``Q = a L^2 + d sigma^2 + 2 c L^2 T/n`` for smooth losses, at most
    ``2/H``, or ``1/H`` for Poisson batches; ``c`` is 1, or the share of all records in
    :func:`generalisation_gap`. Else ``L^2 (8 sqrt(a T)/3 + 4 T/n)`` stands at the end of ``Q``.
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
    steps_powers: Powers = GIVEN_STEPS,
) -> Rate:
    """Excess population risk of the average of noisy descent: empirical risk, and the gap.

    ``E F_P(w) - F_P* <= R^2/(2 eta (T + 1)) + eta G^2/2`` (:func:`privopt.theory.descent_rate`)
    ``+`` :func:`generalisation_gap`, at :func:`descent_population_step_size`. For smooth losses,
    unless smoothness caps the step::

        E F_P(w) - F_P* <= R sqrt((a L^2 + d sigma^2 + 2 c L^2 T/n)/(T + 1)),

    at most ``L R sqrt(a/T + 2 c/n + 4 d/(n mu)^2)`` with ``sigma = 2 L sqrt(T)/(n mu)``.

    ``noise_std`` is ``sigma``, of each coordinate of the mean gradient. ``steps_powers`` say how
    ``T`` moves with the axes; by default it is an axis of its own.

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
    square, moved = facts.lipschitz**2, Powers(n=-2.0, dim=1.0, epsilon=-2.0) + steps_powers
    share = _share(facts, steps, step_size, batch_size) if smooth else 2.0
    seen_again = 2.0 * share * square * steps / facts.n
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
        terms = [part.root(factor, powers) for part in parts]
    else:
        terms = [part.times(0.5 * step_size) for part in parts]
        start = facts.radius**2 / (2.0 * step_size * (steps + 1.0))
        terms += [Term("start", start, -1.0 * steps_powers), Term("overfull", max(left, 0.0))]
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


_OF_GAP = ("generalisation", "kinks")
_ROUND_OFF = 1e-9
_ROUNDS = 50  # of a fixed point, each of which leaves less than half of the error


def _share(facts: ProblemClass, steps: int, step_size: float, batch_size: float | None) -> float:
    """``c``: so much of ``eta L^2 T/n`` is lost to smooth losses."""
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
    """The gap over ``eta L^2``."""
    return 4.0 / 3.0 * math.sqrt(moments.second_moment * steps) + 2.0 * steps / facts.n


def _best(
    facts: ProblemClass, steps: int, noise_std: float, batch_size: float | None, sampler: str
) -> float:
    """``eta = R/sqrt((T + 1) Q)``, where ``Q`` is that of ``eta``."""
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
