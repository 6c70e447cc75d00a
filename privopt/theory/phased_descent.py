"""Phased stochastic gradient descent: phase sizes, step size and excess population risk."""

from __future__ import annotations

import math

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.rate import FIXED, Exponents, Quantity, Rate, Term, add, largest_excess


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
    start, *growth = _terms(problem_class, unit_noise_std)
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
    start, *growth = _terms(problem_class, unit)
    ratio = step_size / math.sqrt(start / math.fsum(growth))  # to the best step size
    tuned = math.isclose(ratio, 1.0, rel_tol=1e-4)  # noise is rounded up after the step is chosen
    powers: tuple[Exponents, ...] = _POWERS
    if tuned:
        values = [(ratio + 1.0 / ratio) * math.sqrt(start * part) for part in growth]
        powers = tuple(0.5 * power + 0.5 * Exponents(n=-1.0) for power in powers)
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


_POWERS = (
    Exponents(n=-1.0, dim=1.0, epsilon=-2.0),
    FIXED,
    Exponents(n=-2.0, dim=0.5, epsilon=-1.0),
)  # of b_1, b_2, b_3 at a fixed mu


def _terms(problem_class: ProblemClass, unit_noise_std: float) -> tuple[float, float, float, float]:
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
