"""What the options say was released: Gaussian steps, and what is known of their batches."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING

from privopt.spec import Relation

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_MIN_DELTA = 1e-300


class Sampler(StrEnum):
    """How the batch of a step is drawn; ``privopt.privacy.subsample`` has the theorems."""

    POISSON = "poisson"
    WITHOUT_REPLACEMENT = "without_replacement"
    SHUFFLED = "shuffled"


@dataclass(frozen=True)
class Steps:
    """A number of Gaussian steps, each on a batch."""

    count: int
    rate: Fraction | None  # of the records in a batch; None: every step uses all
    fixed: tuple[int, int] | None  # batch and data size, where the rate was given as a fraction
    sampler: Sampler

    def __str__(self) -> str:
        times = _several(self.count, "step")
        if self.rate is None:
            return f"{times} on all records"
        share = f"{self.fixed[0]}/{self.fixed[1]}" if self.fixed else f"{float(self.rate):g}"
        drawn = {
            Sampler.POISSON: f"Poisson samples of rate {share}",
            Sampler.WITHOUT_REPLACEMENT: f"batches of {share} records, without replacement",
            Sampler.SHUFFLED: f"shuffled batches of rate {share}",
        }
        return f"{times} on {drawn[self.sampler]}"

    def event(self, noise: float, relation: Relation) -> tuple[DpEvent, str]:
        """An event that dominates the steps, and why it does not count the sampling if it does not.

        Without a theorem for the sampler under the relation the event says what a record can do
        whose batches are known. Formal guarantee: upper bounds for the event hold for the steps;
        lower bounds only if the reason is empty.
        """
        import dp_accounting as dp

        gaussian = dp.GaussianDpEvent(noise)
        if self.rate is None:
            return dp.SelfComposedDpEvent(gaussian, self.count), ""
        if self.sampler is Sampler.POISSON:
            sampled = dp.PoissonSampledDpEvent(float(self.rate), gaussian)
            return dp.SelfComposedDpEvent(sampled, self.count), ""
        if self.rate == 0:
            return dp.NoOpDpEvent(), ""
        if self.sampler is Sampler.SHUFFLED:
            return self._shuffled(noise, relation)
        return self._fixed(noise, relation)

    def _fixed(self, noise: float, relation: Relation) -> tuple[DpEvent, str]:
        import dp_accounting as dp

        from privopt.privacy import subsample

        assert self.fixed is not None
        size, records = self.fixed
        how = subsample(0.0, 0.0, size / records, sampler=self.sampler.value, relation=relation)
        if how.amplified:
            step = dp.SampledWithoutReplacementDpEvent(records, size, dp.GaussianDpEvent(noise))
            return dp.SelfComposedDpEvent(step, self.count), ""
        # One record in and another out moves a sum by two bounds.
        pushes_out = relation is Relation.ADD_OR_REMOVE_ONE
        step = dp.GaussianDpEvent(0.5 * noise if pushes_out else noise)
        return dp.SelfComposedDpEvent(step, self.count), how.reason

    def _shuffled(self, noise: float, relation: Relation) -> tuple[DpEvent, str]:
        import dp_accounting as dp

        from privopt.privacy import subsample

        assert self.rate is not None
        batches = math.floor(1 / self.rate)  # the fewest an epoch can have: leftovers are dropped
        epochs = -(-self.count // batches)
        epoch = dp.GaussianDpEvent(noise)
        if relation is Relation.ADD_OR_REMOVE_ONE:  # one batch exchanges a record, one loses it
            epoch = dp.ComposedDpEvent([dp.GaussianDpEvent(0.5 * noise), epoch])
        how = subsample(0.0, 0.0, 1.0, sampler=self.sampler.value, relation=relation)
        reason = f"{how.reason}; {_several(epochs, 'epoch')} of {_several(batches, 'batch', 'es')}"
        return dp.SelfComposedDpEvent(epoch, epochs), reason


def read_steps(steps: str, rate: str | None, sampler: Sampler) -> Steps:
    """The steps that ``--steps``, ``--rate`` and ``--sampler`` describe."""
    count = _exactly(steps)
    if count is None or count < 0 or count.denominator != 1:
        raise ValueError(f"steps must be a non-negative integer, got {steps}")
    if rate is None:
        if sampler is not Sampler.POISSON:
            raise ValueError(f"rate must be given for {sampler.value} batches, got none")
        return Steps(int(count), None, None, sampler)
    share = _exactly(rate)
    if share is None:
        raise ValueError(f"rate must be a fraction a/b or a decimal number, got {rate}")
    if not 0 <= share <= 1:
        raise ValueError(f"rate must lie in [0, 1], got {rate}")
    sizes = re.fullmatch(r"\s*(\d+)/(\d+)\s*", rate)
    fixed = (int(sizes[1]), int(sizes[2])) if sizes else None
    if sampler is Sampler.WITHOUT_REPLACEMENT and fixed is None:
        raise ValueError(f"rate must be batch size/data size for {sampler.value}, got {rate}")
    return Steps(int(count), share, fixed, sampler)


def number(name: str, text: str) -> float:
    """A privacy parameter or a noise within its range."""
    exact = _exactly(text) if "/" in text else None
    try:
        value = float(text if exact is None else exact)
    except (ValueError, OverflowError):
        raise ValueError(f"{name} must be a number, got {text}") from None
    if name == "noise" and not 0.0 < value < math.inf:
        raise ValueError(f"noise must be positive and finite, got {text}")
    if name == "epsilon" and not 0.0 <= value < math.inf:
        raise ValueError(f"epsilon must be non-negative and finite, got {text}")
    if name == "delta" and not 0.0 <= value < 1.0:
        raise ValueError(f"delta must lie in [0, 1), got {text}")
    if name == "delta" and value < _MIN_DELTA and _exactly(text) != 0:
        raise ValueError(
            f"delta must be 0 or at least {_MIN_DELTA:g}, below which float64 does not "
            f"resolve it, got {text}"
        )
    return value


def _exactly(text: str) -> Fraction | None:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return None


def _several(count: int, noun: str, ending: str = "s") -> str:
    return f"{count} {noun}{'' if count == 1 else ending}"
