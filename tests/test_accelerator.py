"""Programs for accelerators, inspected and not run: products, branches and host callbacks.

Lowering for a platform needs no device. The inspected step is from the program of a CPU.
"""

import math
import re
from collections import Counter
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from apart import apart
from builders import CHOICES, DIM, N, classification, operations
from selection import few

import privopt
from privopt import problems, random
from privopt.convex import (
    EmpiricalRisk,
    L1L2Ball,
    L2Ball,
    Separable,
    Sine,
    WholeSpace,
    accelerated_descent,
)
from privopt.convex.loops import BLOCK, UNROLLED
from privopt.core import Execution
from privopt.factorisations import FACTORISATIONS
from privopt.mechanisms import ClippedGradient, clipped_gradient_sum
from privopt.problems import Problem

BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
FEATURES, LABELS = (each.astype(np.float32) for each in classification(N, DIM))
POINTS = np.where(np.arange(DIM) == np.arange(N)[:, None] % DIM, 0.0, FEATURES).astype(np.float32)
SPARSE = scipy.sparse.csr_array(POINTS)
SMOOTH = privopt.ProblemClass(
    n=N, dim=DIM, lipschitz=1.0, radius=2.0, smoothness=0.25, sparsity=DIM
)
SQUARES = privopt.ProblemClass(n=N, dim=DIM, lipschitz=3.0, radius=2.0, smoothness=1.0)
MEANS = privopt.ProblemClass(
    n=N, dim=DIM, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0, sparsity=2
)
WHERE = {  # a kind of losses each that has its own sums of clipped gradients
    "linear": problems.logistic(FEATURES, LABELS, problem_class=SMOOTH),
    "sparse": problems.logistic(SPARSE, LABELS, problem_class=SMOOTH),
    "separable": Problem(loss=Separable(Sine()), data=SPARSE, problem_class=SMOOTH),
    "distances": problems.squared_distance(SPARSE, problem_class=MEANS),
    "own": Problem(loss=lambda w, x: jnp.sum(jnp.square(w - x)), data=POINTS, problem_class=MEANS),
    "means": problems.squared_distance(POINTS, problem_class=MEANS),
    "squares": problems.squared(FEATURES, LABELS, problem_class=SQUARES),
}
KINDS = {
    "projection_mechanism": "means",
    "l1_recovery": "means",
    "sufficient_statistics": "squares",
}
PRIVATE = [name for name, a in privopt.ALGORITHMS.items() if a.private]
CASES = [
    *((name, KINDS.get(name, "linear"), ()) for name in PRIVATE),
    *(("dp_sgd", kind, ()) for kind in ("sparse", "separable", "distances", "own")),
    *(("dp_gd", kind, ()) for kind in ("separable", "distances", "own")),
    *(("dp_ftrl", "linear", (("noise", noise),)) for noise in FACTORISATIONS),
]
# Programs that differ in kind: sampled steps on each kind of data, correlated noise, two solvers.
ALIKE = {"dp_svrg", "noisy_adam", "phased_sgd", "approximate_minima_perturbation", "l1_recovery"}
SOME = [
    case
    for case in CASES
    if case[0] not in ALIKE and case[2] in ((), (("noise", "tree"),), (("noise", "buffered"),))
]
TOGETHER = Execution(replicates="together")
KEYS = jax.random.split(jax.random.key(0), 4)
HOST = re.compile(r"infeed|outfeed|stablehlo\.(?:send|recv)|callback|python")
SOLVERS = re.compile(r"cusolver_\w+|cu_lu_\w+|LuDecomposition|Eigh")
FREE = {"parameter", "constant", "iota", "tuple", "get-tuple-element", "bitcast", "while"}
# Kernels of a step on a CPU; of the whole run for the projection mechanism.
MOST_KERNELS = {"dp_gd": 23, "dp_sgd": 26, "dp_ftrl": 41, "projection_mechanism": 57}


@pytest.fixture(autouse=True, scope="module")
def accelerator():
    """Trace the branches for accelerators too, which are omitted on a machine without one."""
    with pytest.MonkeyPatch.context() as patch, apart():
        patch.setattr(jax, "default_backend", lambda: "gpu")
        yield


