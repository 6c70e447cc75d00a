"""Privacy events that dp-accounting does not define.

An event describes a release: the kind of mechanism and its parameters. Compositions are trees of
events. The mechanisms in ``privopt.privacy.mechanisms`` state the privacy of every kind.
"""

from __future__ import annotations

from collections.abc import Iterator

import attr
import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, ZCDpEvent

from privopt.arguments import checked
from privopt.privacy.numbers import check_delta, check_epsilon


@checked
def pure_event(epsilon: float) -> ZCDpEvent:
    """Return the event of any ``epsilon``-DP release. All its divergences are at most ``epsilon``.

    It holds under every relation, and no accountant assumes less. Randomised response dominates
    the same releases, but dp-accounting lets a null record answer uniformly, which costs less.

    Examples
    --------
    >>> from privopt import privacy
    >>> round(privacy.epsilon(pure_event(0.5), 0.0, relation="zero_out").upper, 6)
    0.5
    """
    return ZCDpEvent(rho=0.0, xi=check_epsilon(epsilon))


@checked
def approximate_event(epsilon: float, delta: float) -> PublicMixtureDpEvent:
    """Return the event of any ``(epsilon, delta)``-DP release.

    With probability ``delta`` everything is revealed. Otherwise one bit is, which is correct with
    odds ``e^epsilon``. Every ``(epsilon, delta)``-DP release is a post-processing of this one, for
    each pair of neighbours.

    Source: Kairouz, Oh and Viswanath 2017 (arXiv:1311.0776), Theorem 3.3.

    Examples
    --------
    >>> from privopt import privacy
    >>> release = approximate_event(0.5, 1e-6)
    >>> round(privacy.epsilon(release, 1.01e-6, relation="zero_out").upper, 5)
    0.5
    """
    delta = check_delta(delta)
    return PublicMixtureDpEvent((GaussianDpEvent(0.0), pure_event(epsilon)), (delta, 1.0 - delta))


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BoundedRangeDpEvent(DpEvent):  # type: ignore[misc]
    """A release with privacy losses between any two neighbours that span at most ``epsilon``.

    The loss ``ln P(y)/P'(y)`` is in ``[t - epsilon, t]`` for some ``t`` that depends on the
    neighbours and on earlier releases. The exponential mechanism is an example: it is
    ``epsilon``-DP, and composes better than ``epsilon``-DP implies.

    Source: Durfee and Rogers 2019 (arXiv:1905.04273).

    Examples
    --------
    >>> from privopt import privacy
    >>> round(privacy.epsilon(BoundedRangeDpEvent(0.5), 0.0, relation="zero_out").upper, 6)
    0.5
    """

    epsilon: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class CompressedGaussianDpEvent(DpEvent):  # type: ignore[misc]
    """Random measurements of a vector with Gaussian noise, and the measurement matrix.

    The release is ``A`` and ``A x + s Z``, where ``A`` has ``m`` rows of independent ``N(0, 1/m)``
    entries and ``Z`` is standard normal. ``A`` is new for every release and independent of the
    data, of the noise and of all earlier releases.

    It is a public mixture of Gaussian releases with the hockey-stick divergences

        H_gamma = E H_gamma(N(S, 1) || N(0, 1)),    S = (|v| / s) sqrt(chi^2_m / m),

    where ``v`` is the difference of the data, and attained. Proof: :ref:`Accountants, Theorem 15
    <theory-accountants-15>`.

    Attributes
    ----------
    noise_multiplier : float
        ``s`` divided by the per-record sensitivity of ``x`` in the euclidean norm.
    measurements : int
        ``m``, at least one.

    Examples
    --------
    >>> from privopt import privacy
    >>> few = CompressedGaussianDpEvent(noise_multiplier=4.2247, measurements=20)
    >>> round(privacy.epsilon(few, 1e-6, relation="zero_out").upper, 2)
    1.18
    """

    noise_multiplier: float
    measurements: int


