"""Time of a step of correlated noise in a loop inside ``jit``: privopt and jax-privacy.

    python benchmarks/streams.py [--repeats 5]

Correlated noise is also compared with independent noise. Times are processor seconds of one thread,
of loops without other work: every step adds noise to a gradient of zeros and the answer to a sum.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median

import jax
import jax.numpy as jnp
import numpy as np
import workload
from compilations import COMPILED
from jax import Array
from peers import jax_privacy_streams as peer
from timing import interleaved, print_measured, ratio

from privopt import Budget, Execution, dp_ftrl, run_many
from privopt.factorisations import Factorisation, factorise
from privopt.mechanisms import IndependentNoise, Noise, TreeNoise, correlated_noise, noise_of

BANDS, DIM, STEPS = (16, 64), 10_000, 100
DIMS, NUMBERS = (1_000, 10_000, 100_000), 2_000_000  # coordinates, and numbers in one call
LONG, SHORT, SEEDS = 1_000_000, 100, 100  # steps, coordinates, seeds in one call
KEY = jax.random.key(0)


def kinds() -> dict[str, Noise]:
    """Return the noises that are compared with independent noise in every step."""
    return {
        "independent": IndependentNoise(),
        "tree": TreeNoise(),
        "tree without memory": TreeNoise(0),
        "honaker": noise_of("honaker", LONG),
        "banded inverse, 16": noise_of("banded_inverse", LONG, band=16),
        "banded, 16": noise_of("banded", LONG, band=16),
        "buffered, 5": noise_of("buffered", LONG, band=5),
    }


def noisy(noise: Noise, key: Array, gradient: Array, steps: int) -> Array:
    """Return the sum of the noisy gradients."""

    def step(t, carried):
        total, state = carried
        z, state = noise.update(state, t, key, gradient)
        return total + (gradient + z), state

    return jax.lax.fori_loop(0, steps, step, (gradient, noise.init(gradient)))[0]


stream = jax.jit(noisy, static_argnames="steps")


@partial(jax.jit, static_argnames="steps")
def noises(noise: Noise, key: Array, like: Array, *, steps: int) -> Array:
    """Return the noise of all steps in order."""

    def step(state, t):
        return noise.update(state, t, key, like)[::-1]

    return jax.lax.scan(step, noise.init(like), jnp.arange(steps))[1]


def streamed(noise: Noise, dim: int, steps: int) -> Callable[[], Array]:
    """Return a call without arguments that runs all steps."""
    zeros = jnp.zeros(dim)
    return lambda: stream(noise, KEY, zeros, steps=steps)


def whitened(noise: Array, factorisation: Factorisation) -> dict:
    """Return ``C z``, which is white if the noise has the law of the factorisation.

    Its mean square has a standard error of 0.14%; the largest of 4,950 correlations of steps is
    about 0.04.
    """
    white = factorisation.encoder() @ np.asarray(noise, np.float64)
    correlation = np.corrcoef(white)
    np.fill_diagonal(correlation, 0.0)
    return {
        "mean_square": float(np.mean(white**2)),
        "largest_correlation": float(np.abs(correlation).max()),
    }


def beside(band: int, repeats: int) -> dict:
    """Measure privopt and jax-privacy with the same Toeplitz coefficients."""
    factorisation = factorise("banded", STEPS, band=band)
    noise, zeros = correlated_noise(factorisation), jnp.zeros(DIM)
    theirs = peer.looped(factorisation.numerator, DIM, STEPS)
    calls = {"privopt": streamed(noise, DIM, STEPS), "jax-privacy": lambda: theirs(KEY)}
    times = interleaved(calls, repeats, time.process_time)
    laws = {
        "privopt": noises(noise, KEY, zeros, steps=STEPS),
        "jax-privacy": peer.looped(factorisation.numerator, DIM, STEPS, kept=True)(KEY),
    }
    return {
        "band": band,
        "seconds_of_a_step": {name: median(seconds) / STEPS for name, seconds in times.items()},
        "all_seconds": times,
        "ratio": ratio(times["jax-privacy"], times["privopt"]),
        "whitened": {name: whitened(noise, factorisation) for name, noise in laws.items()},
    }


def against_fresh(dim: int, repeats: int) -> dict:
    """Measure every kind of noise compared with independent noise."""
    steps = NUMBERS // dim if dim < NUMBERS // STEPS else STEPS
    times = interleaved(
        {name: streamed(noise, dim, steps) for name, noise in kinds().items()},
        repeats,
        time.process_time,
    )
    return {
        "dim": dim,
        "seconds_of_a_step": {name: median(seconds) / steps for name, seconds in times.items()},
        "all_seconds": times,
        "times": {name: ratio(seconds, times["independent"]) for name, seconds in times.items()},
    }


def long(name: str, noise: Noise) -> dict:
    """Measure a million steps in one call, and the memory of the program."""
    zeros = jnp.zeros(SHORT)
    compiled = stream.lower(noise, KEY, zeros, steps=LONG).compile()
    jax.block_until_ready(compiled(noise, KEY, zeros))
    start = time.process_time()
    jax.block_until_ready(compiled(noise, KEY, zeros))
    elapsed = time.process_time() - start
    return {
        "noise": name,
        "seconds": elapsed,
        "memory_bytes": sum(leaf.nbytes for leaf in jax.tree.leaves(noise.init(zeros))),
        "program_bytes": compiled.memory_analysis().temp_size_in_bytes,
    }


def seeds(repeats: int) -> dict:
    """Measure a hundred seeds in one call: seconds of each, over those of a single one."""
    dim, steps = DIMS[0], 5 * STEPS  # the overhead of the call is negligible
    keys, zeros = jax.random.split(KEY, SEEDS), jnp.zeros(dim)
    batched = jax.jit(
        jax.vmap(lambda noise, key: noisy(noise, key, zeros, steps), in_axes=(None, 0))
    )
    calls: dict[str, Callable[[], Array]] = {}
    for name, noise in kinds().items():
        calls[name] = streamed(noise, dim, steps)
        calls[f"{name}, together"] = lambda noise=noise: batched(noise, keys)
    times = interleaved(calls, repeats, time.process_time)
    names = list(kinds())
    return {
        "all_seconds": times,
        "of_one_alone": {
            name: ratio(times[f"{name}, together"], times[name]) / SEEDS for name in names
        },
        "times": {
            name: ratio(times[f"{name}, together"], times["independent, together"])
            for name in names
        },
    }


def one_plan(dim: int, repeats: int) -> dict:
    """Measure twenty keys of one plan of DP-FTRL in one batched program, and in turn."""
    problem = workload.problem(dim=dim)
    budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    plan = dp_ftrl(
        problem.problem_class,
        budget,
        noise="banded_inverse",
        band=64,
        batch_size=50,
        epochs=2,
        quantity="population risk",
    )
    keys = jax.random.split(KEY, 20)
    calls = {
        mode: partial(run_many, [plan], problem, keys, execution=Execution(replicates=mode))
        for mode in ("together", "in_turn")
    }
    times = interleaved(calls, repeats, time.process_time)
    return {
        "dim": dim,
        "seconds": {name: median(values) for name, values in times.items()},
        "all_seconds": times,
        "ratio": ratio(times["together"], times["in_turn"]),
    }


def compilations() -> int:
    """Return the number of programs for three bands of equal length and three seeds."""
    programs: list[str] = []

    def hear(event: str, duration: float, **details: str) -> None:
        if event == COMPILED:
            programs.append(details.get("fun_name", "?"))

    zeros, keys = jnp.zeros(7), [jax.random.key(seed) for seed in range(3)]
    noises = [noise_of("banded_inverse", 100 * (i + 1), band=4, optimise=i > 0) for i in range(3)]
    jax.monitoring.register_event_duration_secs_listener(hear)
    for noise, key in zip(noises, keys, strict=True):
        jax.block_until_ready(stream(noise, key, zeros, steps=11))
    return len(programs)


def measure(repeats: int) -> dict:
    return {
        "compilations": compilations(),
        "beside": [beside(band, repeats) for band in BANDS],
        "against_fresh": [against_fresh(dim, repeats) for dim in DIMS],
        "long": [long(name, noise) for name, noise in kinds().items()],
        "seeds": seeds(max(1, repeats // 2)),
        "one_plan": [one_plan(dim, repeats) for dim in (100, 1_000)],
    }


if __name__ == "__main__":
    print_measured(measure, __doc__)