@cache
def traced(name, kind, choices=(), runs=1):
    """Return the program of a run, or of several runs together."""
    where = WHERE[kind]
    facts = where.problem_class
    plan = privopt.ALGORITHMS[name].plan(facts, BUDGET, **CHOICES[name] | dict(choices))
    if runs == 1:
        return jax.jit(lambda key: privopt.run(plan, where, key)).trace(KEYS[0])
    many = lambda keys: privopt.run_many(runs * [plan], where, keys, execution=TOGETHER)  # noqa: E731
    return jax.jit(many).trace(KEYS)


@pytest.mark.cases(3)
@pytest.mark.parametrize(("name", "kind", "choices"), few(CASES, SOME))
def test_products_of_float32_keep_all_bits_of_their_factors(name, kind, choices):
    """Check the precision of products.

    By default an accelerator rounds factors to ten or eight bits, which is not sufficient for norms
    and noise. Float64 has no such mode.
    """
    full = (jax.lax.Precision.HIGHEST,) * 2
    products = [
        equation.params["precision"]
        for equation, _ in operations(traced(name, kind, choices).jaxpr.jaxpr, platform="cuda")
        if equation.primitive.name == "dot_general"
        and all(each.aval.dtype == jnp.float32 for each in equation.invars)
    ]
    assert set(products) <= {full}
    assert products or privopt.ALGORITHMS[name].float64 or kind in ("sparse", "separable")


@pytest.mark.cases(3)
@pytest.mark.parametrize("platform", few(["cuda", "tpu"], ["cuda"]))
@pytest.mark.parametrize(("name", "kind", "choices"), few(CASES, SOME))
def test_no_program_asks_the_host(name, kind, choices, platform):
    lowered = traced(name, kind, choices).lower(lowering_platforms=(platform,)).as_text()
    assert not HOST.search(lowered)
    assert all(map(SOLVERS.fullmatch, re.findall(r"custom_call @(\w+)", lowered)))


def test_a_callback_is_not_even_lowered():
    asking = jax.jit(lambda x: jax.pure_callback(np.sin, x, x)).trace(jnp.ones(2))
    with pytest.raises(ValueError, match="different from the lowering platform"):
        asking.lower(lowering_platforms=("cuda",))


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", few(PRIVATE, set(PRIVATE) - ALIKE))
def test_replicates_together_run_no_branch_more(name):
    """Check that a branch per replicate does not become a selection among all branches."""

    def branches(runs):
        program = traced(name, KINDS.get(name, "linear"), runs=runs).jaxpr.jaxpr
        result = operations(program, platform="cuda")
        return Counter(equation.primitive.name for equation, _ in result)

    one, many = branches(1), branches(3)
    assert many["cond"] == one["cond"]
    assert not many["scatter-add"]  # whose order an accelerator does not keep; only of sparse rows


def launched(text):
    """Return the operations that a program launches, in total or per step of its largest loop."""
    text, result, name = re.sub(r"/\*.*?\*/", "", text), {}, ""
    for line in text.splitlines():
        if begins := re.match(r"(?:ENTRY )?%?([\w.-]+) .*\{$", line):
            name = begins[1]
        elif operation := re.match(r"  .*?= (?:\(.*?\)|\S+) ([\w-]+)\(", line):
            result.setdefault(name, []).append((operation[1], line))
    bodies = re.findall(r"body=%?([\w.-]+)", text)
    main = re.search(r"^ENTRY %?([\w.-]+)", text, re.M)[1]
    counts = {each: sum(kind not in FREE for kind, _ in result[each]) for each in (main, *bodies)}
    return counts.pop(main), max(counts.values())


@pytest.mark.optimised
@pytest.mark.parametrize("name", few(MOST_KERNELS, ["dp_gd", "dp_sgd"]))
def test_a_step_is_few_kernels(name):
    at_once, a_step = launched(traced(name, KINDS.get(name, "linear")).lower().compile().as_text())
    result = at_once if name == "projection_mechanism" else a_step
    assert 0.8 * MOST_KERNELS[name] < result <= MOST_KERNELS[name]


