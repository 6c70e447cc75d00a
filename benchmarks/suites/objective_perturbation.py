"""Objective perturbation beside the only other library that ships it."""

from __future__ import annotations

from collections.abc import Iterator

import process
from line import Line

TITLE = "Objective perturbation"
PACKAGES = ("privopt", "jax", "jaxlib", "numpy")
PEERS = ()
PYTHON = process.HERE.parent / ".venv" / "diffprivlib" / "bin" / "python"
PURE, APPROXIMATE = "pure epsilon 1", "(1, 1e-6)"


def measured(repeats: int) -> tuple[dict, list[Line]]:
    if not PYTHON.exists():
        raise SystemExit("diffprivlib is not installed beside privopt. Run make performance.")
    found = process.measured(
        "objective_perturbation.py",
        f"--python={PYTHON}",
        f"--repeats={repeats}",
        cores=process.cores()[-1:],
    )
    return found, list(lines(found))


def described(found: dict) -> list[str]:
    versions = ", ".join(f"{name} {number}" for name, number in found["peer"].items())
    return [
        "Logistic regression, n = 10,000, d = 100, float64, one thread, features of norm 1, no",
        "intercept. diffprivlib runs in an environment of its own, since it does not import beside",
        "the scikit-learn that is here, on the same core, in turn; only `fit` is timed, in its own",
        f"process ({versions}). It knows pure privacy only. It is",
        "asked at its default C = 1 and at C = 1/(n lambda) with both of privopt's lambda, and the",
        "setting best for it counts in every line. Both are judged on the same set, the ball of",
        "radius 10, on which its coefficients are projected; as they are, they may leave it, and",
        "then may have less risk than anything in it: that is told too. Its solver stops at its",
        "default tolerance, gradients of 1e-4.",
        "Excess risk, without regulariser, is over the non-private optimum in that ball, the mean",
        f"of 100 seeds; the zero predictor's is {found['zero_predictor']:.4f}. Last column:",
        "with the regulariser of the same lambda, for the settings that have one of privopt's.",
        "",
        "| | lambda | excess risk | projected | same lambda |",
        "|---|---|---|---|---|",
        *(row(name, each) for name, each in found["excess_risk"].items()),
    ]


def row(name: str, each: dict) -> str:
    projected = each.get("projected")
    own = next((key for key in each if key.startswith("with") and name.endswith(budget(key))), "")
    shown = [
        f"{each['regularisation']:.1e}",
        f"{each['risk']:.4f}",
        f"{projected['risk']:.4f}" if projected else "",
        f"{min(each[own], (projected or each)[own]):.4f}" if own else "",
    ]
    return f"| {name} | {' | '.join(shown)} |"


def budget(key: str) -> str:
    return key.removeprefix("with the regulariser of ")


def lines(found: dict) -> Iterator[Line]:
    yield timed("one fit", found, "one fit", 1, 2.0)
    yield timed("100 fits in one call, against a loop", found, "100 fits", 100, 6.0)
    for name, target, budgets in (
        (PURE, 1.0, "both at pure epsilon 1"),
        (APPROXIMATE, 1.0 / 3.0, "ours at (1, 1e-6), theirs at pure epsilon 1"),
    ):
        question = f"excess risk, {budgets}"
        yield worth(f"{question}, in the ball", found, name, target, projected=True)
        yield worth(f"{question}, theirs as it is", found, name, target, projected=False)


def timed(question: str, found: dict, kind: str, fits: int, target: float) -> Line:
    """The least ratio: the slower of our budgets against the fastest of its settings."""
    ratio, ours, theirs = min(
        (ratio * fits, name, other)
        for name, others in found["ratios"].items()
        if name.endswith(kind)
        for other, ratio in others.items()
    )
    times = found["seconds"]
    detail = (
        f"the least of 6: {1e3 * times[ours]:,.1f} ms ({ours}) beside "
        f"{1e3 * fits * times[theirs]:,.1f} ms ({theirs})"
    )
    return Line(question, detail, f"{ratio:.2f}x", f">= {target:g}x", ratio >= target)


def worth(question: str, found: dict, name: str, target: float, *, projected: bool) -> Line:
    excess = found["excess_risk"]
    best, whose = min(
        ((each["projected"] if projected else each)["risk"], other)
        for other, each in excess.items()
        if "projected" in each
    )
    ours = excess[f"privopt, {name}"]["risk"]
    return Line(
        question,
        f"{ours:.4f} beside {best:.4f} ({whose})",
        f"{ours / best:.2f} times" if best > 0.0 else "theirs is below the optimum in the ball",
        f"<= {target:.2g} times",
        ours <= target * best,
    )
