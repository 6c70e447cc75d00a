"""The exponential mechanism: its upper bound, with and without a regulariser, and the tuning."""

from __future__ import annotations

import math

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.rate import Powers, Quantity, Rate, Term, largest_excess


@checked
def exponential_mechanism_regularisation(
    problem_class: ProblemClass, *, sensitivity: float, mu: float
) -> float:
    """The ``m`` that balances draw and regulariser: ``2 G sqrt(d) / (mu R)``.

    The bound is then ``G R sqrt(d) / mu``: under ``replace_one`` ``2 L R sqrt(d) / (n mu)``.
    """
    return 2.0 * sensitivity * math.sqrt(problem_class.dim) / (mu * problem_class.radius)


@checked
def exponential_mechanism_rate(
    problem_class: ProblemClass,
    *,
    temperature: float,
    regularisation: float = 0.0,
    pure: bool,
    balanced: bool = True,
) -> Rate:
    """Excess risk of a draw from ``exp(-k (F + (m/2)|w - c|^2))`` on ``W``, ``k = 1/temperature``.

    For convex losses::

        E F(w) - F* <= d / k + m R^2 / 4.

    Let ``phi`` be ``k`` times what is in brackets. By parts, the integral of ``<w - w*, grad phi>
    exp(-phi)`` over ``W`` is at most ``d`` times that of ``exp(-phi)``, so ``E <w - w*, grad F(w) +
    m (w - c)> <= d/k``. With ``a = w* - c`` and ``b = w - c``, convexity gives ``F(w) - F* <= <w -
    w*, grad F(w)>``, and ``-m <b - a, b> <= m |a|^2/4 <= m R^2/4``. With ``W`` in the ball of
    radius ``R``:

    pure
        ``m = 0``, ``k = epsilon/(2 R G)``: ``2 R G d / epsilon``, which is ``4 L R d/(n epsilon)``
        under ``replace_one``, half that under ``zero_out`` and ``add_or_remove_one``.
    Gaussian
        ``k = m mu^2 / G^2``: ``d G^2 / (m mu^2) + m R^2 / 4``.

    ``temperature`` is ``1/k``, ``regularisation`` is ``m``, 0 where the guarantee is ``pure``.
    ``balanced`` says whether ``m`` is that of :func:`exponential_mechanism_regularisation`; else it
    is fixed.

    Source: Bassily, Smith and Thakurta 2014 (their order, for pure DP); Gopi, Lee and Liu 2022.
    Constants derived here; theirs have ``D`` where the centre allows ``R``.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=2, lipschitz=1.0, radius=1.0)
    >>> exponential_mechanism_rate(facts, temperature=0.04, pure=True).upper
    0.08
    """
    together = Powers(n=-1.0, dim=0.5, epsilon=-1.0)
    drawn, fixed = together, together
    if pure:
        drawn, fixed = Powers(n=-1.0, dim=1.0, epsilon=-1.0), Powers()
    elif not balanced:
        drawn, fixed = 2.0 * together, Powers()
    regime = "sqrt(d) <= n mu" if balanced else "m fixed, d/k >= 25 m R^2"
    radius, dim = problem_class.radius, problem_class.dim
    bias = 0.25 * regularisation * radius**2 if regularisation > 0.0 else 0.0
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem="E F(w) - F* <= "
        + ("d/k (4 L R d/(n epsilon) under replace_one)" if pure else "d/k + m R^2/4"),
        source="Bassily, Smith and Thakurta 2014 (arXiv:1405.7085)"
        if pure
        else "Gopi, Lee and Liu 2022 (arXiv:2203.00263)",
        terms=(Term("draw", dim * temperature, drawn), Term("regulariser", bias, fixed)),
        cap=largest_excess(problem_class),
        regime="d <= n epsilon / 40" if pure else regime,
        tight_on="distance" if pure or balanced else None,
    )
