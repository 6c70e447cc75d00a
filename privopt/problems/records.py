"""Records as a problem takes them: refused for shape and dtype, which are public, never for values.

A constructor that raised, or printed, because of a value would release it. What a record may not
be is instead put right by a rule that looks at that record alone, and told by
:meth:`privopt.problems.Problem.check`, which is for data that may be looked at.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, DTypeLike, NDArray

from privopt.convex import FeaturesLike, Pytree, as_features, is_features

__all__ = [
    "distribution",
    "floating",
    "multiplicities",
    "numeric",
    "real",
    "record_count",
    "require_countable",
]


def real(values: object, name: str) -> Array | NDArray[Any]:
    """``values`` as an array of real numbers; ValueError for other types and for ragged lists."""
    try:
        array = values if isinstance(values, jax.Array) else np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be an array, got rows of different shapes") from None
    kinds = (jnp.floating, jnp.integer, jnp.bool_)
    if not any(jnp.issubdtype(array.dtype, kind) for kind in kinds) or array.dtype.itemsize > 8:
        raise ValueError(f"{name} must be numeric, got dtype {array.dtype}")
    return array


def numeric(values: FeaturesLike, name: str = "data") -> Any:
    """The same on the device; a matrix of ``scipy.sparse`` becomes features."""
    return as_features(values) if is_features(values) else jnp.asarray(real(values, name))


def floating(values: FeaturesLike, name: str, ndim: int) -> Any:
    """The same with so many axes, integers in JAX's own floating type."""
    found = numeric(values, name)
    if len(found.shape) != ndim:
        raise ValueError(f"{name} must have {ndim} axes, got shape {found.shape}")
    if not jnp.issubdtype(found.dtype, jnp.floating):
        found = found.astype(jnp.asarray(0.0).dtype)
    return found


def record_count(data: Pytree) -> int:
    """How many records the leaves share; ValueError where they do not, or mix floating types."""
    leaves = jax.tree.leaves(data)
    floating = {leaf.dtype for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)}
    if len(floating) != 1:
        raise ValueError(
            f"data must have floating leaves of one dtype, got {sorted(map(str, floating))}"
        )
    dtype = next(iter(floating))
    if dtype not in (np.float32, np.float64):  # the round-off of others is not accounted
        raise ValueError(f"data must be float32 or float64, got {dtype}")
    lengths = {leaf.shape[0] if leaf.ndim else None for leaf in leaves}
    if len(lengths) != 1 or None in lengths:
        shapes = list(dict.fromkeys(leaf.shape for leaf in leaves))
        raise ValueError(f"data must have one leading axis of records, got shapes {shapes}")
    return int(leaves[0].shape[0])


def require_countable(n: int, dtype: DTypeLike) -> None:
    """ValueError unless ``dtype`` tells every number of records up to ``n`` from the next."""
    most = int(2.0 / float(np.finfo(dtype).eps))
    if n > most:
        raise ValueError(f"n must be at most {most} where records are counted in {dtype}, got {n}")


def multiplicities(counts: ArrayLike, records: int) -> NDArray[np.float64]:
    """``counts`` as whole numbers: the nearest, and 0 for what is negative or not finite."""
    given = np.asarray(real(counts, "counts"), np.float64)
    if given.shape != (records,):
        raise ValueError(f"counts must have shape ({records},), got {given.shape}")
    whole: NDArray[np.float64] = np.rint(np.where(given > 0.0, given, 0.0))
    return np.where(np.isfinite(whole), whole, 0.0)


def distribution(probabilities: ArrayLike, records: int) -> NDArray[np.float64]:
    """``probabilities`` with sum 1; ValueError unless they nearly are: a population is declared."""
    shares = np.asarray(real(probabilities, "probabilities"), np.float64)
    if shares.shape != (records,):
        raise ValueError(f"probabilities must have shape ({records},), got {shares.shape}")
    if not np.all(shares >= 0.0):
        row = int(np.argmin(shares >= 0.0))
        raise ValueError(f"probabilities must be non-negative, got {shares[row]} at {row}")
    if not abs(shares.sum() - 1.0) <= 1e-6:
        raise ValueError(f"probabilities must sum to 1, got {float(shares.sum())!r}")
    return np.asarray(shares / shares.sum())