def test_the_clip_holds_for_a_gradient_of_ten_bits():
    """Test a user loss on an accelerator: the norm is that of the computed gradient."""

    def loss(point, record):
        rounded = jax.lax.reduce_precision(record, exponent_bits=8, mantissa_bits=10)
        return jnp.dot(point, rounded)

    dim, clip_norm = 50, 0.7
    rng = np.random.default_rng(0)
    records = rng.normal(size=(500, dim)) * 10.0 ** rng.uniform(-30, 30, size=(500, 1))

    def single(record):
        risk = EmpiricalRisk(loss, record[None], None, WholeSpace())
        return clipped_gradient_sum(risk, clip_norm)(jnp.zeros(dim, jnp.float32))

    result = jax.jit(jax.vmap(single))(records.astype(np.float32))
    facts = privopt.ProblemClass(n=1, dim=dim, lipschitz=clip_norm, radius=1.0)
    sizes = np.linalg.norm(np.asarray(result, np.float64), axis=1)
    assert sizes.max() <= ClippedGradient.of(facts).record_sensitivity
    assert math.isclose(sizes.max(), clip_norm, rel_tol=1e-5)


@pytest.fixture
def at_once(monkeypatch):
    """Run the code for accelerators on this platform."""
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *x, cpu, default: default(*x))
    traced.cache_clear()
    with apart():
        yield
    traced.cache_clear()


BLOCKS = {  # steps of each, and two runs of different lengths
    "dp_gd": (16, {"steps": 37}, {"steps": 20}),
    "dp_sgd": (16, {"steps": 37}, {"steps": 20}),
    "dp_ftrl": (10, {"batch_size": 6, "epochs": 4}, {"batch_size": 6, "epochs": 2}),
}


@pytest.mark.parametrize("name", few(BLOCKS, ["dp_sgd"]))  # whose batches differ from step to step
def test_an_accelerator_takes_the_same_steps(name, request):
    """Test blocks of known length, which need no host callback after each step."""
    where, (block, *several) = WHERE["linear"], BLOCKS[name]
    plans = [
        privopt.ALGORITHMS[name].plan(where.problem_class, BUDGET, **CHOICES[name] | choices)
        for choices in several
    ]

    def released():
        many = jax.jit(lambda keys: privopt.run_many(plans, where, keys, execution=TOGETHER)[0])
        compiled = many.lower(KEYS[:2]).compile()
        return compiled(KEYS[:2]), compiled.as_text()

    expected, _ = released()
    request.getfixturevalue("at_once")
    result, text = released()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    assert f'known_trip_count":{{"n":"{block // math.gcd(block, UNROLLED)}"}}' in text


def test_an_accelerator_descends_the_same(request):
    scales, ball = jnp.array([1.0, 4.0]), L2Ball(2.0)

    def result(steps):
        gradient = lambda w: scales * (w - 0.5)  # noqa: E731
        facts = {"smoothness": 4.0, "strong_convexity": 1.0, "steps": steps}
        return accelerated_descent(gradient, ball.project, jnp.zeros(2), **facts)

    numbers = (0, 5, 16, 37)
    expected = [jax.jit(result)(steps) for steps in numbers]
    request.getfixturevalue("at_once")
    compiled = jax.jit(lambda steps: result(steps)).lower(5).compile()
    np.testing.assert_allclose([compiled(steps) for steps in numbers], expected, rtol=1e-12)
    assert f'known_trip_count":{{"n":"{BLOCK}"}}' in compiled.as_text()


def test_an_accelerator_draws_and_searches_the_same(request):
    """Test random words in one array, and long rows together."""
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(5, 600)))
    ball, key = L1L2Ball(2.0, 1.0), jax.random.key(1)
    search = jax.jit(jax.vmap(ball.project)).trace(rows)
    loops = {
        platform: search.lower(lowering_platforms=(platform,)).as_text().count("stablehlo.while")
        for platform in ("cpu", "cuda", "tpu")
    }
    assert loops["cuda"] == loops["tpu"] < loops["cpu"]
    draw = random.normal.__wrapped__
    sample, result = draw(key, (7,), np.float32), jax.vmap(ball.project)(rows)
    request.getfixturevalue("at_once")
    np.testing.assert_array_equal(draw(key, (7,), np.float32), sample)
    np.testing.assert_allclose(jax.vmap(ball.project)(rows), result, rtol=1e-12, atol=0)
