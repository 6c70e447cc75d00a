"""Settings of the compiler in the tests: an ``optimised`` test compiles as a user does."""

import os

import jax
import pytest
from jax._src import compiler

double = jax.jit(lambda x: x + x)


def compiled(monkeypatch):
    """Return the options with which the program of ``double`` is compiled now, if it is."""
    found, original = [], compiler.compile_or_get_cached

    def recorded(backend, computation, devices, options, *rest, **others):
        found.append(options)
        return original(backend, computation, devices, options, *rest, **others)

    monkeypatch.setattr(compiler, "compile_or_get_cached", recorded)
    assert double(1.0).item() == 2.0
    assert double(3.0).item() == 6.0
    return found


def level(options):
    return options.executable_build_options.debug_options.xla_backend_optimization_level


def test_by_default_a_program_is_not_optimised(monkeypatch):
    (options,) = compiled(monkeypatch)
    assert level(options) == 0


@pytest.mark.optimised
def test_an_optimised_test_compiles_the_same_program_anew(monkeypatch):
    (options,) = compiled(monkeypatch)
    assert level(options) > 0
    changed = {name for name, _ in options.env_option_overrides}
    for name in ("xla_cpu_use_fusion_emitters", "xla_cpu_parallel_codegen_split_count"):
        assert (name in changed) == (f"--{name}=" in os.environ["XLA_FLAGS"])
