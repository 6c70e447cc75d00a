"""Phased stochastic gradient descent: its phases, and an upper bound on excess population risk."""

from __future__ import annotations

import math

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.rate import Powers, Quantity, Rate, Term, add, largest_excess


@checked
def phase_sizes(n: int) -> tuple[int, ...]:
    """``n_i = floor(n / 2^i)`` for ``i = 1..floor(log2 n)``: ``>= 1`` each, ``< n`` in all.

    One phase more, as ``ceil(log2 n)`` has it, would be empty. A single record is a phase.
    """
    return tuple(n >> i for i in range(1, n.bit_length())) or (n,)


@checked
def phased_descent_step_size(problem_class: ProblemClass, *, unit_noise_std: float) -> float:
    """The ``eta_1 <= 2/H`` at which the bound is least, where ``sigma_1 = unit * eta_1``.

    Up to lower orders ``(R / (2 L sqrt n)) / sqrt(1/6 + 16 d/(n mu^2))``, unless capped.
    """
    start, *growth = _terms(problem_class, unit_noise_std)
    best, smoothness = math.sqrt(start / math.fsum(growth)), problem_class.smoothness
    return min(best, 2.0 / smoothness) if smoothness else best


@checked
def phased_rate(problem_class: ProblemClass, *, step_size: float, noise_std: float) -> Rate:
    """Excess population risk of phased SGD, every term with its constant.

    Phase ``i = 1..k`` sees ``n_i`` fresh records at step size ``eta_i = eta_1 4^{1-i}`` and
    releases ``w_i = Proj(v_i + xi_i)``, ``v_i`` its average iterate and ``xi_i`` noise of standard
    deviation ``sigma_i = sigma_1 4^{1-i}``. For independent records of convex, ``L``-Lipschitz
    losses and a start within ``R`` of every point of the constraint set::

        E F_P(w_k) - F_P* <= R^2 / (2 eta_1 N_1) + sum_{i >= 2} d sigma_{i-1}^2 / (2 eta_i N_i)
                             + (L^2/2) sum_i eta_i + L sqrt(d) sigma_k,    N_i = n_i + 1.

    In a phase ``w_t`` does not depend on the record that step ``t`` sees, so ``E F_P(v_i) - F_P(u)
    <= E |w_{i-1} - u|^2 / (2 eta_i N_i) + eta_i L^2/2`` by the regret of projected descent. Take
    ``u = w*`` in the first, and ``u = v_{i-1}`` afterwards, at ``|w_{i-1} - v_{i-1}| <=
    |xi_{i-1}|``; the differences telescope. The last noise costs ``L E |xi_k|``.

    At the best step size its terms are ``2 sqrt(a b_i)`` and combine as a root of a sum of
    squares, ``16 L R sqrt(d)/(n mu)`` and ``4 L R/sqrt(6 n)``, of which the larger comes first; at
    any other, a sum.

    Source: Feldman, Koren and Talwar 2020, "Private stochastic convex optimization: optimal rates
    in linear time", section 4 (the order of magnitude); the constants are derived here, with the
    radius ``R`` in place of the diameter, the start being the centre.

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
    tuned = math.isclose(ratio, 1.0, rel_tol=1e-4)  # noise is rounded up once steps are chosen
    powers: tuple[Powers, ...] = _POWERS
    if tuned:
        grown = [(ratio + 1.0 / ratio) * math.sqrt(start * part) for part in growth]
        powers = tuple(0.5 * power + 0.5 * Powers(n=-1.0) for power in powers)
    else:
        grown = [part * step_size for part in growth]
    names = ("noise", "sampling", "last noise")
    noise, sampling, last = (Term(*each) for each in zip(names, grown, powers, strict=True))
    first = (noise, sampling) if noise.value >= sampling.value else (sampling, noise)
    left = (last,) if tuned else (last, Term("start", start / step_size, Powers(n=-1.0)))
    return Rate(
        quantity=Quantity.POPULATION_RISK,
        theorem="E F_P(w) - F_P* <= 4 L R sqrt(1/(6n) + 16 d/(n mu)^2) and lower orders",
        source="Feldman, Koren and Talwar 2020 (arXiv:2005.04763)",
        terms=first + left,
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
    Powers(n=-1.0, dim=1.0, epsilon=-2.0),
    Powers(),
    Powers(n=-2.0, dim=0.5, epsilon=-1.0),
)  # of the parts of b, at a fixed mu


def _terms(problem_class: ProblemClass, unit_noise_std: float) -> tuple[float, float, float, float]:
    """``a, b_1, b_2, b_3`` of the bound as ``a / eta_1 + (b_1 + b_2 + b_3) eta_1``.

    The noise between phases, the gradients of a sampled record, the last noise.
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
