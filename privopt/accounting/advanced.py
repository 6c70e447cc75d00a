"""Accountant of advanced composition, in the two forms in use.

With slack ``delta'`` the composition of ``(epsilon_t, delta_t)``-DP releases is
``(epsilon, delta' + sum delta_t)``-DP for

    epsilon = drift + sqrt(2 ln(1 / delta') sum epsilon_t^2).

The drift, which stands outside the root, bounds the expected loss:

- ``kov``: ``sum epsilon_t (e^epsilon_t - 1) / (e^epsilon_t + 1)``, that of randomised response;
- ``drv``: ``sum epsilon_t (e^epsilon_t - 1)``, the original, never smaller.

Proof for unequal releases: up to ``delta_t`` each is a post-processing of randomised response
with ``epsilon_t``, whose losses are independent, lie in ``[-epsilon_t, epsilon_t]`` and have the
mean ``epsilon_t tanh(epsilon_t / 2)``; Hoeffding's inequality bounds the probability that their
sum exceeds ``epsilon`` by ``delta'``.

Sources: Dwork and Roth, "The algorithmic foundations of differential privacy", 2014, Theorem 3.20
(after Dwork, Rothblum and Vadhan, FOCS 2010); Kairouz, Oh and Viswanath, "The composition
theorem for differential privacy", IEEE Trans. Inf. Theory 2017 (arXiv:1311.0776). Prints with the
drift inside the root, or with ``e^(epsilon + 1)`` for ``e^epsilon + 1``, are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from privopt.privacy.accountants.basic import Basic
from privopt.privacy.accountants.profiled import Parts, Profiled, splits
from privopt.privacy.arguments import check_count, check_epsilon, real
from privopt.privacy.sums import SMALLEST, half_square, total

__all__ = ["Advanced", "advanced_epsilon"]

_ROUNDING = 2.0**-48  # relative; sums of positive terms, each within a few units of 2^-53
_FORMS = ("kov", "drv")
_BASIC = Basic()


@dataclass(frozen=True)
class Advanced(Profiled):
    """The better of advanced and basic composition.

    The releases that are not pure share a fraction of ``delta`` equally, the rest is slack; of
    eight fixed fractions the best is taken.

    Parameters
    ----------
    form : str
        ``"kov"`` or ``"drv"``.

    Formal guarantee
    ----------------
    That of ``Profiled``, under every relation that the profiles know.

    Raises
    ------
    ValueError
        If ``form`` is neither.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> from privopt.spec import Relation
    >>> releases = dp.SelfComposedDpEvent(dp.LaplaceDpEvent(100.0), 1000)
    >>> round(Advanced().epsilon(releases, Relation.ZERO_OUT, 1e-6).upper, 3)
    1.712
    """

    form: str = "kov"

    def __post_init__(self) -> None:
        _check_form(self.form)

    @property
    def name(self) -> str:  # type: ignore[override]
        """What reports call this accountant: the two forms apart."""
        return f"advanced composition ({self.form.upper()})"

    def bound(self, parts: Parts, delta: float) -> float:
        """The smallest ``epsilon`` over all splits, and basic composition."""
        proved = [_bound(losses, slack, self.form) for losses, slack in splits(parts, delta)]
        return min([_BASIC.bound(parts, delta), *proved])


def advanced_epsilon(
    epsilons: Iterable[tuple[float, int]], slack: float, form: str = "kov"
) -> float:
    """``epsilon`` of a composition with slack ``delta'``, rounded up.

    Parameters
    ----------
    epsilons : iterable of (float, int)
        ``epsilon_t`` of each kind of release, and how many there are of it.
    slack : float
        ``delta'``, in ``(0, 1)``.
    form : str
        ``"kov"`` or ``"drv"``. Neither takes the minimum with ``sum epsilon_t``.

    Formal guarantee
    ----------------
    If each release is ``(epsilon_t, delta_t)``-DP under a relation, their adaptive composition is
    ``(result, slack + sum delta_t)``-DP under it.

    Raises
    ------
    ValueError
        If a number is out of range, or ``form`` unknown.
    """
    slack = real("slack", slack)
    if not 0.0 < slack < 1.0:
        raise ValueError(f"slack must lie in (0, 1), got {slack!r}")
    _check_form(form)
    losses = [(check_epsilon(each), check_count("count", count)) for each, count in epsilons]
    return _bound(losses, slack, form)


def _bound(losses: list[tuple[float, int]], slack: float, form: str) -> float:
    if max((epsilon for epsilon, _ in losses), default=0.0) > 700.0:
        return math.inf
    losses = [(epsilon, count) for epsilon, count in losses if epsilon > 0.0]
    drift = total(
        (max(epsilon * _mean(epsilon, form), SMALLEST), count) for epsilon, count in losses
    )
    squares = total((2.0 * half_square(epsilon), count) for epsilon, count in losses)
    return (drift + math.sqrt(-2.0 * math.log(slack)) * math.sqrt(squares)) * (1.0 + _ROUNDING)


def _mean(epsilon: float, form: str) -> float:
    return math.tanh(0.5 * epsilon) if form == "kov" else math.expm1(epsilon)


def _check_form(form: str) -> None:
    if form not in _FORMS:
        raise ValueError(f"form must be one of {', '.join(_FORMS)}, got {form!r}")
