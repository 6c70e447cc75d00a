"""The two questions to a privacy curve: epsilon at a delta, delta at an epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from privopt.privacy.fourier.composition import Composition
from privopt.privacy.fourier.window import Saddle, Sketch

_ROUNDING = 2.0**-40  # relative; sums of a few products


@dataclass(frozen=True)
class AtDelta:
    """The smallest ``epsilon >= 0`` with ``delta(epsilon) <= delta``.

    ``worst`` is an answer that is never too low.
    """

    delta: float
    infinite: float
    worst = math.inf

    def saddle(self, sketch: Sketch) -> Saddle:
        """The tilt whose estimate of delta, less the mass of infinite loss, is the one given."""
        return sketch.with_delta(math.log(self.delta - self.infinite))

    def reached(self, saddle: Saddle) -> bool:
        """Whether the sketch extends as far as the saddle was looked for."""
        return True

    def estimate(self, saddle: Saddle) -> float:
        """The answer of the saddle-point approximation: the centre of the window."""
        return saddle.mean

    def most(self, largest: float) -> float:
        """The answer is no more than this if no loss exceeds ``largest``."""
        return max(0.0, largest) * (1.0 + _ROUNDING)

    def scale(self, saddle: Saddle, answer: float) -> float:
        """What an accuracy is relative to: the answer; close to zero, a part of the spread."""
        return max(answer, 0.05 * saddle.deviation)

    def slope(self, saddle: Saddle, fall: float) -> float:
        """Relative change of the answer when every loss moves by one unit: ``1 / scale``."""
        return 1.0 / self.scale(saddle, saddle.mean)

    def place(self, answer: float) -> tuple[float, float]:
        """The point of the curve that an answer means: ``epsilon`` and ``ln delta``."""
        return answer, math.log(self.delta - self.infinite)

    def read(self, composition: Composition, sign: float, blur: float) -> float:
        """Where the curve passes delta; errors are against it, or in its favour (``sign = -1``)."""
        return max(0.0, composition.epsilon(self.delta, sign) + sign * blur)


@dataclass(frozen=True)
class AtEpsilon:
    """``delta(epsilon)``; its methods answer as those of ``AtDelta`` do."""

    epsilon: float
    worst = 1.0

    def saddle(self, sketch: Sketch) -> Saddle:
        return sketch.with_mean(self.epsilon)

    def reached(self, saddle: Saddle) -> bool:
        return saddle.mean >= self.epsilon - 0.1 * saddle.deviation

    def estimate(self, saddle: Saddle) -> float:
        return math.exp(max(saddle.log_delta, -700.0))

    def most(self, largest: float) -> float:
        above = max(0.0, largest) * (1.0 + _ROUNDING) - self.epsilon
        return min(1.0, -math.expm1(-max(0.0, above)) * (1.0 + _ROUNDING))

    def scale(self, saddle: Saddle, answer: float) -> float:
        return answer

    def slope(self, saddle: Saddle, fall: float) -> float:
        # As steep as the curve falls; little beyond it
        return 1.0 if saddle.mean < self.epsilon - 3.0 * saddle.deviation else fall

    def place(self, answer: float) -> tuple[float, float]:
        return self.epsilon, math.log(answer) if answer > 0.0 else -math.inf

    def read(self, composition: Composition, sign: float, blur: float) -> float:
        return composition.delta(self.epsilon - sign * blur, sign)


Query: TypeAlias = AtDelta | AtEpsilon
