"""A key that is not printed."""

from __future__ import annotations

from dataclasses import dataclass

from jax import Array


@dataclass(frozen=True, repr=False)
class Secret:
    """What a model holds in the place of a key: the same, printed without its numbers.

    scikit-learn prints the arguments of a model, and of every pipeline it stands in, in text and in
    a notebook. Whoever reads the key there can take the noise off.

    Examples
    --------
    >>> import jax
    >>> Secret(jax.random.key(0))
    a secret key
    """

    key: Array

    def __repr__(self) -> str:
        return "a secret key"
