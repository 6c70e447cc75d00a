"""Where a plan meets a problem: ``run`` and ``run_many``.

A plan is made on the host from public numbers; a run is a pure function on the device. Here the
plan's numbers become arguments of one compiled program, which no new number makes compile again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec

from privopt.arguments import described, instance
from privopt.core.plan import Algorithm, Plan, Run
from privopt.spec import Relation

__all__ = ["run", "run_many"]

_REMEDIES = {
    "linear_model": "use a loss of one linear prediction without kinks (GeneralisedLinear)",
    "smoothing": "declare smoothness= in its ProblemClass, or use a loss with a Moreau envelope",
}


def run(plan: Plan, problem: Any, key: Array, *, stream: int = 0) -> Run:
    """One run of ``plan`` on ``problem``.

    Parameters
    ----------
    plan : Plan
    problem : privopt.problems.Problem
        Of the plan's class: same ``n`` and ``dim``, constants no larger than the plan's. Under
        ``add_or_remove_one`` any ``n`` up to the plan's ``most_records``.
    key : Array
        A typed key, ``jax.random.key(seed)``; all randomness of the run comes from it, the
        records included where the problem is a population's.
    stream : int
        Which of the key's streams of noise, from 0 to ``2^31 - 1``; they are independent. The
        records of a population are the same for all of them.

    Returns
    -------
    Run
        ``released`` of the problem's ``shape``, by default ``(dim,)``, in its dtype. Same key and
        stream, same bits.

    Raises
    ------
    ValueError
        Before compiling, if problem, key or stream do not fit the plan. Nothing is raised that
        depends on the values of the data, nor, up to ``most_records``, on how many there are.

    Formal guarantee
    ----------------
    ``plan.guarantee``, for one release. It composes with that of another one if the two draw
    independent noise, from two keys or from two streams. **Runs of one key and one stream share
    their noise**, also those of different plans. It cancels: from two releases and two public
    noise scales follows the minimiser or the gradient to all digits, and neither guarantee says
    anything about both together.
    """
    instance("plan", plan, Plan)
    _fits(plan, problem)
    _typed_key(key, "key", ndim=0)
    if isinstance(stream, bool) or not isinstance(stream, Integral) or not 0 <= stream < 2**31:
        raise ValueError(f"stream must be an integer from 0 to {2**31 - 1}, got {stream!r}")
    with _precision(plan):
        params = _numbers(plan.params, _dtype(plan, problem))
        number = np.uint32(stream)
        found = _run(plan.algorithm, plan.static, params, problem.source, key, number)
    return _shaped(found, problem.shape)


def run_many(
    plans: Sequence[Plan], problem: Any, keys: Array, *, common_random_numbers: bool = False
) -> Run:
    """Every plan with every key, as one compiled program.

    Parameters
    ----------
    plans : sequence of Plan
        Of one algorithm and equal ``static``; their numbers are stacked.
    problem : privopt.problems.Problem
    keys : Array
        Typed keys of shape ``(keys,)``. Replicates are spread over all of ``jax.devices()``.
    common_random_numbers : bool
        Whether all plans draw the same noise with a key. Their differences then vary less, which
        is what a simulation wants; but they are no longer private together, see :func:`run`.

    Returns
    -------
    Run
        Every leaf with leading axes ``(plans, keys)``; entry ``(i, j)`` is
        ``run(plans[i], problem, keys[j], stream=i)``, with ``stream=0`` for common random
        numbers. Either way, all plans see the same records of a population with a key.

    Raises
    ------
    ValueError
        As :func:`run`; or if the plans cannot share a trace.
    """
    if isinstance(plans, Plan):
        raise ValueError("plans must be a sequence of Plan, got one alone; write [plan]")
    plans = [instance("plans", plan, Plan) for plan in plans]
    if not plans:
        raise ValueError("plans must hold at least one plan, got none")
    first = plans[0]
    kind: Any = jax.tree.structure(first.params)
    for plan in plans:
        same = plan.algorithm == first.algorithm and plan.static == first.static
        if not same or kind != jax.tree.structure(plan.params):
            raise ValueError(
                "plans must share algorithm, static part and kind of noise, got "
                f"{first.algorithm.name} {first.static} and {plan.algorithm.name} {plan.static}"
            )
        _fits(plan, problem)
    _typed_key(keys, "keys", ndim=1)
    if keys.shape[0] == 0:
        raise ValueError("keys must hold at least one key, got none")
    if not isinstance(common_random_numbers, bool):
        raise ValueError(
            f"common_random_numbers must be True or False, got {common_random_numbers!r}"
        )
    streams = np.arange(len(plans), dtype=np.uint32)
    if common_random_numbers:
        streams = np.zeros_like(streams)
    devices = jax.devices()[: keys.shape[0]]
    with _precision(first):
        dtype = _dtype(first, problem)
        numbers = [_numbers(plan.params, dtype) for plan in plans]
        params = jax.tree.map(lambda *leaves: np.stack(leaves), *numbers)
        mesh = Mesh(np.array(devices), ("replicates",))
        found = _run_many(
            first.algorithm, first.static, (params, streams), problem.source, keys, mesh
        )
    return _shaped(found, problem.shape)


@partial(jax.jit, static_argnames=("algorithm", "static"))
def _run(
    algorithm: Algorithm, static: Any, params: Any, source: Any, key: Array, stream: Array
) -> Run:
    given = source.astype(jnp.float64) if algorithm.float64 else source
    objective, key = given.sample(key)
    result = algorithm.run(static, params, objective, _of_stream(key, stream))
    if not algorithm.float64:
        return result
    return jax.tree.map(lambda leaf: leaf.astype(source.dtype), result)


def _of_stream(key: Array, stream: Array) -> Array:
    """``key`` itself for stream 0, for another one its child ``2^32 - 1 - stream``.

    A run draws from children of its key as well: ``fold_in(key, t)`` at step ``t``, and
    ``split(key)``, which are the first of these same children. All have numbers below ``2^31``,
    but for the last, ``2^32 - 1``, which is the output rule's. So no stream meets a run.
    """
    child = jax.random.fold_in(key, np.uint32(2**32 - 1) - stream)
    return jnp.where(stream == 0, key, child)


@partial(jax.jit, static_argnames=("algorithm", "static", "mesh"))
def _run_many(
    algorithm: Algorithm, static: Any, plans: Any, source: Any, keys: Array, mesh: Mesh
) -> Run:
    def replicate(plans: Any, source: Any, keys: Array) -> Run:
        def one(plan: Any, source: Any, key: Array) -> Run:
            params, stream = plan
            return _run(algorithm, static, params, source, key, stream)

        if algorithm.gathers and mesh.devices.flat[0].platform == "cpu":

            def each(plan: Any) -> Run:
                return jax.lax.map(lambda key: one(plan, source, key), keys)

            return jax.lax.map(each, plans)
        over_keys = jax.vmap(one, (None, None, 0))
        return jax.vmap(over_keys, (0, None, None))(plans, source, keys)

    if mesh.size == 1:
        return replicate(plans, source, keys)
    replicates = keys.shape[0]
    padded = keys[np.arange(-(-replicates // mesh.size) * mesh.size) % replicates]
    result = jax.shard_map(
        replicate,
        mesh=mesh,
        in_specs=(PartitionSpec(), PartitionSpec(), PartitionSpec("replicates")),
        out_specs=PartitionSpec(None, "replicates"),
        check_vma=False,
    )(plans, source, padded)
    return jax.tree.map(lambda leaf: leaf[:, :replicates], result)


def _shaped(found: Run, shape: tuple[int, ...] | None) -> Run:
    """What is released, a vector to every method, in the shape that the problem's parameter has."""
    if shape is None:
        return found

    def view(points: Array) -> Array:
        return points.reshape(*points.shape[:-1], *shape)

    path = found.path and found.path._replace(points=view(found.path.points))
    return found._replace(released=view(found.released), path=path)


