"""What is added to the answers: one file a kind of noise."""

from privopt.mechanisms.noise.independent import IndependentNoise
from privopt.mechanisms.noise.noise import Noise

__all__ = ["IndependentNoise", "Noise"]
