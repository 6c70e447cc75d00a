"""A noisy mean, projected onto a body that is known to hold the mean."""

from __future__ import annotations

from typing import NamedTuple

from dp_accounting import DpEvent
from jax import Array

from privopt.arguments import instance, member
from privopt.convex import ConstraintSet, L1Ball, L1L2Ball, L2Ball, WholeSpace
from privopt.mechanisms.additive import GaussianMechanism, LaplaceMechanism, classic_gaussian_scale
from privopt.mechanisms.means.clipped_mean import ClippedMean
from privopt.spec import Budget, Relation


class ProjectedMean(NamedTuple):
    """``argmin_{v in B} |v - (zbar + xi)|_2``: the mean, noise, and the nearest point of a body.

    The projection is post-processing. It makes the error ``e`` smaller: ``zbar`` is a member of
    ``B``, so ``|e|^2 <= <e, xi>`` (the variational inequality at ``zbar``), hence

        E |e|^2 <= min(E h_B(xi), E |xi|^2),    h_B(xi) = max_{v in B} <v, xi>,

    as ``E <zbar, xi> = 0`` and a projection does not expand distances.
    Source: Nikolov, Talwar and Zhang, "The geometry of differential privacy: the sparse and
    approximate cases", STOC 2013; Ghazi, Guzman, Kamath, Kumar and Manurangsi, "Differentially
    private optimization with sparse gradients", NeurIPS 2024 (arXiv:2404.10881), lemma 3.1, whose
    statement lacks the square of the error.

    Attributes
    ----------
    noisy : GaussianMechanism or LaplaceMechanism
        Of a :class:`ClippedMean`.
    body : ConstraintSet
        ``B``, public.

    Formal guarantee
    ----------------
    That of ``noisy``: Gaussian noise rests on the records' Euclidean clip alone, and Laplace noise
    on the l1 clip alone.

    Examples
    --------
    >>> from privopt.spec import ProblemClass
    >>> facts = ProblemClass(n=1000, dim=50, lipschitz=1.0, radius=1.0, sparsity=4)
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> mechanism = ProjectedMean.calibrated(ClippedMean.of(facts), budget, noise="laplace")
    >>> round(mechanism.scale, 6), type(mechanism.body).__name__
    (0.004, 'L1L2Ball')
    """

    noisy: GaussianMechanism[ClippedMean] | LaplaceMechanism[ClippedMean]
    body: ConstraintSet

    @classmethod
    def calibrated(
        cls,
        query: ClippedMean,
        budget: Budget,
        *,
        noise: str = "gaussian",
        body: str = "l1_l2",
        classic: bool = False,
    ) -> ProjectedMean:
        """The least noise within ``budget``; that of the textbook where ``classic``.

        Parameters
        ----------
        noise : {"gaussian", "laplace"}
        body : {"l1_l2", "l1", "l2", "none"}
            As :func:`body_of` reads it.
        classic : bool
            Gaussian noise of :func:`classic_gaussian_scale`, for ``epsilon <= 1``.

        Raises
        ------
        ValueError
            If ``noise`` or ``body`` is none of these, or no such noise meets ``budget``.
        """
        instance("query", query, ClippedMean)
        member("noise", noise, ("gaussian", "laplace"))
        around = body_of(body, query.l1_clip, query.l2_clip)
        if noise == "laplace":
            return cls(LaplaceMechanism.calibrated(query, budget), around)
        if classic:
            return cls(GaussianMechanism(query, classic_gaussian_scale(query, budget)), around)
        return cls(GaussianMechanism.calibrated(query, budget), around)

    @property
    def query(self) -> ClippedMean:
        """The mean that is asked for."""
        return self.noisy.query

    @property
    def scale(self) -> float:
        """``sigma`` of Gaussian noise, ``b`` of Laplace noise."""
        return self.noisy.scale

    def event(self, relation: Relation) -> DpEvent:
        """What one release does to privacy."""
        return self.noisy.event(relation)

    def release(self, key: Array, mean: Array) -> Array:
        """The projected noisy mean; ``mean`` is what ``query`` gave."""
        return self.body.project(self.noisy.add_noise(key, mean))


def body_of(name: str, l1_clip: float, l2_clip: float) -> ConstraintSet:
    """A body that holds every mean of records that are clipped in two norms.

    Parameters
    ----------
    name : {"l1_l2", "l1", "l2", "none"}
        The balls of the two clips together, one of them, or the whole space.
    l1_clip, l2_clip : float

    Raises
    ------
    ValueError
        If ``name`` is none of these.

    Examples
    --------
    >>> body_of("l2", l1_clip=2.0, l2_clip=1.0).radius
    1.0
    """
    bodies: dict[str, ConstraintSet] = {
        "l1_l2": L1L2Ball(l1_clip, l2_clip),
        "l1": L1Ball(l1_clip),
        "l2": L2Ball(l2_clip),
        "none": WholeSpace(),
    }
    member("body", name, bodies)
    return bodies[name]
