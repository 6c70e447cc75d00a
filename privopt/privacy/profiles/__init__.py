"""Privacy profiles of single releases: ``delta(epsilon)`` in closed form, and its inverse."""

from __future__ import annotations

from privopt.privacy.profiles.mixed import Mixed, mixed_profile
from privopt.privacy.profiles.plain import (
    ALL_TOLD,
    NOTHING_TOLD,
    Gaussian,
    RandomisedResponse,
    Revealed,
    around,
    gaussian_profile,
    missing,
    pure_profile,
    reduced,
)
from privopt.privacy.profiles.profile import Profile, inverse
from privopt.privacy.profiles.sampled import ReplacedGaussian, Sampled, sampled_profile

__all__ = [
    "ALL_TOLD",
    "NOTHING_TOLD",
    "Gaussian",
    "Mixed",
    "Profile",
    "RandomisedResponse",
    "ReplacedGaussian",
    "Revealed",
    "Sampled",
    "around",
    "gaussian_profile",
    "inverse",
    "missing",
    "mixed_profile",
    "pure_profile",
    "reduced",
    "sampled_profile",
]
