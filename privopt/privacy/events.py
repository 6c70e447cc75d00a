"""Events for which dp-accounting has no word, or one that is easily overlooked."""

from __future__ import annotations

from collections.abc import Iterator

import attr
import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, ZCDpEvent

from privopt.arguments import checked
from privopt.privacy.numbers import check_delta, check_epsilon


@checked
def pure_event(epsilon: float) -> ZCDpEvent:
    """The event of any ``epsilon``-DP release: divergences of every order are at most ``epsilon``.

    It says so under every relation, and no accountant reads less into it. Randomised response,
    which dominates the same releases, is read by dp-accounting as if a null record answered
    uniformly, which costs less.

    Examples
    --------
    >>> from privopt import privacy
    >>> round(privacy.epsilon(pure_event(0.5), 0.0, relation="zero_out").upper, 6)
    0.5
    """
    return ZCDpEvent(rho=0.0, xi=check_epsilon(epsilon))


@checked
def approximate_event(epsilon: float, delta: float) -> PublicMixtureDpEvent:
    """The event of any ``(epsilon, delta)``-DP release, however it came to be so.

    With probability ``delta`` everything is told, else one bit, with odds ``e^epsilon`` of being
    right: of this every such release is post-processing, for each pair of neighbours.

    Source: Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", IEEE
    Trans. Inf. Theory 2017 (arXiv:1311.0776), Theorem 3.3.

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
    """A release whose privacy losses, between any two neighbours, span at most ``epsilon``.

    The loss ``ln P(y)/P'(y)`` lies in ``[t - epsilon, t]`` for some ``t`` that depends on the
    neighbours, and may be chosen in the light of earlier releases. The exponential mechanism is
    such, whence the interest: it is ``epsilon``-DP, and composes better than that.

    Source: Durfee and Rogers, "Practical differentially private top-k selection with pay-what-
    you-get composition", NeurIPS 2019 (arXiv:1905.04273).

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

    Released are ``A`` and ``A x + s Z``, where ``A`` has ``m`` rows of independent ``N(0, 1/m)``
    and ``Z`` is standard normal; ``A`` is fresh for every release, drawn independently of the
    data, of the noise and of all that was released before.

    Under every relation the data of two neighbours differ before ``A`` is drawn: by a vector ``v``
    that earlier releases may have influenced, and ``A`` not. So ``m |A v|^2 / |v|^2`` has the
    ``chi^2_m`` law, whatever ``v`` is, and given ``A`` the release is a Gaussian one of distance
    ``|A v| / s``. It is a public mixture, of hockey-stick divergences

        H_gamma = E H_gamma(N(S, 1) || N(0, 1)),    S = (|v| / s) sqrt(chi^2_m / m),

    which increase with ``|v|``: the longest ``v`` is the worst for all ``gamma`` and attained.

    Attributes
    ----------
    noise_multiplier : float
        ``s`` over the bound of one record's contribution to ``x``, in the euclidean norm.
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
    """``event``, seen by data sets that up to ``size`` steps of the relation connect.

    For what no theorem on groups covers (``Release.grouped``): known of it is what ``size`` times
    the triangle inequality tells.
    """

    event: DpEvent
    size: int


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ObjectivePerturbationDpEvent(DpEvent):  # type: ignore[misc]
    """The exact minimiser of a convex objective tilted by Gaussian noise.

    Released is ``argmin_{w in W} sum_i f_i(<x_i, w>) + r(w) + <b, w>``, ``b ~ N(0, s^2 I)``, over
    any closed convex ``W``, with ``r`` public and ``a``-strongly convex. Every ``f_i`` is convex;
    on ``W`` its gradients ``f_i' x_i`` are bounded by ``C`` and the one eigenvalue of its Hessian,
    ``f_i'' |x_i|^2``, by ``h``.

    Between neighbours the privacy loss at the noise ``b`` is at most, with ``m`` the relation's
    ``multiple`` and ``s' = m C / s``, under every relation and in both orders ::

        U = jacobian + s'^2 / 2 + s' |Z|,    Z ~ N(0, 1).

    ``ObjectivePair`` proves it.

    Attributes
    ----------
    noise_multiplier : float
        ``s / C``, standard deviation over the bound of one record's gradient.
    jacobian : float
        ``ln(1 + h / a)``, which no relation changes.

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
    """A coin decides which of several events takes place, and the coin is released.

    Drawn is ``k`` with probability ``p_k``, independently of the data, and released; then
    ``events[k]`` is run on the data. A level of multilevel Monte Carlo is such a coin.

    *The joint release.* With ``(P_k, Q_k)`` the outputs of ``events[k]`` on two neighbours, those
    of the whole are ``sum_k p_k delta_k x P_k`` and ``sum_k p_k delta_k x Q_k``. The parts of
    different ``k`` have disjoint supports, and ``k`` has one law on both data sets, so that

        H_gamma(P || Q) = sum_k p_k H_gamma(P_k || Q_k)        for every gamma > 0.

    A pair that dominates ``events[k]`` may thus stand in its place: the mixture of the dominating
    pairs in disjoint copies dominates the whole, in each order of the neighbours. Its loss has the
    mixture of the laws of the losses. Pairs that dominate compose adaptively; so does the mixture.

    Attributes
    ----------
    events : tuple of DpEvent
        One for each side of the coin; compositions included.
    probabilities : tuple of float
        ``p_k``. A sum that misses one by rounding alone is divided out; if up to 1e-9 is missing,
        nothing is promised with that probability.

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
    """A release, or a run, of which one Renyi divergence is known between any two neighbours.

    ``D_a <= divergence`` at ``a = order > 1`` in both orders of the neighbours, the same under
    every relation. A run that was stopped by a filter of one order is such. Divergences of smaller
    orders are no larger; of larger orders nothing is known.

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
    """The event with tuples for its lists and copies for its arrays, all the way down.

    What holds none is kept as it is. Each object is looked at once, however often it stands in
    the tree, and however deep.
    """
    made: dict[int, DpEvent] = {}
    begun: set[int] = set()
    stack = [event]
    while stack:
        each = stack[-1]
        parts = [] if id(each) in begun else [p for p in _child_events(each) if id(p) not in made]
        begun.add(id(each))
        if parts:
            stack.extend(parts)
            continue
        stack.pop()
        if id(each) not in made:
            changed = {name: _freeze_value(value, made) for name, value in _mutable_fields(each)}
            changed = {k: new for k, new in changed.items() if new is not getattr(each, k)}
            made[id(each)] = attr.evolve(each, **changed) if changed else each
    return made[id(event)]


def _mutable_fields(event: DpEvent) -> Iterator[tuple[str, object]]:
    """Fields that may hold something changeable."""
    if attr.has(type(event)):
        for field in attr.fields(type(event)):
            value = getattr(event, field.name)
            if isinstance(value, DpEvent | list | tuple | np.ndarray):
                yield field.name, value


def _child_events(event: DpEvent) -> Iterator[DpEvent]:
    for _, value in _mutable_fields(event):
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, DpEvent):
                yield each


def _freeze_value(value: object, made: dict[int, DpEvent]) -> object:
    if isinstance(value, DpEvent):
        return made.get(id(value), value)
    if isinstance(value, list | tuple):
        fixed = tuple(_freeze_value(each, made) for each in value)
        same = isinstance(value, tuple) and all(a is b for a, b in zip(fixed, value, strict=True))
        return value if same else fixed
    if isinstance(value, np.ndarray):
        copy = value.copy()
        copy.flags.writeable = False
        return copy
    return value
