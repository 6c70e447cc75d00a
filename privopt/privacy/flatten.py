"""Flatten a composed event into elementary events with multiplicities, and reduce their number."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import reduce
from operator import and_
from typing import Any, TypeAlias

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.events import PublicMixtureDpEvent
from privopt.privacy.numbers import Interval, check_probabilities, is_count

_COMPOSITIONS = (dp.NoOpDpEvent, dp.ComposedDpEvent, dp.SelfComposedDpEvent, PublicMixtureDpEvent)
_NOISES = (dp.GaussianDpEvent, dp.LaplaceDpEvent)
_MAX_EVENTS = 200  # distinct elementary events that the accountants evaluate one by one
_RELATIVE_WIDTH = 2e-3  # the accuracy of the other accountants
_REASON = "similar steps were replaced by equal ones"

_Children: TypeAlias = tuple[Sequence[dp.DpEvent], int]  # child events, number of repetitions
_Kind: TypeAlias = tuple[Any, ...]  # event types and the parameters that must agree
_Parameters: TypeAlias = tuple[_Kind, float, float]  # kind, noise multiplier, sampling rate


def flatten(event: dp.DpEvent) -> Iterator[tuple[dp.DpEvent, int]]:
    """Yield the elementary events of a composition with their multiplicities.

    The privacy of an adaptive composition depends only on these. No-ops and empty compositions are
    dropped. An event that cannot be decomposed (for example a composition with an invalid count, or
    of more than 1e100 releases) is yielded as is; no accountant supports it. Shared subtrees are
    visited once, so the cost is linear in the number of distinct nodes.

    Events common to all branches of a public mixture are factored out (:ref:`Accountants, Theorem
    16 <theory-accountants-16>`).
    """
    nodes = list(_post_order(event))
    multiplicity: dict[int, int] = defaultdict(int, {id(event): 1})
    # Reversed post-order visits every parent before its children.
    for node, children in reversed(nodes):
        if children is None:
            continue
        events, repetitions = children
        for child in events:
            multiplicity[id(child)] += repetitions * multiplicity[id(node)]
    for node, children in nodes:
        count = multiplicity[id(node)]
        if children is None and count:
            yield (node, count) if is_count(count) else (repeat(node, count), 1)


def first_unsupported(event: dp.DpEvent, supports: Callable[[dp.DpEvent], bool]) -> dp.DpEvent:
    """Return the first elementary event that is not supported, or ``event`` if all are."""
    return next((leaf for leaf, _ in flatten(event) if not supports(leaf)), event)


def repeat(event: dp.DpEvent, count: int) -> dp.DpEvent:
    """Return the ``count``-fold composition of ``event``; ``event`` itself if ``count`` is 1."""
    return event if count == 1 else dp.SelfComposedDpEvent(event, count)


def bounding_events(event: dp.DpEvent) -> tuple[dp.DpEvent, dp.DpEvent]:
    """Return an event that is at most as private as ``event`` and one that is at least as private.

    Both are ``event`` itself if it has at most 200 distinct elementary events. Otherwise releases
    with similar noise multipliers and sampling rates are grouped. A group is replaced by as many
    releases with its least noise and its largest rate (less private), or with its most noise and
    its smallest rate (more private).

    A release reveals less with more noise and with a smaller rate. Proof: :ref:`Accountants,
    Theorem 17 <theory-accountants-17>`.
    """
    elementary = list(flatten(event))
    if len(elementary) <= _MAX_EVENTS:
        return event, event
    counts: dict[_Parameters, int] = defaultdict(int)
    others: list[dp.DpEvent] = []
    for leaf, count in elementary:
        parameters = _parameters(leaf)
        if parameters is None:
            others.append(repeat(leaf, count))
        else:
            counts[parameters] += count
    groups = _group(counts, max(1, _MAX_EVENTS - len(others)))

    def compose(noise: Callable[..., float], rate: Callable[..., float]) -> dp.DpEvent:
        events = []
        for members in groups:
            kinds, noises, rates = zip(*members, strict=True)
            release = _make_event(kinds[0], noise(noises), rate(rates))
            events.append(repeat(release, sum(counts[each] for each in members)))
        return dp.ComposedDpEvent(events + others)

    less_private = compose(min, max)
    return less_private, less_private if len(counts) == len(groups) else compose(max, min)


def distinct_bounds(event: dp.DpEvent) -> tuple[dp.DpEvent, ...]:
    """Return the two ``bounding_events``, or the event alone if both are the event itself."""
    less_private, more_private = bounding_events(event)
    same = more_private is less_private
    return (less_private,) if same else (less_private, more_private)


def combine_bounds(
    evaluate: Callable[[dp.DpEvent], Interval], ends: tuple[dp.DpEvent, dp.DpEvent]
) -> Interval:
    """Return bounds for an event from those for its two ``bounding_events``."""
    less_private, more_private = ends
    result = evaluate(less_private)
    if more_private is less_private:
        return result
    lower = min(evaluate(more_private).lower, result.upper)
    if result.upper - lower <= _RELATIVE_WIDTH * result.upper < math.inf:
        return Interval(lower, result.upper)
    return Interval(lower, result.upper, result.reason or _REASON)


def _post_order(event: dp.DpEvent) -> Iterator[tuple[dp.DpEvent, _Children | None]]:
    """Yield every node once, children before parents, with its children (None for a leaf)."""
    visited: set[int] = set()
    stack: list[tuple[dp.DpEvent, bool, _Children | None]] = [(event, False, None)]
    while stack:
        node, expanded, children = stack.pop()
        if expanded:
            yield node, children
        elif id(node) not in visited:
            visited.add(id(node))
            children = _children(node) if isinstance(node, _COMPOSITIONS) else None
            if children is None:
                yield node, None
                continue
            stack.append((node, True, children))
            stack.extend((child, False, None) for child in reversed(children[0]))


def _children(event: dp.DpEvent) -> _Children | None:
    """Return the children of a composition and their repetitions, or None for other events."""
    match event:
        case dp.NoOpDpEvent():
            return (), 0
        case dp.ComposedDpEvent(events=list() | tuple() as events):
            return events, 1
        case dp.SelfComposedDpEvent(event=child, count=count) if is_count(count):
            return (child,), int(count)
        case PublicMixtureDpEvent(events=list() | tuple() as events, probabilities=probabilities):
            return _factor_out_common(events, probabilities)
    return None


def _factor_out_common(
    branches: Sequence[dp.DpEvent], probabilities: Sequence[float]
) -> _Children | None:
    """Split a mixture into the events common to all branches and a mixture of the remainders.

    Return None if there are no common events or the probabilities are invalid.
    """
    checked = check_probabilities(probabilities)
    if checked is None or len(probabilities) != len(branches):
        return None
    representative: dict[Hashable, dp.DpEvent] = {}

    def count_events(branch: dp.DpEvent) -> Counter[Hashable]:
        counts: Counter[Hashable] = Counter()
        for leaf, count in flatten(branch):
            counts[key := _key(leaf)] += count
            representative[key] = leaf
        return counts

    def compose(counts: Counter[Hashable]) -> dp.DpEvent:
        events = [repeat(representative[key], count) for key, count in counts.items()]
        return events[0] if len(events) == 1 else dp.ComposedDpEvent(events)

    weighted = [
        (count_events(branch), weight)
        for branch, weight in zip(branches, probabilities, strict=True)
        if weight > 0.0
    ]
    counters, weights = zip(*weighted, strict=True)
    common = reduce(and_, counters)
    if not common:
        return None
    remainders = [counter - common for counter in counters]
    if not any(remainders) and checked[1] == 0.0:
        return (compose(common),), 1
    return (compose(common), PublicMixtureDpEvent(tuple(map(compose, remainders)), weights)), 1


def _key(leaf: dp.DpEvent) -> Hashable:
    """Return a hashable key: the event, or its identity if it contains lists or arrays."""
    try:
        hash(leaf)
    except TypeError:
        return id(leaf)
    return leaf


def _parameters(leaf: dp.DpEvent) -> _Parameters | None:
    """Return kind, noise and rate of a release, or None if it cannot be grouped with others."""
    kind: _Kind = (type(leaf),)
    inner, rate = leaf, 1.0
    if isinstance(leaf, dp.PoissonSampledDpEvent):
        inner, rate = leaf.event, leaf.sampling_probability
        kind = dp.PoissonSampledDpEvent, type(inner)
    elif isinstance(leaf, dp.SampledWithoutReplacementDpEvent):
        inner = leaf.event
        batch = leaf.source_dataset_size, leaf.sample_size
        kind = dp.SampledWithoutReplacementDpEvent, type(inner), *batch
    if type(inner) not in _NOISES:
        return None
    noise = inner.noise_multiplier
    valid = all(isinstance(each, float) and 0.0 < each < math.inf for each in (noise, rate))
    return (kind, noise, rate) if valid and rate <= 1.0 else None


def _make_event(kind: _Kind, noise: float, rate: float) -> dp.DpEvent:
    """Return the release of a kind with this noise and rate."""
    if kind[0] is dp.PoissonSampledDpEvent:
        return dp.PoissonSampledDpEvent(rate, kind[1](noise))
    if kind[0] is dp.SampledWithoutReplacementDpEvent:
        return dp.SampledWithoutReplacementDpEvent(kind[2], kind[3], kind[1](noise))
    return kind[0](noise)


def _group(counts: dict[_Parameters, int], limit: int) -> list[list[_Parameters]]:
    """Group releases by kind, and halve the costliest group until there are ``limit`` groups.

    A group is halved along the longer of its logarithmic sides. Its cost is its spread times its
    approximate squared privacy loss.
    """
    releases = list(counts)
    _, noises, rates = zip(*releases, strict=True) if releases else ((), (), ())
    noise, rate = np.array(noises, dtype=np.float64), np.array(rates, dtype=np.float64)
    weight = np.minimum(rate / noise, 1e50) ** 2
    weight *= np.array([min(count, 10**15) for count in counts.values()], dtype=np.float64)
    logs = np.log(np.stack([noise, rate], axis=1))
    heap: list[tuple[float, int, npt.NDArray[np.intp]]] = []

    def push(members: npt.NDArray[np.intp]) -> None:
        spread = float(np.ptp(logs[members], axis=0).sum())
        cost = max(spread * float(weight[members].sum()), 1e-300) if spread > 0.0 else 0.0
        heapq.heappush(heap, (-cost, int(members[0]), members))

    kinds: dict[_Kind, list[int]] = defaultdict(list)
    for i, (kind, _, _) in enumerate(releases):
        kinds[kind].append(i)
    for members in kinds.values():
        push(np.array(members))
    while heap and heap[0][0] < 0.0 and len(heap) < limit:
        _, _, widest = heapq.heappop(heap)
        rows = logs[widest]
        side = rows[:, np.argmax(np.ptp(rows, axis=0))]
        low = side <= 0.5 * (side.min() + side.max())
        if low.all():  # neighbouring floats
            low = side == side.min()
        push(widest[low])
        push(widest[~low])
    return [[releases[i] for i in members] for _, _, members in heap]
