"""Settings of all tests: strict numerics, two host devices, no display, fixed seeds."""

import gc
import os
import threading
from pathlib import Path
from typing import Any, NamedTuple

MOST_MAPS = 32_000  # two workers reach 28,000 and 3.5 GB each, and no file adds 10,000
PLAIN = "JAX_DISABLE_MOST_OPTIMIZATIONS"  # read when JAX is imported, by subprocesses too

# Programs are kept from one run to the next, and shared by the workers and what they start.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "compiled")
)
# Writing a program takes 10 to 30 ms, and most programs are not used by another process.
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
os.environ["MPLBACKEND"] = "Agg"
# Arrays of the tests are small: threads of BLAS wait for each other for longer than they compute.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"  # no test reads the source lines of a program
os.environ[PLAIN] = "1"
AS_OUTSIDE = {"xla_cpu_use_fusion_emitters": True, "xla_cpu_parallel_codegen_split_count": 32}
DEVICES = "--xla_force_host_platform_device_count"
if DEVICES not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {DEVICES}=2".strip()

import jax
import numpy as np
import pytest
import selection
from hypothesis import settings
from jax._src import compiler
from jax._src.interpreters import mlir
from scipy.special import betaincinv
from skips import summary

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_legacy_prng_key", "error")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

settings.register_profile(
    "privopt", derandomize=True, max_examples=30, deadline=None, database=None
)
settings.load_profile("privopt")


_fresh_context = getattr(mlir, "make_ir_context", None)  # not public, so a later JAX may lack it
_contexts = threading.local()


def _shared_context():
    """Return a context of MLIR for the next program.

    Loading the dialects of a context takes longer than lowering a program of one operation, so a
    context serves a hundred programs. Types and attributes stay in memory as long as their context.
    """
    _contexts.uses = getattr(_contexts, "uses", 0) + 1
    if _contexts.uses % 100 == 1:
        _contexts.current = _fresh_context()
    return _contexts.current


if _fresh_context is not None:
    mlir.make_ir_context = _shared_context

_options_of_jax = getattr(compiler, "get_compile_options", None)  # not public either


def _options_as_outside(*args, **kwargs):
    """Return options of the compiler, for an ``optimised`` test without those of the Makefile.

    XLA reads ``XLA_FLAGS`` once a process; the options of a program precede them.
    """
    options = _options_of_jax(*args, **kwargs)
    if os.environ[PLAIN] == "0":
        flags = os.environ["XLA_FLAGS"]
        defaults = {name: value for name, value in AS_OUTSIDE.items() if f"--{name}=" in flags}
        options.env_option_overrides = [*defaults.items(), *options.env_option_overrides]
    return options


if _options_of_jax is not None:
    compiler.get_compile_options = _options_as_outside

# Tracing makes many objects and few cycles. With the default, collection takes 13 % of the time.
gc.set_threshold(50_000, 20, 50)


def pytest_addoption(parser):
    """Add ``--all``."""
    parser.addoption(
        "--all",
        action="store_true",
        help="run every case of a contract, and the tests with the mark thorough",
    )


def pytest_configure(config):
    """Hand ``--all`` to ``selection`` before any test is imported."""
    selection.ALL = config.getoption("--all")


@pytest.hookimpl(trylast=True)  # so that -k selects from all cases
def pytest_collection_modifyitems(config, items):
    """Deselect what the marks ``thorough`` and ``cases`` leave to ``--all``.

    The ``optimised`` tests of a file come last: they share no program with the others.
    """
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    items[:] = [
        item
        for file in files.values()
        for item in sorted(file, key=lambda item: item.get_closest_marker("optimised") is not None)
    ]
    if selection.ALL:
        return
    functions = {}
    for item in items:
        functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    selected = set()
    for cases in functions.values():
        mark = cases[0].get_closest_marker("cases")
        selected.update(selection.spaced(cases, mark.args[0]) if mark else cases)
    selected = {item for item in selected if not item.get_closest_marker("thorough")}
    if len(selected) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in selected])
        items[:] = [item for item in items if item in selected]


