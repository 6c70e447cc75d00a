"""Factorisations by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privopt.arguments import checked, count, member, shown
from privopt.factorisations.buffers import buffered
from privopt.factorisations.dense import optimal
from privopt.factorisations.factorisation import Factorisation
from privopt.factorisations.toeplitz import SeriesFactorisation, banded, banded_inverse, square_root
from privopt.factorisations.trees import TreeFactorisation

MAX_WHOLE = 2**26  # coefficients in memory: half a gigabyte
# With the default number of coefficients or buffers.
_BANDED: dict[str, tuple[Callable[..., Factorisation], int]] = {
    "banded": (banded, 32),
    "banded_inverse": (banded_inverse, 16),
    "buffered": (buffered, 5),
}
_WHOLE: dict[str, Callable[[int], Factorisation]] = {
    "independent": lambda steps: SeriesFactorisation("independent", steps, np.ones(1)),
    "tree": TreeFactorisation,
    "honaker": lambda steps: TreeFactorisation(steps, refined=True),
    "toeplitz": lambda steps: SeriesFactorisation("toeplitz", steps, _whole(steps)),
    "optimal": optimal,
}

FACTORISATIONS = (
    *("independent", "tree", "honaker", "toeplitz"),
    *("banded", "banded_inverse", "buffered", "optimal"),
)
"""Names of all factorisations."""


def _whole(steps: int) -> NDArray[np.float64]:
    if steps > MAX_WHOLE:
        raise ValueError(
            f"steps must be at most {MAX_WHOLE} for toeplitz, which has as many coefficients (a "
            f"band, or buffers, have few), got {steps}"
        )
    return square_root(steps)


@checked
def factorise(
    name: str, steps: int, band: int | None = None, optimise: bool = False
) -> Factorisation:
    """Return the factorisation of prefix sums over ``T = steps`` steps by its name.

    =================== ===========================================================
    ``independent``     ``C = I``: fresh noise in every gradient, as in DP-SGD
    ``tree``            binary tree
    ``honaker``         binary tree, refined by earlier releases
    ``toeplitz``        ``C = A^(1/2)``
    ``banded``          ``C`` Toeplitz with ``band`` coefficients
    ``banded_inverse``  ``C^-1`` Toeplitz with ``band`` coefficients
    ``buffered``        ``C`` Toeplitz, a sum of ``band`` geometric sequences
    ``optimal``         the lower triangular ``C`` of least mean squared error
    =================== ===========================================================

    ``band`` is the number of coefficients or buffers, by default 32, 16 and 5, at most ``steps``.
    With ``optimise``, banded and buffered coefficients minimise the mean squared error in their
    class; otherwise they are in closed form.

    Examples
    --------
    >>> [round(factorise(name, 100).rmse(), 3) for name in ("independent", "tree", "toeplitz")]
    [7.106, 4.725, 2.371]
    """
    member("name", name, FACTORISATIONS)
    steps = count("steps", steps)
    if name in _WHOLE:
        if band is not None:
            raise ValueError(f"band must be left out for {name}, got {shown(band)}")
        if optimise and name != "optimal":
            raise ValueError(f"optimise must be False for {name}, which has no free coefficients")
        return _WHOLE[name](steps)
    construct, default = _BANDED[name]
    band = min(default, steps) if band is None else count("band", band)
    if band > steps:
        raise ValueError(f"band must be at most steps={steps}, got {band}")
    return construct(steps, band, optimise=optimise)
