"""Random keys by name: a run's randomness depends on exactly the axes that name it."""

from __future__ import annotations

import hashlib
import json
import math
from functools import reduce
from numbers import Integral, Real

import jax
import numpy as np
from jax import Array

from privopt.arguments import shown


def stream(root_seed: int, **axes: str | float) -> Array:
    """The typed key of one named stream of randomness.

    The SHA-256 digest of the root seed and the named axes, folded in word by word: the same in
    float32 and float64 mode and on every machine. The order of the axes does not matter; another
    name, value or type of value gives another stream.

    Parameters
    ----------
    root_seed : int
        Of the whole study; of any size.
    **axes : str, int or float
        What the randomness depends on, e.g. ``role="noise", n=1000, epsilon=0.5``.

    Examples
    --------
    >>> bool(stream(0, role="noise", n=10) == stream(0, n=10, role="noise"))
    True
    >>> replicate_keys(stream(0, role="noise"), 3).shape
    (3,)
    """
    named = {name: _canonical(name, value) for name, value in sorted(axes.items())}
    text = json.dumps([_canonical("root_seed", int(root_seed)), named], separators=(",", ":"))
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype=">u4").astype(np.uint32)
    return reduce(jax.random.fold_in, words[1:], jax.random.key(words[0]))


def replicate_keys(key: Array, replicates: int, first: int = 0) -> Array:
    """One key a replicate from the ``first`` on, shape ``(replicates,)``.

    More replicates extend and change none.
    """
    numbers = np.arange(first, first + replicates, dtype=np.uint32)
    return jax.vmap(jax.random.fold_in, (None, 0))(key, numbers)


def _canonical(name: str, value: object) -> list[str]:
    if isinstance(value, str):
        return ["text", value]
    if isinstance(value, Integral) and not isinstance(value, bool):
        return ["integer", str(int(value))]
    if isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value):
        return ["real", float(value).hex()]
    raise ValueError(f"{name} must be a text or a number other than NaN, got {shown(value)}")
