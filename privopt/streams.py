"""Named streams of device randomness: the children of one key, distinguished by name.

JAX derives keys by number: ``fold_in(key, number)``; ``split(key)[i]`` is ``fold_in(key, i)``.
Two uses of one key therefore coincide if their numbers do. The steps of a loop use numbers below
``2^31``, with ``fold_in(key, t)``; ``split`` uses the first of these. Each name has a separate
number from ``2^31`` on. For one key the map from number to child is a bijection of the generator,
so different numbers never give equal keys.

This is true of JAX's generator Threefry, and not of all its generators: the children of a key of
``unsafe_rbg`` commute, ``fold_in(fold_in(key, 1), 2) == fold_in(fold_in(key, 2), 1)``, so streams
of one key share noise. All keys enter through :func:`as_key`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from privopt.arguments import checked, described, shown

__all__ = ["STREAMS", "as_key", "stream"]

STREAMS: Mapping[str, int] = MappingProxyType(
    {
        "noise": 2**31,
        "batches": 2**31 + 1,
        "public": 2**31 + 2,
        "output": 2**31 + 3,
        "runs": 2**31 + 4,
        "solver": 2**31 + 5,
        "selection": 2**31 + 6,
        "anchors": 2**31 + 7,
        "levels": 2**31 + 8,
    }
)
"""Number of each name. A new number would change every result."""


@checked
def as_key(key: Any, name: str = "key", *, ndim: int = 0) -> Array:
    """Return ``key`` as a key of the generator Threefry; all keys of callers pass this function.

    ``key`` is a typed key (``ndim=0``) or a vector of typed keys (``ndim=1``) of ``threefry2x32``
    or ``rbg``. ``rbg`` derives children as Threefry does, but its bits depend on the number of keys
    that are used together (``jax.vmap``). Therefore only the words of such a key are used, with
    Threefry, so that a run does not depend on ``Execution``. ``ValueError`` for other generators,
    for arrays of integers (``jax.random.PRNGKey``), and for other shapes; the message does not
    contain the key.

    Examples
    --------
    >>> import jax
    >>> str(jax.random.key_impl(as_key(jax.random.key(0, impl="rbg"))))
    'threefry2x32'
    >>> as_key(jax.random.key(0, impl="unsafe_rbg"))
    Traceback (most recent call last):
    ValueError: key must be of the generator threefry2x32 or rbg, got unsafe_rbg
    """
    typed = isinstance(key, Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if not typed or key.ndim != ndim:
        kind = "a single typed key" if ndim == 0 else "a vector of typed keys"
        got = f"keys of shape {key.shape}" if typed else described(key)
        if isinstance(key, list | tuple) and key:
            got = "a list of keys; write jnp.stack(keys)"
        raise ValueError(f"{name} must be {kind} made by jax.random.key (and split), got {got}")
    generator = str(jax.random.key_impl(key))
    if generator == "threefry2x32":
        return key
    if generator != "rbg":
        raise ValueError(f"{name} must be of the generator threefry2x32 or rbg, got {generator}")
    words = jax.random.key_data(key)  # two keys of Threefry, equal if the key comes from a seed
    threefry = jax.random.wrap_key_data(words[..., :2], impl="threefry2x32")
    fold_in = jax.vmap(jax.random.fold_in) if ndim else jax.random.fold_in
    return fold_in(fold_in(threefry, words[..., 2]), words[..., 3])


@checked
def stream(key: Array, name: str) -> Array:
    """Return the child of a typed ``key`` for ``name``, one of ``STREAMS``.

    It is independent of the children of other names and of ``fold_in(key, t)`` for
    ``0 <= t < 2^31``. ``noise`` is for the noise of mechanisms, ``batches`` for samplers,
    ``public`` for the public randomness of a plan, ``output`` for an output rule, ``runs`` for the
    streams of ``run(stream=)``, ``solver`` for the noise that hides the error of a solver.

    Examples
    --------
    >>> import jax
    >>> key = jax.random.key(0)
    >>> bool(stream(key, "noise") == stream(key, "batches"))
    False
    """
    if name not in STREAMS:
        raise ValueError(f"name must be one of {', '.join(STREAMS)}, got {shown(name)}")
    return jax.random.fold_in(as_key(key), np.uint32(STREAMS[name]))