def _precision(plan: Plan) -> AbstractContextManager[Any]:
    return jax.enable_x64(True) if plan.algorithm.float64 else nullcontext()


def _dtype(plan: Plan, problem: Any) -> Any:
    return np.dtype(np.float64) if plan.algorithm.float64 else problem.objective.dtype


def _numbers(params: Any, dtype: Any) -> Any:
    """Python numbers as arrays of the run's type, so that no value enters the program."""
    return jax.tree.map(lambda x: np.asarray(x, np.int32 if isinstance(x, int) else dtype), params)


def _fits(plan: Plan, problem: Any) -> None:
    if isinstance(problem, type) or not hasattr(problem, "source"):
        raise ValueError(f"problem must be a privopt.problems.Problem, got {described(problem)}")
    planned, actual = plan.problem_class, problem.problem_class
    if actual.dim != planned.dim:
        raise ValueError(f"problem.dim must be the plan's {planned.dim}, got {actual.dim}")
    if plan.budget.relation is not Relation.ADD_OR_REMOVE_ONE:
        if actual.n != planned.n:
            raise ValueError(f"problem.n must be the plan's {planned.n}, got {actual.n}")
    elif plan.most_records is not None and actual.n > plan.most_records:
        raise ValueError(
            f"problem.n must not exceed the plan's most_records {plan.most_records}, got {actual.n}"
        )
    if planned.convex and not actual.convex:
        raise ValueError("problem.convex must be the plan's True, got False")
    if actual.radius > planned.radius:
        raise ValueError(
            f"problem.radius must not exceed the plan's {planned.radius}, got {actual.radius}"
        )
    if actual.lipschitz > planned.lipschitz:
        raise ValueError(
            "problem.lipschitz must not exceed the plan's "
            f"{planned.lipschitz}, got {actual.lipschitz}"
        )
    if planned.smoothness is not None and not (
        actual.smoothness is not None and actual.smoothness <= planned.smoothness
    ):
        raise ValueError(
            "problem.smoothness must not exceed the plan's "
            f"{planned.smoothness}, got {actual.smoothness}"
        )
    if actual.strong_convexity < planned.strong_convexity:
        raise ValueError(
            "problem.strong_convexity must not be below the plan's "
            f"{planned.strong_convexity}, got {actual.strong_convexity}"
        )
    missing = plan.requires - problem.provides
    if missing:
        raise ValueError(
            f"problem must provide {', '.join(sorted(missing))} for {plan.algorithm.name}, "
            f"got {problem.name}: {'; '.join(_REMEDIES[name] for name in sorted(missing))}"
        )


def _typed_key(key: Any, name: str, ndim: int) -> None:
    dtype = getattr(key, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jax.dtypes.prng_key) or key.ndim != ndim:
        shape = "a single typed key" if ndim == 0 else "a vector of typed keys"
        raise ValueError(f"{name} must be {shape} made by jax.random.key (and split), got {key!r}")
