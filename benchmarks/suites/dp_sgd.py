"""Suite of DP-SGD: speed compared with jax-privacy and opacus, replicates, and cost of clipping."""

from __future__ import annotations

import process
from line import Line

TITLE = "DP-SGD"
PACKAGES = ("privopt", "jax-privacy", "jax", "jaxlib", "optax", "numpy")
PEERS = ("jax_privacy",)
LARGE = "n = 100,000, batch 1,024"
PYTHON = process.HERE.parent / ".venv" / "opacus" / "bin" / "python"


def measured(repeats: int) -> tuple[dict, list[Line]]:
    if not PYTHON.exists():
        raise SystemExit("opacus is not installed beside privopt. Run make performance.")
    result = process.measured(
        "dp_sgd.py", f"--repeats={repeats}", f"--python={PYTHON}", cores=process.cores()[-1:]
    )
    return result, lines(result)


def described(result: dict) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in result["opacus"]["peer"].items())
    one = result["one_seed"]
    risks = (
        f"{one[f'risk_{name}']:.4f} +- {one[f'risk_error_{name}']:.4f}"
        for name in ("privopt", "jax-privacy")
    )
    return [
        "Logistic loss, n = 10,000, d = 100, expected batch 256, 2,000 steps, (1, 1e-6), float32,",
        "one thread, Poisson batches in all libraries. The sampler of jax-privacy works on the",
        "host. Its documented form is a Python loop of jitted steps; a second form draws all",
        "batches first and has the loop inside jit. opacus runs in a separate environment",
        f"({versions}), without projection and average. Mean excess risks: {' and '.join(risks)}.",
        "The network has two convolutions and a dense layer on 28 x 28, batch 256. XLA compiles",
        "convolutions inside a loop to slower code than outside, and runs of privopt are loops.",
    ]


def lines(result: dict) -> list[Line]:
    one, net, limit = result["one_seed"], result["network"], result["large"]["limit"]
    opacus, many, clipping = result["opacus"], result["many"], result["clipping"]
    compiled, single = result["compilations"], 1e3 * many["seconds"]["one"]
    return [
        against(one, "Python loop", "one seed, against jax-privacy as documented", 4.0),
        against(one, "loop in jit", "one seed, against jax-privacy looping inside jit", 4.0),
        against(result["large"]["one_seed"], "loop in jit", f"the same, {LARGE}", 2.0),
        Line(
            "the same, beside its rows gathered and multiplied alone",
            f"{1e3 * limit['seconds']['privopt']:,.0f} ms beside "
            f"{1e3 * limit['seconds']['least']:,.0f} ms",
            f"{limit['ratio']:.2f}",
            ">= 0.8",
            limit["ratio"] >= 0.8,
        ),
        against(result["in_steps"], "Python loop", "steps one by one, against jax-privacy", 1.2),
        against(result["large"]["in_steps"], "Python loop", f"the same, {LARGE}", 1.2),
        step(opacus, "direct indexing", 30.0),
        step(opacus, "data loader", 80.0),
        Line(
            "compilations, 3 budgets, step sizes and seeds", "", str(compiled), "1", compiled == 1
        ),
        Line(
            f"{many['replicates']} replicates in one call, throughput of each",
            f"{many['seconds']['all']:,.1f} s beside {single:,.0f} ms for one",
            f"{many['throughput']:.2f}",
            ">= 0.8 of one alone",
            many["throughput"] >= 0.8,
        ),
        clipped(clipping, "all", "all records"),
        clipped(clipping, "batch", "batch"),
        against(net, "Python loop", "network, against jax-privacy as documented", 1.0),
        against(net, "loop in jit", "network, against jax-privacy looping inside jit", 1.0),
    ]


def against(result: dict, form: str, question: str, target: float) -> Line:
    ours, theirs = result["seconds"]["privopt"], result["seconds"][form]
    detail = f"{1e3 * ours:,.0f} ms beside {1e3 * theirs:,.0f} ms"
    return Line(
        question, detail, f"{theirs / ours:.2f}x", f">= {target:g}x", theirs >= target * ours
    )


def step(result: dict, form: str, target: float) -> Line:
    ours, theirs = (1e6 * result["seconds_of_a_step"][name] for name in ("privopt", form))
    ratio = result["ratios"][form]
    return Line(
        f"one seed, against opacus with {form}",
        f"a step {ours:,.0f} us beside {theirs:,.0f} us",
        f"{ratio:.1f}x",
        f">= {target:g}x",
        ratio >= target,
    )


def clipped(result: dict, kind: str, name: str) -> Line:
    ours, plain = (1e6 * result["seconds"][f"{side}, {name}"] for side in ("clipped", "plain"))
    ratio = result[f"ratio_{kind}"]
    return Line(
        f"clipped gradient beside the plain one, {name}",
        f"{ours:,.1f} us beside {plain:,.1f} us",
        f"{ratio:.2f} times",
        "<= 1.3 times",
        ratio <= 1.3,
    )
