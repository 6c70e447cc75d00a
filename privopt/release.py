"""The one point through which everything random or released passes.

Every draw, noisy answer and selection is handed to :func:`release` under a name. In production that
is the identity: no operation enters a program. Under a :class:`Tape` the values are recorded, under
a :class:`Replay` other values take their place. So an audit reads what a run released, step by
step; and a replay test asks whether a run sees the data through its releases alone.

A tape and a replay switch compilation off while they are open (``jax.disable_jit``), so that every
value is a number, and loops are Python's. That is slow, and meant for runs of a few steps.

The names in use: ``"batch"`` (who takes part), ``"noise"`` (as drawn), ``"answer"`` (with its
noise: what the guarantee covers), ``"selection"`` (an index).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from privopt.arguments import flag

__all__ = ["Pytree", "Released", "Replay", "Tape", "release"]

Pytree: TypeAlias = Any  # an array, or a nest of containers of arrays, which no type describes

Value = TypeVar("Value")
_Raised: TypeAlias = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]


class _Listener(Protocol):
    def heard(self, name: str, value: Value) -> Value:
        """What the program goes on with."""


_LISTENERS: ContextVar[tuple[_Listener, ...]] = ContextVar("listeners", default=())


def release(name: str, value: Value) -> Value:
    """``value``, a pytree of arrays, itself; under a :class:`Replay` of ``name`` what is replayed.

    ValueError under a tape or a replay only: where values are traced, by a ``jax.vmap`` or a
    ``jax.jit`` that was entered before, or where a replay does not fit.
    """
    for listener in _LISTENERS.get():
        value = listener.heard(name, value)
    return value


class Released(NamedTuple):
    """One entry of a tape: a name, and NumPy arrays; traced ones of a tape that keeps these."""

    name: str
    value: Pytree


class _Open:
    """A context in which :func:`release` is heard, and nothing is compiled."""

    def __init__(self, *, numbers: bool = True) -> None:
        self._numbers = numbers
        self._token: Token[tuple[_Listener, ...]] | None = None
        self._eager: AbstractContextManager[object] | None = None

    def __enter__(self) -> Self:
        if self._token is not None:
            raise ValueError(f"a {type(self).__name__} must be opened once, got it open")
        self._token = _LISTENERS.set((*_LISTENERS.get(), self))
        self._eager = jax.disable_jit() if self._numbers else nullcontext()
        self._eager.__enter__()
        return self

    def __exit__(self, *raised: *_Raised) -> None:
        assert self._token is not None
        assert self._eager is not None
        self._eager.__exit__(*raised)
        _LISTENERS.reset(self._token)
        self._token = self._eager = None

    def heard(self, name: str, value: Value) -> Value:
        raise NotImplementedError


class Tape(_Open):
    """Records what is released while it is open.

    ``tape.released`` is a list of :class:`Released` in the order of the run; ``tape[name]`` the
    values of one name. Contexts nest: the outermost hears first, so ``with Replay(...), Tape()``
    records what was replayed.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> with Tape() as tape:
    ...     for t in range(3):
    ...         number = release("answer", jnp.int32(t))
    >>> [int(value) for value in tape["answer"]]
    [0, 1, 2]

    With ``traced`` it keeps what it hears as it is, for the function under a ``jax.vmap`` that
    opened it, which has to return it; compilation is then left to the caller.
    """

    def __init__(self, *, traced: bool = False) -> None:
        super().__init__(numbers=not flag("traced", traced))
        self.released: list[Released] = []

    def __getitem__(self, name: str) -> list[Pytree]:
        return [entry.value for entry in self.released if entry.name == name]

    def heard(self, name: str, value: Value) -> Value:
        """Record ``value`` and go on with it."""
        kept = jax.tree.map(_number, value) if self._numbers else value
        self.released.append(Released(name, kept))
        return value


class Replay(_Open):
    """Puts recorded values in the place of what would be released.

    For each name the values in their order, such as ``answer=tape["answer"]``; names that are not
    given pass unchanged. ValueError where the run releases more or less than is given, or something
    of another structure, shape or type.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> with Replay(noise=[jnp.float32(2.0)]):
    ...     noisy = 1.0 + release("noise", jnp.float32(0.5))
    >>> float(noisy)
    3.0
    """

    def __init__(self, **values: Sequence[Pytree]) -> None:
        super().__init__()
        self._values = {name: list(given) for name, given in values.items()}
        self._heard = dict.fromkeys(values, 0)

    def __exit__(self, *raised: *_Raised) -> None:
        super().__exit__(*raised)
        if raised[0] is not None:
            return
        for name, given in self._values.items():
            if self._heard[name] < len(given):
                raise ValueError(
                    f"{name} must be replayed to its end, got {self._heard[name]} releases for "
                    f"{len(given)} values"
                )

    def heard(self, name: str, value: Value) -> Value:
        """The next value of ``name``, or ``value`` where the name is not replayed."""
        if name not in self._values:
            return value
        number = self._heard[name]
        if number == len(self._values[name]):
            raise ValueError(f"{name} must have a value for every release, got only {number}")
        self._heard[name] += 1
        given = self._values[name][number]
        expected, found = _described(value), _described(given)
        if expected != found:
            raise ValueError(f"{name}[{number}] must be {expected} to be replayed, got {found}")
        return jax.tree.map(jnp.asarray, given)


def _number(leaf: ArrayLike) -> np.ndarray:
    if isinstance(leaf, jax.core.Tracer):
        raise ValueError(
            "a tape must hear numbers, got traced values: leave out jax.vmap and jax.jit, and call "
            "run rather than run_many"
        )
    return np.asarray(leaf)


def _described(value: Pytree) -> str:
    leaves, structure = jax.tree.flatten(value)
    kinds = ", ".join(f"{jnp.asarray(leaf).dtype}{list(jnp.shape(leaf))}" for leaf in leaves)
    return f"{kinds} in {structure}"
