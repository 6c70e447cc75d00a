"""Independent and correlated noise."""

from privopt.mechanisms.noise.correlated import (
    BufferedNoise,
    DenseNoise,
    RestartedNoise,
    SeriesNoise,
    correlated_noise,
    noise_of,
)
from privopt.mechanisms.noise.noise import IndependentNoise, Noise, participation_event
from privopt.mechanisms.noise.trees import HonakerNoise, TreeNoise

__all__ = [
    "BufferedNoise",
    "DenseNoise",
    "HonakerNoise",
    "IndependentNoise",
    "Noise",
    "RestartedNoise",
    "SeriesNoise",
    "TreeNoise",
    "correlated_noise",
    "noise_of",
    "participation_event",
]
