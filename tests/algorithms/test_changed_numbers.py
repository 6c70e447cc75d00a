"""Plans with changed numbers: each has the guarantee and rate of its run, or is refused.

Every number of a plan, static ones included, is changed in a dozen ways, and every other field to
values of other kinds. A change that is not refused is compared with an event that this file derives
from the operations of a run and from the declared facts, and not from the mechanism.
"""

import dataclasses
import math

import dp_accounting as dp
import jax
import numpy as np
import pytest
from changes import changed, fields_of, numbers, other_kinds, others
from selection import few

import privopt
from privopt import mechanisms, privacy, problems
from privopt.convex import pytree_dataclass
from privopt.core import Algorithm
from privopt.spec import Relation

CLASS = privopt.ProblemClass(n=60, dim=3, lipschitz=1.0, radius=2.0, smoothness=0.25)
KINKED = dataclasses.replace(CLASS, smoothness=None)
CURVED = dataclasses.replace(CLASS, lipschitz=2.0, smoothness=1.0, strong_convexity=0.5)
SPARSE = dataclasses.replace(CLASS, sparsity=2)
WHOLE = dataclasses.replace(SPARSE, radius=math.inf)
MEANS = dataclasses.replace(CURVED, radius=1.0, strong_convexity=1.0, sparsity=2)
LINE = dataclasses.replace(CLASS, dim=2)

SQUARES = dataclasses.replace(CLASS, lipschitz=3.0, smoothness=1.0, radius=2.0)


def budget(relation="replace_one", delta=1e-5):
    return privopt.Budget(epsilon=1.0, delta=delta, relation=relation)


COUNTED = budget("add_or_remove_one")
FEW = {"steps": 4, "batch_size": 12}
ALGORITHMS = set(privopt.ALGORITHMS)  # before another test registers its own
CASES = {
    "gradient_descent": (CLASS, budget(), {"steps": 4}),
    "dp_gd": (CLASS, budget(), {"steps": 4}),
    "accelerated_dp_gd": (KINKED, budget(), {"steps": 4}),
    "dp_gd, projected": (SPARSE, budget("zero_out"), {"steps": 4, "post": "sparse"}),
    "dp_sgd": (CLASS, COUNTED, FEW),
    "dp_sgd, automatic": (CLASS, COUNTED, {**FEW, "clipping": "automatic", "capacity": 60}),
    "dp_sgd, fixed size": (CLASS, budget(), {**FEW, "sampler": "without_replacement"}),
    "dp_sgd, shuffled": (CLASS, budget(), {**FEW, "sampler": "shuffled"}),
    "dp_sgd, cyclic": (CLASS, budget(), {**FEW, "sampler": "cyclic_poisson", "cycle": 3}),
    "dp_svrg": (CLASS, COUNTED, {**FEW, "anchor_every": 2}),
    "bias_reduced_sgd": (CLASS, budget(), {"steps": 4, "base": 15, "body": "l2"}),
    "bias_reduced_sgd, paper": (SPARSE, budget(), {"base": 15, "mode": "paper"}),
    "bias_reduced_sgd, boosted": (SPARSE, budget(), {"steps": 2, "base": 15, "boost": 0.5}),
    "dp_ftrl": (CLASS, budget(), {"batch_size": 12}),
    "dp_ftrl, restarted": (
        CLASS, budget(), {"batch_size": 12, "epochs": 2, "restart": True, "noise": "toeplitz"}
    ),
    "dp_ftrl, buffered": (CLASS, budget(), {"batch_size": 6, "noise": "buffered", "band": 2}),
    "noisy_adam": (CLASS, COUNTED, FEW),
    "phased_sgd": (CLASS, budget(), {"step_size": 7.0}),
    "output_perturbation": (CURVED, budget(), {}),
    "output_perturbation, pure": (CURVED, budget("zero_out", 0.0), {"regularisation": 0.3}),
    "output_perturbation, kinked": (KINKED, COUNTED, {}),
    "linf_output_perturbation": (SPARSE, budget(), {}),
    "linf_output_perturbation, pure": (WHOLE, budget(delta=0.0), {"distance": 1.0}),
    "linf_output_perturbation, linear": (WHOLE, budget(delta=0.0), {"distance": 1.0, "glm": True}),
    "objective_perturbation": (CLASS, COUNTED, {}),
    "objective_perturbation, pure": (CLASS, budget(delta=0.0), {}),
    "approximate_minima_perturbation": (CLASS, budget(), {}),
    "exponential_mechanism": (LINE, budget(), {}),
    "exponential_mechanism, pure": (LINE, budget(delta=0.0), {}),
    "projection_mechanism": (MEANS, budget(), {"noise": "gaussian"}),
    "projection_mechanism, pure": (MEANS, budget(delta=0.0), {}),
    "l1_recovery": (MEANS, budget(), {"measurements": 2}),
    "l1_recovery, given": (MEANS, budget(), {"matrix": np.eye(2, 3)}),
    "sufficient_statistics": (SQUARES, budget(), {}),
    "sufficient_statistics, pure": (SQUARES, budget(delta=0.0), {"floor": 0.1}),
}  # fmt: skip


