"""Argument checks. Each error message names the argument, the rule and the value received.

Messages must not contain records or keys. :func:`shown` is the only way to print a value in a
message (a test enforces it); :func:`described` prints the type alone, for values that may be
records.

Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence, Sized
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import cache, wraps
from inspect import Parameter, signature, unwrap
from numbers import Integral, Real
from types import UnionType
from typing import (
    Any,
    Literal,
    Self,
    TypeGuard,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

__all__ = [
    "Catalogue",
    "Names",
    "answering",
    "check_fields",
    "check_keywords",
    "check_type",
    "checked",
    "count",
    "described",
    "flag",
    "instance",
    "member",
    "positive_integer",
    "positive_number",
    "real",
    "shown",
    "suggest_fields",
    "suggestion",
]

_INT32_MAX = 2**31 - 1
_ARGS, _KWARGS = Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD
_POSITIONAL = Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD
_WORDS = {
    float: "a real number",
    int: "an integer",
    bool: "True or False",
    str: "a string",
    type(None): "None",
    Callable: "a function",
    Sequence: "a sequence",
}
_ARRAYS = ("jax", "jaxlib", "numpy")  # packages whose objects are arrays
_LONGEST_SHOWN = 60  # characters

_SYNONYMS = {
    **dict.fromkeys(("eps", "ε", "privacy"), "epsilon"),
    **dict.fromkeys(("d", "dimension", "num_features"), "dim"),
    **dict.fromkeys(("num_samples", "records", "size"), "n"),
    **dict.fromkeys(("s", "nonzeros"), "sparsity"),
    **dict.fromkeys(("t", "iterations", "num_steps", "max_iter"), "steps"),
    **dict.fromkeys(("learning_rate", "lr", "eta"), "step_size"),
    **dict.fromkeys(("l2_norm_clip", "max_grad_norm", "clip"), "clip_norm"),
    **dict.fromkeys(("logreg", "logit", "logistic_regression"), "logistic"),
    **dict.fromkeys(("svm", "hinge_loss"), "hinge"),
    **dict.fromkeys(("linear_regression", "ridge", "mse"), "squared"),
    **dict.fromkeys(("mae", "median"), "absolute"),
}
"""Usual names elsewhere, in lower case, and the names here."""
_OTHER_SYNONYMS = {"squared": "least_squares"}  # one name, two meanings

Kind = TypeVar("Kind")
Function = TypeVar("Function", bound=Callable[..., Any])


class WrongTypeError(TypeError, ValueError):
    """Argument of a wrong type; a ``ValueError`` too, like the errors of scikit-learn."""


class Catalogue(dict[str, Kind]):
    """Objects of one kind by name; an unknown name raises ``KeyError`` with the known names."""

    def __init__(self, kind: str, things: Iterable[tuple[str, Kind]]) -> None:
        super().__init__(things)
        self.kind = kind

    def __missing__(self, name: object) -> Kind:
        names, near = ", ".join(self), suggestion(name, self)
        raise KeyError(f"{self.kind} must be one of {names}, got {shown(name)}{near}")


class Names(StrEnum):
    """Enumeration of the values of an argument.

    ``Relation(value)`` with an unknown value raises an error for the argument ``relation``.
    """

    @classmethod
    def _missing_(cls, value: object) -> Any:
        member(cls.__name__.lower(), value, [each.value for each in cls], cls._synonyms())

    @classmethod
    def named(cls, name: str, value: object) -> Self:
        """Return the member that ``value`` is or names; ``name`` is the argument in messages."""
        member(name, value, [each.value for each in cls], cls._synonyms())
        return cls(str(value))

    @classmethod
    def _synonyms(cls) -> dict[str, str]:
        """Return names from other libraries, in lower case, and their names here."""
        return {}


def real(name: str, value: object) -> float:
    """Return ``value`` as a float."""
    if not _is_real(value):
        raise WrongTypeError(f"{name} must be a real number, got {shown(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must fit into a float, got {shown(value)}") from None


def flag(name: str, value: object) -> bool:
    """Return ``value`` if it is True or False."""
    if not isinstance(value, bool):
        raise WrongTypeError(f"{name} must be True or False, got {shown(value)}")
    return value


def positive_number(name: str, value: object) -> float:
    """Return ``value`` as a positive finite float."""
    if not (_is_real(value) and 0.0 < real(name, value) < math.inf):
        error = ValueError if _is_real(value) else WrongTypeError
        raise error(f"{name} must be positive and finite, got {shown(value)}")
    return real(name, value)


def positive_integer(name: str, value: object) -> int:
    """Return ``value`` as a positive int."""
    if not (_is_whole(value) and int(value) >= 1):
        error = ValueError if _is_real(value) else WrongTypeError
        raise error(f"{name} must be a positive integer, got {shown(value)}")
    return int(value)


def count(name: str, value: object) -> int:
    """Return ``value`` as an int in ``[1, 2^31)``, the range of counters on a device."""
    if not (_is_whole(value) and 1 <= int(value) <= _INT32_MAX):
        error = ValueError if _is_real(value) else WrongTypeError
        raise error(f"{name} must be an integer from 1 to {_INT32_MAX}, got {shown(value)}")
    return int(value)


def instance(name: str, value: object, kind: type[Kind]) -> Kind:
    """Return ``value`` if it has the type ``kind``."""
    if isinstance(value, kind):
        return value
    article = "an" if kind.__name__[0] in "AEIO" else "a"
    raise WrongTypeError(f"{name} must be {article} {kind.__name__}, got {described(value)}")


def answering(name: str, value: Any, members: Iterable[str], names: Iterable[str] = ()) -> Any:
    """Return ``value`` if it is an object, and no class, with all these members.

    ``names`` are the accepted strings, for the message.
    """
    if isinstance(value, type) or not all(hasattr(value, each) for each in members):
        instead = f"be one of {', '.join(names)}, or " if names else ""
        raise WrongTypeError(
            f"{name} must {instead}answer {', '.join(members)}, got {described(value)}"
        )
    return value


def described(value: object) -> str:
    """Return the type of ``value`` as text, without its content."""
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    return f"an object of type {type(value).__name__}"


def shown(value: object) -> str:
    """Return ``value`` as text if it is a short scalar, otherwise its type and length.

    Scalars are None, booleans, real numbers and strings. Arrays and containers may hold records or
    keys; their content is never printed.

    Examples
    --------
    >>> shown(0.5), shown("dp_sgd"), shown([0.5, 0.25])
    ('0.5', "'dp_sgd'", 'an object of type list and length 2')
    """
    if isinstance(value, Names):
        return str(value)
    if value is None or isinstance(value, bool | Real | str):
        plain = getattr(value, "item", lambda: value)()  # repr(np.float64(0.5)) contains its type
        text = repr(plain)
        if len(text) <= _LONGEST_SHOWN:
            return text
    if isinstance(value, Sized) and not isinstance(value, type):
        try:
            return f"{described(value)} and length {len(value)}"
        except TypeError:  # of an array without axes
            pass
    return described(value)


def member(
    name: str, value: object, known: Iterable[str], synonyms: dict[str, str] | None = None
) -> None:
    """Check that ``value`` is one of ``known``; the message suggests the nearest name."""
    names = list(known)
    if not (isinstance(value, str) and value in names):
        hint = suggestion(value, names, synonyms)
        error = ValueError if isinstance(value, str) else WrongTypeError
        raise error(f"{name} must be one of {', '.join(names)}, got {shown(value)}{hint}")


def suggestion(value: object, known: Iterable[str], synonyms: dict[str, str] | None = None) -> str:
    """Return ``"; did you mean dp_gd?"`` for the nearest name, or an empty string."""
    text, names = str(getattr(value, "name", value)).lower(), list(known)
    near = (synonyms or {}).get(text)
    if near is None and text not in names:
        text = _SYNONYMS.get(text, text)
        if text not in names:
            text = _OTHER_SYNONYMS.get(text, text)
    near = near or next(iter(get_close_matches(text, names, n=1)), None)
    return f"; did you mean {near}?" if near else ""


def check_keywords(function: str, keywords: Iterable[str], known: Iterable[str]) -> None:
    """Check that all keyword arguments of a call are known; the message suggests the nearest."""
    names = list(known)
    for name in keywords:
        if name not in names:
            hint = suggestion(name, names)
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def suggest_fields(record: type[Kind]) -> type[Kind]:
    """Decorate a dataclass. The error for an unknown keyword argument suggests a field."""
    construct, names = record.__init__, [field.name for field in fields(record)]  # type: ignore

    @wraps(construct)
    def initialise(self: Kind, *args: Any, **kwargs: Any) -> None:
        check_keywords(record.__name__, kwargs, names)
        construct(self, *args, **kwargs)

    record.__init__ = initialise  # type: ignore[method-assign, assignment]
    return record


def check_fields(name: str, record: Any) -> None:
    """Check the type of every field of a dataclass or NamedTuple, and of nested fields.

    Objects changed with ``_replace`` have no constructor that checks them. A field with a protocol
    as its type must have the members of the protocol.
    """
    kind: Any = type(record)
    for field, hint in _field_types(kind).items():
        path, value = f"{name}.{field}", getattr(record, field)
        check_type(path, value, hint)
        check_fields(path, value)


def checked(function: Function) -> Function:
    """Decorate a public function: check arguments against their annotations before the call.

    ``WrongTypeError`` names the argument, the expected type and the received type. Without the
    check, an error from inside a computation could contain the argument.

    Examples
    --------
    >>> @checked
    ... def half(size: float) -> float:
    ...     return size / 2
    >>> half([1.0])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    privopt.arguments.WrongTypeError: size must be a real number, got an object of type list and...
    """
    parameters, innermost = signature(function).parameters, unwrap(function)
    open_ended = any(each.kind is _KWARGS for each in parameters.values())
    names = {name for name, each in parameters.items() if each.kind not in (_ARGS, _KWARGS)}
    in_order = [name for name in parameters if parameters[name].kind in _POSITIONAL]
    names -= {"key", "keys"}  # ``as_key`` checks keys, with a more specific message

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not open_ended:
            check_keywords(function.__name__, kwargs, parameters)
        types = _annotations(innermost)
        # Python itself tells of missing and repeated arguments; binding them here is slow.
        for name, value in (*zip(in_order, args, strict=False), *kwargs.items()):
            if name in names:
                check_type(name, value, types.get(name, Any))
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def check_type(name: str, value: object, hint: Any) -> None:
    """Check that ``value`` has the type ``hint``, which may be generic: ``Mechanism[Query]``."""
    if not _has_type(value, hint):
        raise WrongTypeError(f"{name} must be {_described_type(hint)}, got {shown(value)}")


def _described_type(hint: Any) -> str:
    """Return a type in words, for an error message."""
    kind, options = _kind(hint), get_args(hint)
    if kind in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_described_type, options)))
    if kind is Literal:
        return f"one of {', '.join(map(str, options))}"
    if isinstance(kind, type) and issubclass(kind, Names):
        return f"one of {', '.join(map(str, kind))}"
    name = getattr(kind, "__name__", str(kind)).split(".")[-1]
    if name.endswith(("Array", "ndarray")):
        return "an array"
    article = "an" if name[0] in "AEIOUaeiou" else "a"
    return _WORDS.get(kind, f"{article} {name}")


def _kind(hint: Any) -> Any:
    """Return the class of a type. Shapes and dtypes of jaxtyping are checked in tests only."""
    hint = getattr(hint, "array_type", hint)
    return get_origin(hint) or hint


def _field_types(kind: Any) -> dict[str, Any]:
    """Return the types of the fields of a record; none for other types."""
    record = is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    return _annotations(kind) if record else {}


@cache
def _annotations(annotated: Any) -> dict[str, Any]:
    try:
        return get_type_hints(annotated)
    except NameError:  # annotations that cannot be resolved
        return {}


def _has_type(value: object, hint: Any) -> bool:
    """Return True if ``value`` has the type ``hint``, or if ``hint`` cannot be checked."""
    if type(value) is hint:  # the usual case, without slow checks of abstract types
        return True
    kind, options = _kind(hint), get_args(hint)
    if isinstance(hint, TypeVar):
        return hint.__bound__ is None or _has_type(value, hint.__bound__)
    if kind in (Union, UnionType):
        return any(_has_type(value, each) for each in options)
    if kind is Literal:
        return value in options
    if kind in (float, int):
        return _is_real(value) if kind is float else _is_whole(value)
    if kind is Callable:
        return callable(value)
    if getattr(kind, "__name__", "").endswith("Array"):  # of JAX; NumPy numbers are accepted too
        letter = getattr(getattr(value, "dtype", None), "kind", None)
        return _is_real(value) or (_is_array(value) and letter not in ("O", "S", "U", "m", "M"))
    if kind in (Sequence, Iterable) and _is_array(value):
        return bool(getattr(value, "ndim", 0))
    if not isinstance(kind, type) or kind in (Any, object, Hashable):
        return True
    if issubclass(kind, Names) and isinstance(value, str):
        return value in list(kind)  # by its name
    if getattr(kind, "_is_protocol", False):
        return not isinstance(value, type) and all(hasattr(value, m) for m in _members(kind))
    if kind is tuple and options and isinstance(value, tuple):
        types = options[:1] * len(value) if options[-1] is Ellipsis else options
        return len(value) == len(types) and all(map(_has_type, value, types))
    if not isinstance(value, kind):
        return False
    fields = _field_types(kind) if options else {}
    parameters = [field for field, each in fields.items() if isinstance(each, TypeVar)]
    return all(_has_type(getattr(value, each), options[0]) for each in parameters)


@cache
def _members(protocol: type) -> tuple[str, ...]:
    """Return the names of the members of a protocol."""
    bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    names = {
        name for base in bases for name in (*vars(base), *vars(base).get("__annotations__", ()))
    }
    return tuple(name for name in names if not name.startswith("_"))


def _is_array(value: object) -> bool:
    return type(value).__module__.split(".")[0] in _ARRAYS


def _is_real(value: object) -> TypeGuard[Real]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_whole(value: object) -> TypeGuard[Integral]:
    return isinstance(value, Integral) and not isinstance(value, bool)
