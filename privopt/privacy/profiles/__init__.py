"""Privacy profiles of single releases: ``delta(epsilon)`` in closed form, and its inverse."""

from __future__ import annotations

from privopt.privacy.profiles.profile import Profile
from privopt.privacy.profiles.release import profile

__all__ = ["Profile", "profile"]
