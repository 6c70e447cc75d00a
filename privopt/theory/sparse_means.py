"""Private means of sparse records, under noise that is projected onto a body: bounds and rates.

Records have ``|z|_2 <= L`` and ``|z|_1 <= R = L sqrt(s)``, as those with ``s`` nonzero entries do.
Their mean is ``m``, the noise ``xi``; what is released is ``p``, the point of a body nearest to ``m
+ xi``. The bodies: none (the whole space), ``l2`` (``|z|_2 <= L``), ``l1`` (``|z|_1 <= R``), and
``l1_l2``, both at once. The noise is Gaussian or Laplace, and symmetric.

*Bounds of the error.* As ``m`` is in the body, ``u = p - m`` has ``|u|^2 <= <u, xi>``, hence ``|u|
<= |xi|``. And ``E <m, xi> = 0``, so that ``E |u|^2 <= E <p, xi>``, at most the support function ``E
h(xi)`` of the body.

*Between sparse and dense.* Cut the noise at ``t``: no entry of ``xi - S_t(xi)`` is above ``t``, and
``S_t(xi)`` is odd in ``xi``. So ``E <p, xi> <= R t + E <u, S_t(xi)>``: with ``x^2 = E |u|^2``

    x^2 <= R t + x A,   A^2 = E |S_t(xi)|^2,   hence   x <= A/2 + sqrt(A^2/4 + R t)  for every t.

At ``t = 0`` this is the dense bound ``E |xi|^2``. For Laplace noise of scale ``b`` the best ``t``
makes it at most ``2 R b (1 + ln(d b/R))`` where ``d b >= R``, the order of the lower bound, where
``R E |xi|_inf`` has ``ln d``. For Gaussian noise the logarithm is that of ``d sigma/R``. The bound
is quasi-convex in ``t``: ``A`` is convex in ``t``, and ``x <= c`` where ``R t + c A <= c^2``.

Sources: Nikolov, Talwar and Zhang 2013 (arXiv:1212.0297), the projection mechanism; Ghazi, Guzman,
Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), sparse means. The constants and the cut are
derived here.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.optimize import minimize_scalar

from privopt.arguments import Names, checked
from privopt.spec import ProblemClass
from privopt.theory.noise_norms import NoiseKind, NoiseVector
from privopt.theory.rate import FIXED, Powers, Quantity, Rate, Term, no_rate

_NOT_SMOOTH = "no smoothness is declared of distances more curved than one"
_HARD = {NoiseKind.GAUSSIAN: "sparse_copies", NoiseKind.LAPLACE: "sparse_packing"}


class Body(Names):
    """What the noisy mean is projected onto: see the module."""

    NONE = "none"
    L2 = "l2"
    L1 = "l1"
    L1_L2 = "l1_l2"

    @property
    def sparse(self) -> bool:
        """Whether it bounds the sum of the entries."""
        return self in (Body.L1, Body.L1_L2)

    @property
    def round(self) -> bool:
        """Whether it bounds their norm."""
        return self in (Body.L2, Body.L1_L2)


class SparseError(NamedTuple):
    """A bound of ``E |p - m|^2``, and how it moves: see :func:`sparse_error`."""

    value: float
    share: float
    order: float


def sparse_error(noise: NoiseVector, l1_radius: float, l2_radius: float = math.inf) -> SparseError:
    """``min_t R t + min(x, L) A``, with ``x^2 = R t + x A`` and ``A^2 = E |S_t(xi)|^2``.

    ``l1_radius`` and ``l2_radius`` are ``R`` and ``L``: ``E <p, S_t(xi)> <= L A`` where the body
    bounds the norm. With ``a`` the ``share`` of ``R t`` in it and ``c`` the scale of the noise, the
    bound moves like ``R^a c d^((1 - a)/2)`` to the power ``order = 2/(1 + a)``, and where ``x > L``
    to the power 1: the best ``t`` does not count in first order.
    """

    def error(threshold: float) -> float:
        above, below = noise.beyond(threshold), l1_radius * threshold
        root = 0.5 * above + math.sqrt(0.25 * above**2 + below)
        return below + min(root, l2_radius) * above

    most = noise.largest_quantile(1e-6)
    found = minimize_scalar(
        error, bounds=(0.0, most), method="bounded", options={"xatol": 1e-9 * most}
    )
    best = float(found.x) if error(found.x) < error(0.0) * (1.0 - 1e-9) else 0.0
    value = error(best)
    share = l1_radius * best / value
    return SparseError(value, share, 2.0 / (1.0 + share) if value <= l2_radius**2 else 1.0)


def projected_error(
    noise: NoiseVector, *, body: Body | str, clip: float, sparsity: int
) -> tuple[Term, ...]:
    """Bounds of ``E |p - m|^2``, each a bound by itself, with their local exponents.

    ``dense``, ``E |xi|^2``, for all; ``sparse``, :func:`sparse_error`, for bodies that bound the
    sum of the entries; ``ball``, ``L E |xi|``, for those that bound the norm; ``constant``, what
    the body allows: ``(2 L)^2``, or ``(R + L)^2`` for ``l1``.

    The scale of the noise moves like ``1/(n epsilon)``, and ``sqrt(s)`` for Laplace noise; ``clip``
    is ``L``.
    """
    body, scale = Body.named("body", body), noise.powers
    terms = [Term("dense", noise.square, 2.0 * scale + Powers(dim=1.0))]
    if body.round:
        terms.append(Term("ball", clip * math.sqrt(noise.square), scale + Powers(dim=0.5)))
    if body.sparse:
        reach = clip if body.round else math.inf
        value, share, order = sparse_error(noise, clip * math.sqrt(sparsity), reach)
        parts = Powers(sparsity=0.5 * share, dim=0.5 * (1.0 - share)) + scale
        terms.append(Term("sparse", value, order * parts))
    if body is not Body.NONE:
        terms.append(_widest(body, clip, sparsity))
    return tuple(terms)


def _widest(body: Body, clip: float, sparsity: int) -> Term:
    """What the body allows: ``p`` in it, and the mean within ``L``."""
    if body.round:
        return Term("constant", 4.0 * clip**2, FIXED)
    root = math.sqrt(sparsity)
    return Term("constant", (clip * (1.0 + root)) ** 2, Powers(sparsity=root / (1.0 + root)))


@checked
def projection_mechanism_rate(
    problem_class: ProblemClass,
    *,
    noise: NoiseKind | str,
    scale: float,
    body: Body | str,
    clip: float,
) -> Rate:
    """The rate of a private mean, ``(H/2) E |p - mean|^2``: the least of its regimes' bounds.

    Terms as for :func:`projected_error`; the regime is named after the least. The sparse term is
    tight on blocks of copies, for Laplace noise on packings; the dense term on any records.

    Losses are squared distances to the records, ``(m/2) |w - z|^2``, of which ``m`` is at most the
    smoothness ``H``. Without a smoothness the rate speaks of ``m <= 1``, and ``H = 1``; it has no
    terms, and the reason, where a strong convexity above 1 is declared. Without a sparsity records
    are dense, ``s = d``. ``clip`` is ``L``, the longest that a record is.

    Examples
    --------
    >>> facts = ProblemClass(n=2048, dim=8192, lipschitz=2.0, radius=1.0, smoothness=1.0,
    ...                      strong_convexity=1.0, sparsity=4)
    >>> rate = projection_mechanism_rate(facts, noise="gaussian", scale=0.004, body="l1_l2",
    ...                                  clip=1.0)
    >>> rate.leading.name, round(rate.upper, 4), round(rate.exponents["sparsity"], 2)
    ('sparse', 0.0109, 0.43)
    """
    body = Body.named("body", body)
    modulus = _largest_modulus(problem_class)
    if modulus is None:
        return no_rate(_NOT_SMOOTH)
    half = 0.5 * modulus
    vector = NoiseVector(NoiseKind.named("noise", noise), scale, problem_class.dim)
    sparsity = problem_class.sparsity or problem_class.dim
    terms = [
        Term(term.name, half * term.value, _declared(term.powers, problem_class))
        for term in projected_error(vector, body=body, clip=clip, sparsity=sparsity)
    ]
    binds = min(terms, key=lambda term: term.value).name
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem="E F(p) - F* <= (H/2) min_t (A/2 + sqrt(A^2/4 + R t))^2, A^2 = E|S_t(noise)|^2, "
        "R = L sqrt(s)"
        if body.sparse
        else "E F(p) - F* <= (H/2) E|noise|^2",
        source="Nikolov, Talwar and Zhang 2013 (arXiv:1212.0297); Ghazi, Guzman, Kamath, Kumar and "
        "Manurangsi 2024 (arXiv:2404.10881), Lemma 3.1; constants derived here",
        terms=tuple(terms),
        combine=min,
        whole_class=problem_class.strong_convexity > 0.0,  # else its hard losses are no distances
        regime=f"{binds}, at a fixed ratio of epsilon to mu",
        tight_on={"dense": "sparse_silence", "sparse": _HARD[vector.kind]}.get(binds),
    )


def _largest_modulus(problem_class: ProblemClass) -> float | None:
    """``H``; 1 where none is declared; None if the declared strong convexity exceeds that 1."""
    if problem_class.smoothness is not None:
        return problem_class.smoothness
    return 1.0 if problem_class.strong_convexity <= 1.0 else None


def _declared(powers: Powers, problem_class: ProblemClass) -> Powers:
    """Where no sparsity is declared, ``s`` is the dimension and moves with it."""
    if problem_class.sparsity is not None:
        return powers
    return powers + Powers(dim=powers.sparsity, sparsity=-powers.sparsity)


@checked
def l1_recovery_rate(problem_class: ProblemClass, *, clip: float) -> Rate:
    """The rate of a mean that is recovered from noisy Gaussian measurements and then projected.

    With ``m`` measurements of noise ``sigma`` each, the error is at most ``C (sigma sqrt(m) + L
    sqrt(s ln(d/s)/m))`` for an unknown ``C``. What is promised is what the body allows whatever was
    recovered: no two of its points are more than ``2 L`` apart, ``L`` the ``clip``.
    """
    modulus = _largest_modulus(problem_class)
    if modulus is None:
        return no_rate(_NOT_SMOOTH)
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem="E F(p) - F* <= 2 H L^2; of order L^2 sqrt(s ln(d/s) ln(1/delta))/(n epsilon), "
        "the constant unknown",
        source="Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), Theorem 3.4",
        terms=(Term("constant", 2.0 * modulus * clip**2, FIXED),),
        whole_class=problem_class.strong_convexity > 0.0,
        regime="any",
    )
