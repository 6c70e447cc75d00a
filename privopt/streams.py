"""Named streams of device randomness: the children of one key, told apart by name.

JAX derives keys by number: ``fold_in(key, number)``, and ``split(key)[i]`` is ``fold_in(key, i)``.
So two uses of one key meet wherever their numbers do. Steps of a loop take the numbers below
``2^31``, with ``fold_in(key, t)``; ``split`` takes the first of these. Names take numbers from
``2^31`` on, each its own. For one key the map from number to child is a bijection of the generator,
so that different numbers never give equal keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import jax
import numpy as np
from jax import Array

from privopt.arguments import shown

__all__ = ["STREAMS", "stream"]

STREAMS: Mapping[str, int] = MappingProxyType(
    {
        "noise": 2**31,
        "batches": 2**31 + 1,
        "coins": 2**31 + 2,
        "output": 2**31 + 3,
        "runs": 2**31 + 4,
        "solver": 2**31 + 5,
        "selection": 2**31 + 6,
        "anchors": 2**31 + 7,
        "levels": 2**31 + 8,
    }
)
"""Name to number. A number stays with its name for ever: another one would change every result."""


def stream(key: Array, name: str) -> Array:
    """The child of a typed ``key`` that belongs to ``name``, one of ``STREAMS``.

    It is independent of the other names' and of ``fold_in(key, t)`` for ``0 <= t < 2^31``.
    ``noise`` is what mechanisms add, ``batches`` who takes part in a step, ``coins`` the public
    randomness of a plan, ``output`` that of an output rule, ``runs`` the streams of
    ``run(stream=)``, ``solver`` the noise that hides a solver's error.

    Examples
    --------
    >>> import jax
    >>> key = jax.random.key(0)
    >>> bool(stream(key, "noise") == stream(key, "batches"))
    False
    """
    if name not in STREAMS:
        raise ValueError(f"name must be one of {', '.join(STREAMS)}, got {shown(name)}")
    return jax.random.fold_in(key, np.uint32(STREAMS[name]))
