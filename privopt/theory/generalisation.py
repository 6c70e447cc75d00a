"""How far a risk on the records is from that of their population: bounds for any private method.

``w`` is released from ``n`` independent records, ``R`` the population's risk of it, ``R_S`` that on
the records. Losses lie in an interval of length ``spread``, for every record and every ``w`` that
may be released.
"""

from __future__ import annotations

import math

from privopt.arguments import checked


@checked
def expected_generalisation(epsilon: float, delta: float, *, spread: float) -> float:
    """``|E R - E R_S| <= spread (e^epsilon - 1 + delta)`` under ``replace_one``, or ``spread``.

    For record ``i`` and a fresh one may change places; that changes ``P(loss > t)`` by a factor of
    ``e^epsilon`` and by ``delta`` at most. At ``epsilon = 0``, with the ``delta`` there, it is the
    total variation of neighbours, and least.

    Source: Bassily, Nissim, Smith, Steinke, Stemmer and Ullman, "Algorithmic stability for adaptive
    data analysis", STOC 2016 (arXiv:1511.02513), Section 3.

    Examples
    --------
    >>> round(expected_generalisation(0.1, 1e-6, spread=2.0), 4)
    0.2103
    """
    return spread * min(1.0, math.expm1(min(epsilon, 1.0)) + delta)


@checked
def information_generalisation(information: float, *, n: int, spread: float) -> float:
    """``|E R - E R_S| <= spread sqrt(I/(2 n))``, ``I`` the information of the records in ``w``.

    In nats. A ``rho``-zCDP release under ``replace_one`` has ``I <= n rho``, and ``mu``-Gaussian DP
    ``n mu^2/2``: the chain rule over independent records, each of which moves the law of ``w`` by
    a divergence of ``rho``.

    Sources: Xu and Raginsky, "Information-theoretic analysis of generalization capability of
    learning algorithms", NeurIPS 2017 (arXiv:1705.07809), Theorem 1; Bun and Steinke, TCC 2016
    (arXiv:1605.02065), Proposition 1.4 and its proof.

    Examples
    --------
    >>> information_generalisation(2.0, n=100, spread=1.0)
    0.1
    """
    return spread * math.sqrt(information / (2.0 * n))
