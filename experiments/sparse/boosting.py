"""Boosting of bias-reduced SGD: probability of a bad release against the promised one.

A run succeeds if its risk is at most the median of single runs with the same noise. The experiment
fails if the number of runs is not geometric with the accounted odds, or if scores are so noisy that
the selection loses more than its half of the promise.
"""

import math
from dataclasses import replace
from functools import cache

import jax
import numpy as np

import privopt
from privopt.lab import (
    Analysis,
    Claim,
    Listing,
    at_most,
    below,
    close,
    plotting,
    replicate_keys,
    stream,
)
from privopt.problems import family
from privopt.statistics import clopper_pearson

N, DIM, SPARSITY, BASE, STEPS, STEP_SIZE = 2**11, 64, 4, 64, 6, 0.2
BUDGET = privopt.Budget(epsilon=2.0, delta=1e-6, relation="replace_one")
PROMISES = (0.5, 0.25, 0.1)
RUNS, SIMULATED = 300, 20_000
FAILURE = 1e-3  # of one confidence bound
ONE_RUN = 2**30  # odds with which no second run is made


@cache
def problem():
    """Return linear losses of four blocks of sparse records."""
    mu = privopt.privacy.gaussian_mu(BUDGET.epsilon, BUDGET.delta)
    return family("sparse_linear").build(
        n=N, dim=DIM, sparsity=SPARSITY, noise_ratio=math.sqrt(DIM) / (N * mu),
        strength=0.249 * N * mu / math.sqrt(SPARSITY),
    )  # fmt: skip


def plan(**options):
    """Return the plan of bias-reduced SGD, with or without boosting."""
    return privopt.bias_reduced_sgd(
        problem().problem_class, BUDGET, base=BASE, steps=STEPS, step_size=STEP_SIZE, **options
    )


def single(boosted):
    """Return the same plan with one run, of the noise of every boosted run."""
    mechanism = replace(boosted.params.mechanism, odds=ONE_RUN)
    return replace(boosted, params=boosted.params._replace(mechanism=mechanism))


@cache
def risks(promise, role, runs=RUNS):
    """Return the risks of boosted runs, of single runs, or of runs with the whole budget."""
    one = plan() if promise is None else plan(boost=promise)
    one = single(one) if role in ("median", "single") else one
    keys = replicate_keys(stream(0, experiment="boosting", role=role, promise=str(promise)), runs)
    points = privopt.run_many([one], problem(), keys, execution=privopt.Execution(chunk=10))
    return np.asarray(problem().excess_risk(points.released[0]))


def share(failures):
    """Return the certified interval of a probability."""
    lower, upper = clopper_pearson([int(failures.sum())], failures.size, FAILURE)
    return privopt.Interval(float(lower[0]), float(upper[0]))


def exact_selection(mechanism, failing):
    """Return the share of failures for scores without noise, with the coins of the mechanism."""
    rng = np.random.default_rng(0)
    keys = jax.random.split(jax.random.key(0), (SIMULATED, 256))
    last = np.asarray(jax.jit(jax.vmap(jax.vmap(mechanism.is_last)))(keys))
    counts = np.where(last.any(axis=1), last.argmax(axis=1) + 1, last.shape[1])
    return np.array([rng.choice(failing, count).all() for count in counts])


def success(profile):
    """Yield the failures of boosted, single and unboosted runs for every promise."""
    for promise in PROMISES:
        boosted = plan(boost=promise)
        mechanism = boosted.params.mechanism
        gamma = mechanism.odds / ONE_RUN
        threshold = float(np.median(risks(promise, "median", 2 * RUNS + 1)))
        fails = {role: risks(promise, role) > threshold for role in ("boosted", "single")}
        whole, rate = risks(None, "whole"), float(fails["single"].mean())
        yield {
            "label": f"β = {promise:g}", "promise": promise, "gamma": gamma,
            "mean_runs": 1.0 / gamma, "all_fail": gamma / (1.0 + gamma),
            "noise": mechanism.run.noise_multiplier / plan().params.mechanism.noise_multiplier,
            "boosted": share(fails["boosted"]), "single": share(fails["single"]),
            "whole": share(whole > threshold),
            "exact": share(exact_selection(mechanism, fails["single"])),
            "boosted_rate": float(fails["boosted"].mean()),
            "single_rate": rate, "expected": gamma * rate / (1.0 - (1.0 - gamma) * rate),
            "whole_rate": float((whole > threshold).mean()),
            "boosted_risk": float(risks(promise, "boosted").mean()),
            "single_risk": float(risks(promise, "single").mean()),
            "whole_risk": float(whole.mean()),
        }  # fmt: skip


