"""One setting for every test: strict numerics, two host devices, no display, no chance."""

import os

os.environ["MPLBACKEND"] = "Agg"
os.environ["XLA_FLAGS"] = " ".join(
    (os.environ.get("XLA_FLAGS", ""), "--xla_force_host_platform_device_count=2")
).strip()

import jax
from hypothesis import settings

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_legacy_prng_key", "error")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

settings.register_profile(
    "privopt", derandomize=True, max_examples=30, deadline=None, database=None
)
settings.load_profile("privopt")
