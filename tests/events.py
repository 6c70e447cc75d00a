"""Events of the tests of privacy, with short names."""

import math

import dp_accounting as dp
import pytest

from privopt.spec import Relation

ADD, OUT, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.ZERO_OUT, Relation.REPLACE_ONE
EVERY_RELATION = pytest.mark.parametrize("relation", list(Relation))

Gaussian, Laplace = dp.GaussianDpEvent, dp.LaplaceDpEvent
Poisson, FixedSize = dp.PoissonSampledDpEvent, dp.SampledWithoutReplacementDpEvent
Response, Tree = dp.RandomizedResponseDpEvent, dp.SingleEpochTreeAggregationDpEvent
Times, Together = dp.SelfComposedDpEvent, dp.ComposedDpEvent


def sgd(noise, rate, steps=1):
    """Return Gaussian noise on Poisson samples, composed ``steps`` times."""
    return Times(Poisson(rate, Gaussian(noise)), steps)


def fixed_size(size, batch, noise, steps=1):
    """Return Gaussian noise on batches of fixed size, composed ``steps`` times."""
    return Times(FixedSize(size, batch, Gaussian(noise)), steps)


def bit(epsilon):
    """Return probability under P and loss of the two answers of a pure release."""
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    return [(truth, epsilon), (1.0 - truth, -epsilon)]
