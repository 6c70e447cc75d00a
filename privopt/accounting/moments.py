"""The moments accountant as it was published, for comparison with what was printed.

Rényi divergences at a fixed list of orders, converted by Markov's inequality on the moments of
the privacy loss: ``delta = min_alpha e^((alpha - 1)(D_alpha - epsilon))``. Valid, and looser than
``Renyi``, which refines the orders and converts better. Columns called "MA" in the literature are
its answers.

Sources: Abadi et al., "Deep learning with differential privacy", CCS 2016 (arXiv:1607.00133),
Theorem 2; Mironov, "Rényi differential privacy", CSF 2017 (arXiv:1702.07476), Proposition 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from privopt.privacy import Renyi

_PUBLISHED = (*(1.0 + 0.1 * i for i in range(1, 100)), *(float(order) for order in range(12, 64)))


@dataclass(frozen=True)
class Moments(Renyi):
    """Every event of ``Renyi``, by the orders 1.1, 1.2, ..., 10.9, 12, 13, ..., 63 alone.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> from privopt import Relation
    >>> round(Moments().epsilon(dp.GaussianDpEvent(1.0), Relation.ZERO_OUT, 1e-5).upper, 3)
    5.299
    """

    orders: tuple[float, ...] = _PUBLISHED
    improved = False

    cites = ("abadi2016", "mironov2017")

    @property
    def name(self) -> str:
        return "moments accountant"