def pytest_terminal_summary(terminalreporter):
    """Print one line with the groups of skipped tests."""
    if message := summary(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(message, yellow=True)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Disable optimisation by LLVM, which takes most of the time, except for ``optimised`` tests.

    It changes rounding (fused products, order of sums) and speed. A test has the mark if its claim
    is about rounding, or about two programs that agree in every bit.
    """
    plain = item.get_closest_marker("optimised") is None
    if os.environ[PLAIN] != str(int(plain)):
        os.environ[PLAIN] = str(int(plain))
        jax.config.update(PLAIN.lower(), plain)
        # JAX keeps programs per version of a profile, which has no other effect on a CPU.
        jax.config.update("jax_xla_profile_version", int(not plain))


@pytest.fixture(scope="module", autouse=True)
def _compiled_programs_are_freed():
    """Free compiled programs. Each has about thirty memory maps, and Linux allows 65,530."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        gc.unfreeze()
        jax.clear_caches()
        gc.collect()  # garbage that is frozen stays for ever
        gc.freeze()  # or all that is kept would be looked through again and again


@pytest.fixture
def registry():
    """Forget the algorithms that a test registers."""
    from privopt import algorithms

    before = dict(algorithms._REGISTERED)
    yield algorithms._REGISTERED
    algorithms._REGISTERED.clear()
    algorithms._REGISTERED.update(before)


class Demonstration(NamedTuple):
    """Small experiment.

    Attributes
    ----------
    source : str
        Source of a file that declares it as ``experiment``.
    experiment : privopt.lab.Experiment
    cells : int
        Number of cells in each profile.
    """

    source: str
    experiment: Any
    cells: int


_DEMONSTRATION = """
from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="demo",
    title="A demonstration",
    description="Nothing in particular.",
    algorithms={"dp_gd": {"steps": 5}},
    families=("linear",),
    base=Setting(n=1000, dim=4, epsilon=1.0),
    axes=(Axis("n", (500, 1000)),),
    replicates={"quick": 3, "full": 5},
    relation="replace_one",
    epsilon_over_mu=5.0,
    checks=("bound",),
)
"""


@pytest.fixture(scope="session")
def demonstration():
    """Return the experiment of two sizes and five strengths that most tests of the lab run."""
    namespace = {}
    exec(_DEMONSTRATION, namespace)
    return Demonstration(_DEMONSTRATION, namespace["experiment"], 2 * 5)


@pytest.fixture(scope="session")
def epsilon_lower_bound():
    """Return ``(scores_a, scores_b, delta=0, failure=1e-4) -> epsilon``, a certified lower bound.

    Scores are functions of releases on two neighbours, one per run. The attack uses a threshold.
    The best threshold, side and order of the neighbours are chosen on the runs of even number; on
    the others, both probabilities have exact bounds (Clopper and Pearson 1934). For an
    ``(epsilon, delta)``-DP mechanism the result exceeds ``epsilon`` with probability ``failure``
    at most.
    """
    return _epsilon_lower_bound


def _epsilon_lower_bound(scores_a, scores_b, delta=0.0, failure=1e-4):
    scores = [np.asarray(s, np.float64).ravel() for s in (scores_a, scores_b)]
    first_half, second_half = ([np.sort(s[start::2]) for s in scores] for start in (0, 1))
    pooled = np.unique(np.concatenate(first_half))
    thresholds = pooled[np.linspace(0, pooled.size - 1, min(pooled.size, 2000)).astype(int)]
    bounds = _threshold_bounds(first_half, thresholds, delta, failure)
    events, best = np.unravel_index(np.argmax(bounds), bounds.shape)
    bounds = _threshold_bounds(second_half, thresholds[best : best + 1], delta, failure)
    return max(0.0, float(bounds[events, 0]))


def _threshold_bounds(ordered, thresholds, delta, failure):
    """Return bounds for ``<= t`` and ``> t`` in both orders, shape ``(4, thresholds)``."""
    lower = [np.searchsorted(s, thresholds, side="right") for s in ordered]
    higher = [s.size - count for s, count in zip(ordered, lower, strict=True)]
    sizes = [s.size for s in ordered]
    bounds = []
    for hits in (lower, higher):
        for p, q in ((0, 1), (1, 0)):
            least = betaincinv(np.maximum(hits[p], 1), sizes[p] - hits[p] + 1, 0.5 * failure)
            least = np.where(hits[p] == 0, 0.0, least) - delta
            rest = np.maximum(sizes[q] - hits[q], 1)
            most = betaincinv(hits[q] + 1, rest, 1.0 - 0.5 * failure)
            most = np.where(hits[q] == sizes[q], 1.0, most)
            bounds.append(np.log(np.maximum(least, 1e-300) / most))
    return np.stack(bounds)