# Cases that differ in kind: sampled steps, one pass, two solvers, and one noisy answer.
MECHANISMS = (
    *("dp_sgd", "dp_ftrl", "output_perturbation, pure", "objective_perturbation"),
    "projection_mechanism, pure",
)


def planned(case):
    facts, own, choices = CASES[case]
    return privopt.ALGORITHMS[case.split(",")[0]].plan(facts, own, **choices)


# --- all the numbers, and ways to change them -----------------------------------------------------


def facts_changed(facts):
    """Return classes with other declared facts; some are invalid."""
    for field in dataclasses.fields(facts):
        number = getattr(facts, field.name)
        for value in (not number,) if isinstance(number, bool) else others(number or 1.0):
            try:
                yield dataclasses.replace(facts, **{field.name: value})
            except ValueError:
                continue


def all_changes(plan):
    """Yield a label and the changed fields, for every field of a plan and every new value."""
    for path, number in numbers(plan.params):
        for value in others(number):
            try:
                yield f"{'.'.join(path)} = {value}", {"params": changed(plan.params, path, value)}
            except ValueError:
                continue
    for path, own in fields_of(plan.params):
        for value in other_kinds(own):
            try:
                changes = {"params": changed(plan.params, path, value)}
            except ValueError:
                continue
            yield f"{'.'.join(path)} = {value}", changes
    for path, own in fields_of(plan.static):
        for value in other_kinds(own):
            yield f"static {path} = {value}", {"static": changed(plan.static, path, value)}
    for path, number in numbers(plan.static):
        for value in others(number):
            yield f"static {path} = {value}", {"static": changed(plan.static, path, value)}
    for facts in facts_changed(plan.problem_class):
        yield str(facts), {"problem_class": facts}
    for field in ("algorithm", "problem_class", "budget", "params", "declared"):
        yield f"{field} is no {field}", {field: 0}
    for relation in Relation:
        own = dataclasses.replace(plan.budget, relation=relation)
        yield str(relation), {"budget": own}


# --- what a run of these numbers guarantees, written down anew ------------------------------------


def truth(plan):
    """Return the event of a run on data of the class, or None if this file has no formula."""
    mechanism, relation = plan.params.mechanism, plan.budget.relation
    event_of = TRUTHS.get(type(mechanism).__name__)
    return event_of and event_of(mechanism, plan.problem_class, relation)


def clipped(query, facts):
    """Return the largest norm of a clipped gradient."""
    if query.gamma is not None and not query.gamma > 0.0:
        return math.inf
    return query.clip_norm