@attr.s(frozen=True, slots=True, auto_attribs=True)
class GroupDpEvent(DpEvent):  # type: ignore[misc]
    """``event`` for data sets that differ by up to ``size`` steps of the relation.

    It is used for releases without a theorem on groups (``Release.grouped``). The bounds follow
    from ``size`` applications of the triangle inequality.
    """

    event: DpEvent
    size: int


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ObjectivePerturbationDpEvent(DpEvent):  # type: ignore[misc]
    """The exact minimiser of a convex objective with a Gaussian linear term.

    The release is ``argmin_{w in W} sum_i f_i(<x_i, w>) + r(w) + <b, w>`` with ``b ~ N(0, s^2 I)``,
    for any closed convex ``W`` and a public, ``a``-strongly convex ``r``. Every ``f_i`` is convex.
    On ``W`` its gradients ``f_i' x_i`` are bounded by ``C``, and the only nonzero eigenvalue of its
    Hessian, ``f_i'' |x_i|^2``, by ``h``.

    Let ``m`` be the ``multiple`` of the relation and ``s' = m C / s``. The privacy loss at the
    noise ``b`` between neighbours is at most, under every relation and in both orders ::

        U = jacobian + s'^2 / 2 + s' |Z|,    Z ~ N(0, 1).

    Proof: :ref:`Accountants, Theorem 14 <theory-accountants-14>`.

    Attributes
    ----------
    noise_multiplier : float
        ``s / C``, the standard deviation divided by the bound of a gradient.
    jacobian : float
        ``ln(1 + h / a)``, for every relation.

    Examples
    --------
    >>> from privopt import privacy
    >>> minimiser = ObjectivePerturbationDpEvent(noise_multiplier=4.0, jacobian=0.1)
    >>> round(privacy.epsilon(minimiser, 1e-6, relation="zero_out").upper, 3)
    1.198
    """

    noise_multiplier: float
    jacobian: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PublicMixtureDpEvent(DpEvent):  # type: ignore[misc]
    """A public random choice of one of several events.

    An index ``k`` is drawn with probability ``p_k``, independently of the data, and released. Then
    ``events[k]`` is run on the data. The level of multilevel Monte Carlo is such an index.

    With ``(P_k, Q_k)`` the output laws of ``events[k]`` on two neighbours, the mixture has

        H_gamma(P || Q) = sum_k p_k H_gamma(P_k || Q_k)        for every gamma > 0.

    The law of its loss is the mixture of the laws of the losses, in each order of the neighbours.
    Proof: :ref:`Accountants, Theorem 16 <theory-accountants-16>`.

    Attributes
    ----------
    events : tuple of DpEvent
        One event for each ``k``; compositions are allowed.
    probabilities : tuple of float
        ``p_k``. A sum that differs from one by rounding only is normalised. If up to 1e-9 is
        missing, everything is revealed with the missing probability.

    Examples
    --------
    >>> from dp_accounting import GaussianDpEvent
    >>> from privopt import privacy
    >>> coin = PublicMixtureDpEvent((GaussianDpEvent(2.0), GaussianDpEvent(4.0)), (0.25, 0.75))
    >>> round(privacy.delta(coin, 1.0, relation="zero_out").upper, 6)
    0.00171
    """

    events: tuple[DpEvent, ...]
    probabilities: tuple[float, ...]


@attr.s(frozen=True, slots=True, auto_attribs=True)
class RenyiDpEvent(DpEvent):  # type: ignore[misc]
    """A release with a known Rényi divergence of one order between any two neighbours.

    ``D_a <= divergence`` for ``a = order > 1``, in both orders of the neighbours and under every
    relation. An example is a run that is stopped by a filter of one order. Divergences of smaller
    orders are no larger. Divergences of larger orders are unknown.

    Examples
    --------
    >>> from privopt import privacy
    >>> run = RenyiDpEvent(order=32.0, divergence=0.5)
    >>> round(privacy.epsilon(run, 1e-6, relation="zero_out").upper, 3)
    0.802
    """

    order: float
    divergence: float


def freeze(event: DpEvent) -> DpEvent:
    """Return the event with its lists replaced by tuples and its arrays by read-only copies.

    Events without lists and arrays are returned as they are. Shared subtrees are visited once, and
    the depth of the tree is not limited.
    """
    frozen: dict[int, DpEvent] = {}
    expanded: set[int] = set()
    stack = [event]
    while stack:
        node = stack[-1]
        children = [] if id(node) in expanded else list(_children(node))
        expanded.add(id(node))
        if pending := [child for child in children if id(child) not in frozen]:
            stack.extend(pending)
            continue
        stack.pop()
        if id(node) not in frozen:
            fields = {name: _freeze_value(value, frozen) for name, value in _mutable_fields(node)}
            fields = {name: new for name, new in fields.items() if new is not getattr(node, name)}
            frozen[id(node)] = attr.evolve(node, **fields) if fields else node
    return frozen[id(event)]


def _mutable_fields(event: DpEvent) -> Iterator[tuple[str, object]]:
    """Yield the fields that may contain mutable values."""
    if attr.has(type(event)):
        for field in attr.fields(type(event)):
            value = getattr(event, field.name)
            if isinstance(value, DpEvent | list | tuple | np.ndarray):
                yield field.name, value


def _children(event: DpEvent) -> Iterator[DpEvent]:
    for _, value in _mutable_fields(event):
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, DpEvent):
                yield each


def _freeze_value(value: object, frozen: dict[int, DpEvent]) -> object:
    if isinstance(value, DpEvent):
        return frozen.get(id(value), value)
    if isinstance(value, list | tuple):
        entries = tuple(_freeze_value(each, frozen) for each in value)
        same = isinstance(value, tuple) and all(a is b for a, b in zip(entries, value, strict=True))
        return value if same else entries
    if isinstance(value, np.ndarray):
        copy = value.copy()
        copy.flags.writeable = False
        return copy
    return value
