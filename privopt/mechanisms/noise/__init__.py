"""What is added to the answers: one file a kind of noise."""

from privopt.mechanisms.noise.buffered import BufferedNoise
from privopt.mechanisms.noise.dense import DenseNoise
from privopt.mechanisms.noise.event import participation_event
from privopt.mechanisms.noise.honaker import HonakerNoise
from privopt.mechanisms.noise.independent import IndependentNoise
from privopt.mechanisms.noise.noise import Noise
from privopt.mechanisms.noise.of_factorisation import correlated_noise, noise_of
from privopt.mechanisms.noise.restarted import RestartedNoise
from privopt.mechanisms.noise.series import SeriesNoise
from privopt.mechanisms.noise.tree import TreeNoise

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