def private_gradient(mechanism, facts, relation):
    if mechanism.noise is None:
        return dp.NonPrivateDpEvent()
    batches, steps = mechanism.batches, mechanism.steps
    size = clipped(mechanism.query, facts)
    one = dp.GaussianDpEvent(mechanism.scale * batches.divisor(mechanism.query.size) / size)
    match type(batches).__name__, type(mechanism.noise).__name__:
        case "AllRecords", "IndependentNoise":
            return dp.SelfComposedDpEvent(one, steps)
        case "PoissonBatches", "IndependentNoise":
            unmet = relation is Relation.ADD_OR_REMOVE_ONE and facts.n > batches.most
            one = one if batches.rate >= 1.0 else dp.PoissonSampledDpEvent(batches.rate, one)
            return dp.NonPrivateDpEvent() if unmet else dp.SelfComposedDpEvent(one, steps)
        case "CyclicPoissonBatches", "IndependentNoise":
            one = dp.PoissonSampledDpEvent(batches.sample.rate, one)
            return dp.SelfComposedDpEvent(one, -(-steps // batches.cycle))
        case "FixedSizeBatches", "IndependentNoise":
            one = dp.SampledWithoutReplacementDpEvent(batches.n, batches.batch_size, one)
            return dp.SelfComposedDpEvent(one, steps)
        case "ShuffledBatches", "IndependentNoise":
            return dp.SelfComposedDpEvent(one, -(-steps // batches.batches))
        case "OrderedBatches", "TreeNoise" if batches.epochs == 1:
            return dp.SelfComposedDpEvent(one, steps.bit_length())
    return None


def variance_reduced(mechanism, facts, relation):
    anchors, rest = mechanism.anchors, mechanism.differences
    events = [private_gradient(each, facts, relation) for each in (anchors, rest)]
    return dp.ComposedDpEvent(events)


def bias_reduced(mechanism, facts, relation):
    """Return the event of a run with a fixed number of steps: its levels, and the first mean."""
    if mechanism.stop is not None:
        return None
    z, n, base = mechanism.scale / clipped(mechanism.query, facts), mechanism.n, mechanism.base
    sizes = [2 * base << level for level in range(mechanism.law.highest + 1)]
    pairs = [dp.GaussianDpEvent(z / math.sqrt(2.0)) for _ in sizes]
    levels = [
        dp.SampledWithoutReplacementDpEvent(n, *each) for each in zip(sizes, pairs, strict=True)
    ]
    own = dp.SampledWithoutReplacementDpEvent(n, base, dp.GaussianDpEvent(z))
    law = mechanism.law.probabilities
    step = dp.ComposedDpEvent([privacy.PublicMixtureDpEvent(tuple(levels), law), own])
    return dp.SelfComposedDpEvent(step, mechanism.steps)


def accelerated(convexity, smoothness, start, steps):
    """Return the bound on the distance of accelerated descent from its minimum."""
    rate = 1.0 - math.sqrt(convexity / smoothness)
    return math.sqrt(2.0 * start * rate**steps / convexity)


def farthest_moments(query, relation):
    """Return the sensitivity of moments, by a search over the angle between two records."""
    angles = np.linspace(0.0, math.pi, 20_001) if relation is Relation.REPLACE_ONE else [None]
    one, pulled = query.feature_clip**2, query.weight * query.label_clip * query.feature_clip
    if angles[0] is None:
        return math.hypot(one, pulled) / query.size
    cosine = np.cos(angles)
    squares = 2.0 * one**2 * (1.0 - cosine**2) + 2.0 * pulled**2 * (1.0 + cosine)
    return math.sqrt(squares.max()) / query.size


def is_no_gradient(query):
    """Return True if clipped gradients are those of no convex loss, not even of linear models."""
    gradient = getattr(query, "gradient", None)
    return gradient is not None and (gradient.gamma is not None or gradient.norm != "l2")


def solved(query, facts, relation):
    """Return ``(sensitivity, error)`` of a regularised minimiser, by the declared facts."""
    if is_no_gradient(query):
        return math.inf, math.inf
    if type(query).__name__ == "ClippedMoments":
        return farthest_moments(query, relation), 0.0
    if not 0.0 < query.regularisation + facts.strong_convexity < math.inf:
        return math.inf, math.inf
    width, own = query.smoothing or 0.0, facts.strong_convexity
    own = 0.0 if relation is Relation.ADD_OR_REMOVE_ONE else own / (1.0 + own * width)
    curved, n = query.regularisation + own, query.gradient.size
    steepest = facts.smoothness if query.smoothing is None else 1.0 / width
    reach = min(facts.radius, facts.lipschitz / curved)
    start = facts.lipschitz * reach + 0.5 * curved * reach**2
    error = accelerated(curved, query.regularisation + steepest, start, query.steps)
    assumed = query.regularisation + query.strong_convexity  # what stops the Newton method
    error = max(error * 0.999, query.error) if assumed <= curved * (1 + 1e-12) else math.inf
    null = own * facts.radius if own else 0.0
    longest = min(facts.lipschitz, query.gradient.clip_norm)
    both = relation is Relation.REPLACE_ONE
    difference = longest + (max(longest, null) if both else null)
    inside = facts.n <= n and facts.lipschitz <= query.gradient.clip_norm
    return (difference / n / curved if inside else math.inf), error


def gaussian(mechanism, facts, relation):
    query = mechanism.query
    if type(query).__name__ == "OnePass":
        expands = query.step_size * facts.smoothness > 2.0 * (1.0 + 1e-9)
        void = (
            expands
            or is_no_gradient(query)
            or facts.lipschitz > query.gradient.clip_norm
            or relation == COUNTED.relation
        )
        sensitivity = (
            math.inf if void else relation.multiple * query.step_size * query.gradient.clip_norm
        )
    else:
        sensitivity, error = solved(query, facts, relation)
        sensitivity += 2.0 * error
    return dp.GaussianDpEvent(relation.multiple * mechanism.scale / sensitivity)


def norm_laplace(mechanism, facts, relation):
    sensitivity, error = solved(mechanism.query, facts, relation)
    return privacy.pure_event((sensitivity + 2.0 * error) / mechanism.scale)


def laplace(mechanism, facts, relation):
    query = mechanism.query
    sparse_rows = query.kept is not None
    if math.isfinite(facts.radius) or (facts.sparsity is None and not sparse_rows):
        return dp.NonPrivateDpEvent()
    curved = facts.smoothness / query.minimiser.regularisation
    sparsity = query.kept if sparse_rows else facts.sparsity
    if sparse_rows:  # rows are made so short
        facts = dataclasses.replace(facts, lipschitz=query.minimiser.gradient.clip_norm)
    width = math.sqrt((1 if sparse_rows else 2) * sparsity * curved)
    spread = min(math.sqrt(facts.dim), math.sqrt(sparsity) + 0.5 * width)
    sensitivity, _ = solved(query.minimiser, facts, relation)
    if spread == 0.0:
        return dp.NoOpDpEvent()
    return dp.LaplaceDpEvent(relation.multiple * mechanism.scale / (spread * sensitivity))


def objective(mechanism, facts, relation):
    tilt, query = mechanism.tilt, mechanism.tilt.query
    ratio = facts.smoothness / (query.regularisation * query.gradient.size)
    reach = min(2.0 * facts.radius, query.gradient.clip_norm / query.regularisation)
    whole = query.regularisation + facts.smoothness
    error = accelerated(query.regularisation, whole, query.gradient.clip_norm * reach, query.steps)
    error = max(0.999 * error, query.error)
    sensitivity = query.gradient.clip_norm / query.gradient.size
    if facts.n > query.gradient.size or is_no_gradient(query):
        return dp.NonPrivateDpEvent()
    if type(tilt).__name__ == "GaussianObjectivePerturbation":
        exact = privacy.ObjectivePerturbationDpEvent(tilt.scale / sensitivity, math.log1p(ratio))
        hidden = dp.GaussianDpEvent(relation.multiple * mechanism.finish_scale / (2.0 * error))
    else:
        exact = privacy.pure_event(math.log1p(ratio) + relation.multiple * sensitivity / tilt.scale)
        hidden = privacy.pure_event(2.0 * error / mechanism.finish_scale)
    return dp.ComposedDpEvent([exact, hidden])


def gibbs(mechanism, facts, relation):
    steep = relation.multiple * facts.lipschitz / mechanism.query.gradient.size
    if facts.n > mechanism.query.gradient.size or mechanism.proposals < 100:
        return dp.NonPrivateDpEvent()
    if mechanism.regularisation == 0.0:
        return privacy.pure_event(2.0 * facts.radius * steep / mechanism.temperature)
    mu = steep / math.sqrt(mechanism.temperature * mechanism.regularisation)
    return dp.GaussianDpEvent(relation.multiple / mu)


def projected_mean(mechanism, facts, relation):
    query, noisy = mechanism.query, mechanism.noisy
    if type(noisy).__name__ == "GaussianMechanism":
        longest = min(query.l2_clip, query.l1_clip)
        return dp.GaussianDpEvent(noisy.scale * query.size / longest)
    longest = min(query.l1_clip, query.l2_clip * math.sqrt(facts.dim))
    return dp.LaplaceDpEvent(noisy.scale * query.size / longest)


def compressed(mechanism, facts, relation):
    query = mechanism.query
    z = mechanism.scale * query.size / min(query.l2_clip, query.l1_clip)
    if mechanism.matrix is None:
        return privacy.CompressedGaussianDpEvent(z, mechanism.measurements)
    longest = np.linalg.norm(mechanism.matrix, axis=0).max()
    return dp.GaussianDpEvent(z / longest) if longest > 0.0 else dp.NoOpDpEvent()


TRUTHS = {
    "PrivateGradient": private_gradient,
    "VarianceReducedGradient": variance_reduced,
    "BiasReducedGradient": bias_reduced,
    "GaussianMechanism": gaussian,
    "NormLaplaceMechanism": norm_laplace,
    "LaplaceMechanism": laplace,
    "ObjectivePerturbationRelease": objective,
    "GibbsMechanism": gibbs,
    "ProjectedMean": projected_mean,
    "CompressedMean": compressed,
}


def spends_as_much_as_it_does(plan):
    """Return True if the guarantee is no smaller than that of the event of this file."""
    real, delta = truth(plan), plan.budget.delta
    if real is None:
        return True
    real = privacy.Guarantee(real, plan.budget.relation).epsilon(delta).lower
    return plan.guarantee.epsilon(delta).upper >= real * (1.0 - 1e-5)


@pytest.mark.parametrize("case", few(CASES, MECHANISMS))
def test_a_changed_number_has_its_own_guarantee_and_rate_or_is_refused(case):
    plan = planned(case)
    assert spends_as_much_as_it_does(plan)
    accepted = []
    for label, fields in all_changes(plan):
        try:
            other = dataclasses.replace(plan, **fields)
        except ValueError:
            continue
        assert spends_as_much_as_it_does(other), label
        assert other.rate.upper >= max((value for value, _ in other.rate.lower), default=0.0), label
        assert str(other), label
        accepted.append(label)
    assert accepted


def test_the_cases_are_those_of_all_algorithms():
    assert {case.split(",")[0] for case in CASES} == ALGORITHMS
    mechanism = {type(planned(case).params.mechanism).__name__ for case in CASES}
    assert mechanism == {*TRUTHS, "BestOfRuns"}


@pytest.mark.parametrize("case", CASES)
def test_a_control_has_the_rate_of_its_own_noise(case):
    """Check that a control has no lower bounds, because it keeps to no budget."""
    plan = planned(case)
    for factor in (0.5, 2.0) if plan.algorithm.noise == "law" else (0.0, 0.5, 2.0):
        control = plan.with_noise(factor)
        assert control.rate.lower == ()
        assert control.rate.quantity == plan.rate.quantity
        ends = sorted([control.rate.upper, plan.rate.upper], reverse=factor < 1.0)
        assert ends[0] == plan.rate.upper or factor == 0.0


@pytest.mark.parametrize("case", CASES)
def test_a_relation_may_be_named(case):
    plan = planned(case)
    relation, mechanism = plan.budget.relation, plan.params.mechanism
    assert repr(mechanism.event(str(relation))) == repr(mechanism.event(relation))


# --- the rate of what would run -------------------------------------------------------------------


def with_mechanism(plan, **changes):
    mechanism = dataclasses.replace(plan.params.mechanism, **changes)
    return dataclasses.replace(plan, params=plan.params._replace(mechanism=mechanism))


@pytest.mark.parametrize("case", ["dp_gd", "dp_sgd", "dp_svrg", "dp_ftrl"])
def test_more_noise_has_a_larger_bound(case):
    """Use a ball so large that the bound has no cap. The lower bound of the budget is the same."""
    facts, own, choices = CASES[case]
    facts = dataclasses.replace(facts, radius=1e9, smoothness=None, lipschitz=1e-9)
    choices = {**choices, "difference_clip": 2e-9} if case == "dp_svrg" else choices
    plan = privopt.ALGORITHMS[case].plan(facts, own, **choices)
    loud = with_mechanism(plan, scale=1000.0 * plan.params.mechanism.scale)
    assert loud.rate.upper == loud.rate.cap > plan.rate.upper or case == "dp_svrg"
    assert math.fsum(term.value for term in loud.rate.terms) > 30.0 * plan.rate.upper
    assert loud.rate.lower[0] == plan.rate.lower[0]
    assert max(loud.rate.lower).value >= max(plan.rate.lower).value


def test_the_bound_of_changed_noise_and_steps_is_that_of_a_plan_made_so():
    """Check that a plan without its budget is a function of the noise alone."""
    choices = {"step_size": 0.1, "output": "average"}
    plan = privopt.dp_gd(CLASS, budget(), steps=100, **choices)
    less = dataclasses.replace(budget(), epsilon=0.125)
    other = privopt.dp_gd(CLASS, less, steps=9, **choices)
    mechanism = other.params.mechanism
    changed = with_mechanism(plan, scale=mechanism.scale, steps=mechanism.steps)
    bare = [dataclasses.replace(each.rate, lower=()) for each in (changed, other)]
    assert bare[0] == bare[1] != dataclasses.replace(plan.rate, lower=())
    assert changed.rate.lower[1] == other.rate.lower[1]


def test_other_batches_have_the_rate_of_their_theorem_or_none():
    choices = {"steps": 5, "batch_size": 12, "step_size": 0.1, "output": "average"}
    plan = privopt.dp_sgd(CLASS, budget(), **choices)
    loud = with_mechanism(plan, scale=50.0 * plan.params.mechanism.scale)
    fixed = with_mechanism(loud, batches=mechanisms.FixedSizeBatches(12, 60))
    sampling = [{term.name for term in each.rate.terms} for each in (loud, fixed)]
    assert sampling == [
        {"noise", "sampling", "gradients", "start"},
        {"noise", "gradients", "start"},
    ]
    passes = with_mechanism(loud, batches=mechanisms.ShuffledBatches(5, 60))
    assert passes.rate.upper == math.inf
    assert "biased" in passes.rate.theorem


@pytree_dataclass
@dataclasses.dataclass(frozen=True)
class HeavyNoise(mechanisms.IndependentNoise):
    """Noise with Student's law. Only its rate is tested: its event is that of Gaussian noise."""

    variance = None

    def update(self, state, t, key, like):
        return jax.random.t(jax.random.fold_in(key, t), 2.01, like.shape, like.dtype), state


@pytree_dataclass
@dataclasses.dataclass(frozen=True)
class SpokenNoise(HeavyNoise):
    """Noise with Student's law of 2.01 degrees of freedom, and its variance."""

    variance = 201.0


@pytest.mark.parametrize("case", ["dp_gd", "dp_ftrl"])
def test_noise_of_another_law_has_a_rate_if_its_variance_is_known(case):
    facts, own, choices = CASES[case]
    plan = privopt.ALGORITHMS[case].plan
    choices = {**choices, **({"regularisation": 9.0} if case == "dp_ftrl" else {"step_size": 0.1})}
    silent = plan(facts, own, **{**choices, "noise": HeavyNoise()})
    assert silent.rate.upper == math.inf
    assert "variance of the noise is unknown" in silent.rate.theorem
    spoken = plan(facts, own, **{**choices, "noise": SpokenNoise()})
    normal = plan(facts, own, **{**choices, "noise": "independent"})
    louder = with_mechanism(normal, scale=math.sqrt(201.0) * normal.params.mechanism.scale)
    for one, two in zip(spoken.rate.terms, louder.rate.terms, strict=True):
        assert one.value == pytest.approx(two.value, rel=1e-7)
    assert spoken.rate.terms[0].value > 10.0 * normal.rate.terms[0].value


def test_a_choice_that_is_declared_is_part_of_the_plan():
    """Compare regret and population risk of one run."""
    plans = [
        privopt.dp_ftrl(CLASS, budget(), batch_size=12, quantity=quantity)
        for quantity in ("regret", "population risk")
    ]
    assert plans[0].params.mechanism == plans[1].params.mechanism
    assert plans[0] != plans[1]
    assert [plan.rate.quantity for plan in plans] == ["regret", "population risk"]
    with pytest.raises(ValueError, match="declared must be a FtrlDeclaration, got an object"):
        dataclasses.replace(plans[0], declared=None)


def test_an_algorithm_that_declares_no_rate_claims_none():
    plan = planned("dp_gd")
    mine = dataclasses.replace(plan.algorithm, name="mine", rate=Algorithm.rate)
    rate = dataclasses.replace(plan, algorithm=mine).rate
    assert (rate.upper, rate.theorem) == (math.inf, "none: mine declares none")
    assert rate.lower == plan.rate.lower
    broken = dataclasses.replace(plan.algorithm, rate=lambda _: 1.0)
    with pytest.raises(ValueError, match="rate must be a Rate, got an object of type float"):
        str(dataclasses.replace(plan, algorithm=broken))


# --- assumptions of a guarantee -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "fact", "value"),
    [
        ("output_perturbation", "strong_convexity", 0.25),
        ("output_perturbation", "lipschitz", 2.5),
        ("output_perturbation", "smoothness", 1.5),
        ("output_perturbation", "radius", 2.5),
        ("output_perturbation", "n", 61),
        ("objective_perturbation", "smoothness", 0.5),
        ("exponential_mechanism, pure", "radius", 2.5),
        ("exponential_mechanism", "convex", False),
        ("phased_sgd", "smoothness", 0.3),
        ("linf_output_perturbation, pure", "sparsity", 3),
        ("linf_output_perturbation, pure", "radius", 2.0),
        ("dp_sgd", "n", 61),
    ],
)
def test_a_class_that_declares_less_than_the_guarantee_rests_on_is_refused(case, fact, value):
    plan = planned(case)
    weaker = dataclasses.replace(plan.problem_class, **{fact: value})
    message = (
        rf"problem_class\.{fact} must be .* an assumption of the guarantee, got|static\.{fact}"
    )
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(plan, problem_class=weaker)


def test_a_set_is_refused_where_the_guarantee_is_for_the_whole_space():
    """A smaller set than that of the plan is valid, unless normal vectors invalidate the proof."""
    plan = planned("linf_output_perturbation, pure")
    features = np.eye(3)[np.arange(60) % 3]
    facts = dataclasses.replace(plan.problem_class, radius=1.0, sparsity=2)
    where = problems.logistic(features, np.ones(60), problem_class=facts)
    with pytest.raises(ValueError, match=r"problem\.radius must be inf, the whole space"):
        privopt.run(plan, where, jax.random.key(0))
