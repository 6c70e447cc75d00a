"""Records as a problem takes them: refused for shape and dtype, which are public, never for values.

A constructor that raised, or printed, because of a value would release it. What a record may not
be is instead put right by a rule that looks at that record alone, and told by
:meth:`privopt.problems.Problem.check`, which is for data that may be looked at.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, DTypeLike, NDArray

from privopt.arguments import described
from privopt.convex import FeaturesLike, Pytree, as_features, is_features

__all__ = [
    "distribution",
    "floating",
    "labelled",
    "multiplicities",
    "numeric",
    "real",
    "record_count",
    "require_countable",
]

_MISSING = ("NoneType", "NAType", "NaTType", "MaskedConstant")  # of Python, pandas and NumPy


def real(values: object, name: str) -> Array | NDArray[Any]:
    """``values`` as an array of real numbers; ValueError for other types and for ragged lists.

    What is missing becomes NaN, which makes a record null: None, an entry that is masked, a missing
    value of pandas. A number beyond all floats becomes infinite.
    """
    if isinstance(values, jax.Array):
        array: Array | NDArray[Any] = values
    elif hasattr(values, "__array__") or isinstance(values, Sequence | Real):
        try:
            array = np.asarray(values)
        except ValueError:
            raise ValueError(f"{name} must be an array, got rows of different shapes") from None
        if array.dtype == object:
            numbers = [_number(entry, name) for entry in array.ravel()]
            array = np.array(numbers, np.float64).reshape(array.shape)
        if isinstance(values, np.ma.MaskedArray) and array.dtype.kind in "biuf":
            kept = array if array.dtype.kind == "f" else array.astype(np.float64)
            array = np.where(np.ma.getmaskarray(values), kept.dtype.type(math.nan), kept)
    else:
        raise ValueError(f"{name} must be an array, got {described(values)}")
    kinds = (jnp.floating, jnp.integer, jnp.bool_)
    if not any(jnp.issubdtype(array.dtype, kind) for kind in kinds) or array.dtype.itemsize > 8:
        raise ValueError(f"{name} must be numeric, got dtype {array.dtype.type.__name__}")
    return array


def _number(entry: Any, name: str) -> float:
    if type(entry).__name__ in _MISSING:
        return math.nan
    if not isinstance(entry, Real | np.bool_):
        raise ValueError(f"{name} must be numeric, got {described(entry)}")
    try:
        return float(entry)
    except OverflowError:
        return math.inf if entry > 0 else -math.inf  # type: ignore[operator]


def numeric(values: FeaturesLike, name: str = "data") -> Any:
    """The same on the device; a matrix of ``scipy.sparse`` becomes features.

    An integer beyond those of the device becomes the nearest of them, and none wraps around.
    """
    if is_features(values):
        return as_features(values)
    array = real(values, name)
    if isinstance(array, np.ndarray) and array.dtype.kind in "iu":
        kept = np.iinfo(jax.dtypes.canonicalize_dtype(array.dtype))
        array = array.clip(max(kept.min, np.iinfo(array.dtype).min), kept.max)
    return jnp.asarray(array)


def floating(values: FeaturesLike, name: str, ndim: int) -> Any:
    """The same with so many axes, integers as numbers of JAX's own floating type."""
    found: Any = as_features(values) if is_features(values) else real(values, name)
    if len(found.shape) != ndim:
        raise ValueError(f"{name} must have {ndim} axes, got shape {found.shape}")
    if not jnp.issubdtype(found.dtype, jnp.floating):
        found = found.astype(jnp.asarray(0.0).dtype)
    return found if is_features(found) else jnp.asarray(found)


def labelled(labels: ArrayLike, classes: Sequence[Hashable]) -> NDArray[np.float64]:
    """The place of each label in ``classes``, which are public; -1 for one that is none of them.

    Examples
    --------
    >>> labelled(["no", "yes", "no"], ("no", "yes")).tolist()
    [0.0, 1.0, 0.0]
    """
    if isinstance(classes, str) or not isinstance(classes, Sequence) or len(classes) < 2:
        raise ValueError(
            f"classes must be the labels there are, such as range(3) or ('no', 'yes'), got "
            f"{classes!r}"
        )
    places = {value: place for place, value in enumerate(classes)}
    if len(places) < len(classes):
        raise ValueError(f"classes must be distinct, got {classes!r}")
    given = np.asanyarray(labels)
    if given.ndim != 1:
        raise ValueError(f"labels must have 1 axes, got shape {given.shape}")
    texts = {isinstance(value, str) for value in classes}
    if given.dtype != object and (given.dtype.kind == "U") not in texts:
        raise ValueError(
            f"labels must be of the kind of classes {classes!r}, got dtype "
            f"{given.dtype.type.__name__}"
        )
    return np.array([places.get(label, -1.0) for label in given.tolist()], np.float64)


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