def tail(profile):
    """Yield the share of runs above every risk, for the smallest promise."""
    promise = PROMISES[-1]
    names = {"boosted": promise, "single": promise, "whole": None}
    samples = {name: risks(given, name) for name, given in names.items()}
    for risk in np.linspace(0.15, 0.5, 71):
        yield {"risk": float(risk)} | {
            name: float((values > risk).mean()) for name, values in samples.items()
        }


def success_figure(frames):
    """Share of releases that fail (left), and share above every risk at β = 0.1 (right).

    Failure is a risk above the median of single runs of the same noise. Boosted runs keep the
    promise β: all runs fail with probability γ/(1 + γ), and noisy scores cost the rest. A run with
    the whole budget has less noise.
    """
    figure, (first, second) = plotting.panels("Boosted bias-reduced SGD: failures", "", "")
    first.set(xlabel="β", ylabel="share of failures", xscale="log", yscale="log")
    second.set(xlabel="excess risk", ylabel="share of runs above")
    grey, orange, blue = plotting.GREY, plotting.ORANGE, plotting.BLUE
    frame = frames["success"]
    for name, label, color, ls in (
        ("promise", "promise β", grey, "--"),
        ("all_fail", "γ/(1 + γ)", grey, ":"),
        ("boosted_rate", "boosted", blue, "-"),
        ("single_rate", "one run of the same noise", orange, "-"),
        ("whole_rate", "one run with the whole budget", plotting.INK, "-"),
    ):
        band = {"band": name.removesuffix("_rate")} if name.endswith("_rate") else {}
        plotting.curve(first, frame, "promise", name, label=label, color=color, ls=ls, **band)
    for name, color in (("boosted", blue), ("single", orange), ("whole", plotting.INK)):
        plotting.curve(second, frames["tail"], "risk", name, color=color)
    return figure


experiment = Analysis(
    name="boosting",
    profiles=("full",),
    title="Boosted bias-reduced SGD: probability of failure against the promised one",
    description=(
        f"Linear losses of sparse records (n = {N:,}, d = {DIM}, s = {SPARSITY}), (2, 1e-6)-DP "
        f"under replace-one, {STEPS} steps. A geometric number of runs with γ = β/2 is made, and "
        "the run with the smallest noisy score is released. A run fails if its risk is above the "
        "median of single runs with the same noise, so that a single run fails with probability "
        "1/2. Then all runs fail with probability γ/(1 + γ), and the promise is β, of which half "
        f"is for the selection. {RUNS} runs each; intervals are exact at level 1 - 1e-3 on either "
        "side. The whole budget in one run has about half of the noise."
    ),
    parts={"success": success, "tail": tail},
    claims=(
        Claim(
            "boosted runs fail at most as often as promised",
            "success",
            at_most("boosted", "promise"),
        ),
        Claim(
            "boosted runs fail less often than single runs", "success", below("boosted", "single")
        ),
        Claim(
            "exact scores: the geometric law of all runs",
            "success",
            close("exact", "expected", 0.02),
        ),
    ),
    figures={"success": success_figure},
    listings=(
        Listing(
            "success",
            "Share of failures, and mean excess risk",
            {"β": "{promise:g}", "runs": "{mean_runs:.0f}", "noise": "{noise:.2f}"}
            | {"γ/(1 + γ)": "{all_fail:.3f}", "exact scores": "{exact:.3f}"}
            | {"boosted": "{boosted:.3f}", "single": "{single:.2f}", "whole budget": "{whole:.2f}"}
            | {"risk, boosted": "{boosted_risk:.3f}", "single run": "{single_risk:.3f}"}
            | {"with whole budget": "{whole_risk:.3f}"},
        ),
    ),
)
