"""Privacy on the host: guarantees, accountants and calibration in float64, never JAX."""

from __future__ import annotations

from privopt.privacy.accountants import (
    ACCOUNTANTS,
    ZCDP,
    Accountant,
    Fourier,
    GaussianDP,
    NonPrivate,
    PureDP,
    Renyi,
    Respondent,
)
from privopt.privacy.amplification import Sampler, Subsampled, group_privacy, subsample
from privopt.privacy.calibration import (
    calibrate,
    compressed_noise_multiplier,
    gaussian_noise_multiplier,
    pure_noise_multiplier,
)
from privopt.privacy.events import (
    BoundedRangeDpEvent,
    CompressedGaussianDpEvent,
    ObjectivePerturbationDpEvent,
    PublicMixtureDpEvent,
    RenyiDpEvent,
    approximate_event,
    pure_event,
)
from privopt.privacy.filters import GaussianFilter
from privopt.privacy.gaussian import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_trade_off,
)
from privopt.privacy.guarantee import (
    Guarantee,
    UnsupportedEventError,
    delta,
    epsilon,
    supports,
    trade_off,
)
from privopt.privacy.mechanisms.base import Release, renyi_divergence
from privopt.privacy.mechanisms.selection import Repetitions, select_best, selection_epsilon
from privopt.privacy.numbers import Interval, round_down, round_up

__all__ = [
    "ACCOUNTANTS",
    "ZCDP",
    "Accountant",
    "BoundedRangeDpEvent",
    "CompressedGaussianDpEvent",
    "Fourier",
    "GaussianDP",
    "GaussianFilter",
    "Guarantee",
    "Interval",
    "NonPrivate",
    "ObjectivePerturbationDpEvent",
    "PublicMixtureDpEvent",
    "PureDP",
    "Release",
    "Renyi",
    "RenyiDpEvent",
    "Repetitions",
    "Respondent",
    "Sampler",
    "Subsampled",
    "UnsupportedEventError",
    "approximate_event",
    "calibrate",
    "compressed_noise_multiplier",
    "delta",
    "epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_noise_multiplier",
    "gaussian_trade_off",
    "group_privacy",
    "pure_event",
    "pure_noise_multiplier",
    "renyi_divergence",
    "round_down",
    "round_up",
    "select_best",
    "selection_epsilon",
    "subsample",
    "supports",
    "trade_off",
]
