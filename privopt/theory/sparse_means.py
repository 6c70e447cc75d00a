"""Private means of sparse records: norms of noise vectors, error bounds and rates.

Records have ``|z|_2 <= L`` and ``|z|_1 <= R = L sqrt(s)``, for example because they have ``s``
nonzero entries. Let ``m`` be their mean and ``xi`` the noise. The output ``p`` is the projection of
``m + xi`` onto a convex set: the whole space (``none``), ``|z|_2 <= L`` (``l2``), ``|z|_1 <= R``
(``l1``), or both (``l1_l2``). With soft thresholding ``S_t`` at ``t``::

    E |p - m|^2 <= E |xi|^2                                                      dense,
    E |p - m|^2 <= x^2,  x = A/2 + sqrt(A^2/4 + R t),  A^2 = E |S_t(xi)|^2       sparse, any t.

Proofs: :ref:`Sparse gradients, Theorems 1 <theory-sparse-1>` and :ref:`2 <theory-sparse-2>`.
Sources: Nikolov, Talwar and Zhang 2013 (arXiv:1212.0297); Ghazi, Guzman, Kamath, Kumar and
Manurangsi 2024 (arXiv:2404.10881), Section 3. The constants and the threshold are derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr, ndtri, psi

from privopt.arguments import Names, checked, positive_number
from privopt.spec import ProblemClass
from privopt.theory.rate import FIXED, Exponents, Quantity, Rate, Term, no_rate

_NOT_SMOOTH = "no smoothness is declared of distances more curved than one"


class NoiseKind(Names):
    """Distribution of each noise entry.

    ``gaussian``
        Normal of standard deviation ``scale``.
    ``laplace``
        Density proportional to ``exp(-|x|/scale)``.
    """

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"


_HARD = {NoiseKind.GAUSSIAN: "sparse_copies", NoiseKind.LAPLACE: "sparse_packing"}


@dataclass(frozen=True)
class NoiseVector:
    """A vector ``xi`` of ``dim`` independent, identically distributed noise entries.

    ``scale`` is the standard deviation ``sigma`` of Gaussian noise or the scale ``b`` of Laplace
    noise.

    Examples
    --------
    >>> noise = NoiseVector("laplace", 0.5, 1000)
    >>> noise.square, round(noise.largest, 3)
    (500.0, 3.743)
    """

    kind: NoiseKind
    scale: float
    dim: float  # fractional where exponents are finite differences

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", NoiseKind.named("noise", self.kind))
        object.__setattr__(self, "scale", positive_number("scale", self.scale))

    @property
    def gaussian(self) -> bool:
        """True for Gaussian noise."""
        return self.kind is NoiseKind.GAUSSIAN

    @property
    def powers(self) -> Exponents:
        """Exponents of the scale. The l1 sensitivity ``2 L sqrt(s)/n`` enters for Laplace noise."""
        return Exponents(n=-1.0, epsilon=-1.0, sparsity=0.0 if self.gaussian else 0.5)

    @property
    def square(self) -> float:
        """``E |xi|_2^2``: ``d sigma^2``, or ``2 d b^2``."""
        return (1.0 if self.gaussian else 2.0) * self.dim * self.scale**2

    @property
    def largest(self) -> float:
        """Upper bound of ``E |xi|_inf``: ``sigma sqrt(2 ln 2d)``, or exactly ``b H_d`` for Laplace.

        ``H_d = 1 + 1/2 + ... + 1/d``. Proof: :ref:`Sparse gradients, Theorem 3 <theory-sparse-3>`.
        """
        if self.gaussian:
            return self.scale * math.sqrt(2.0 * math.log(2.0 * self.dim))
        return self.scale * float(psi(self.dim + 1.0) - psi(1.0))

    def largest_few(self, count: float) -> float:
        """Return an upper bound of ``E |xi|_(k)``, the norm of the ``k`` largest Gaussian entries.

        The bound of :ref:`Theorem 3 <theory-sparse-3>` at the ``t`` that ``k`` of ``d`` entries
        exceed in expectation.
        """
        if count >= self.dim:
            return math.sqrt(self.square)
        u = -float(ndtri(0.5 * count / self.dim))
        tail = 2.0 * (u * math.exp(-0.5 * u**2) / math.sqrt(2.0 * math.pi) + float(ndtr(-u)))
        return self.scale * math.sqrt(self.dim * tail)

    def ball_threshold(self, radius: float, norm: float = math.inf) -> float:
        """Return an upper bound of ``E tau``, the threshold of the max-norm projection onto a ball.

        ``tau`` is the smallest threshold with ``|S_tau(w + xi)|_2 <= R``, where the noise is
        Gaussian and ``|w|_2`` is at most ``R`` and at most ``norm``. With ``A^2 = E
        |S_t(xi)|_2^2``, for every ``t``::

            E tau <= t + A/(2 sqrt(d)) + A^2/(2 R),
            E tau <= t + sqrt(2 pi) sigma Q((R - m)/sigma)  if  m^2 = |w|^2 + A^2 <= R^2.

        Proof: :ref:`Sparse gradients, Theorem 4 <theory-sparse-4>`.

        Examples
        --------
        >>> noise = NoiseVector("gaussian", 0.02, 32_768)
        >>> [round(noise.ball_threshold(1.0, norm) / 0.02, 2) for norm in (1.0, 0.9, 0.5)]
        [3.09, 2.16, 1.48]
        """
        root = 2.0 * math.sqrt(self.dim)

        def bound(threshold: float) -> float:
            norm = self.beyond(threshold)
            return threshold + norm / root + norm**2 / (2.0 * radius)

        result = minimize_scalar(
            bound, bounds=(0.0, self.largest), method="bounded", options={"xatol": 1e-9}
        )
        any_norm = min(bound(float(result.x)), bound(0.0), self.largest)
        return min(any_norm, self._inside_threshold(radius, norm))

    def _inside_threshold(self, radius: float, norm: float) -> float:
        """Return the second bound of :meth:`ball_threshold`; infinite if no ``t`` is admissible."""

        def margin(threshold: float) -> float:
            return radius - math.hypot(norm, self.beyond(threshold))

        def bound(threshold: float) -> float:
            tail = float(ndtr(-margin(threshold) / self.scale))
            return threshold + math.sqrt(2.0 * math.pi) * self.scale * tail

        low, high = 0.0, self.largest
        if margin(high) <= 0.0:
            return math.inf
        if margin(low) < 0.0:
            low = brentq(margin, low, high, xtol=1e-12 * high)
        result = minimize_scalar(
            bound, bounds=(low, high), method="bounded", options={"xatol": 1e-9 * high}
        )
        admissible = (each for each in (low, float(result.x)) if margin(each) >= 0.0)
        return min(map(bound, admissible), default=math.inf)

    def beyond(self, threshold: float) -> float:
        """Return ``sqrt(E |S_t(xi)|_2^2)``, where ``S_t`` is soft thresholding at ``t``.

        With ``u = t/scale``, the square is ``2 d sigma^2 ((1 + u^2) Q(u) - u phi(u))``, where ``Q``
        is the upper tail of the standard normal law, or ``2 d b^2 exp(-u)``.
        """
        u = threshold / self.scale
        if self.gaussian:
            density = math.exp(-0.5 * u**2) / math.sqrt(2.0 * math.pi)
            share = max(0.0, (1.0 + u**2) * float(ndtr(-u)) - u * density)
        else:
            share = math.exp(-u)
        return self.scale * math.sqrt(2.0 * self.dim * share)

    def largest_quantile(self, failure: float) -> float:
        """Return a ``q`` with ``P(|xi|_inf > q) <= failure``, by the union bound."""
        if self.gaussian:
            return self.scale * math.sqrt(2.0 * math.log(2.0 * self.dim / failure))
        return self.scale * math.log(self.dim / failure)


class Body(Names):
    """Convex set onto which the noisy mean is projected, see the module."""

    NONE = "none"
    L2 = "l2"
    L1 = "l1"
    L1_L2 = "l1_l2"

    @property
    def sparse(self) -> bool:
        """True if the set bounds the l1 norm."""
        return self in (Body.L1, Body.L1_L2)

    @property
    def round(self) -> bool:
        """True if the set bounds the Euclidean norm."""
        return self in (Body.L2, Body.L1_L2)


class SparseError(NamedTuple):
    """A bound of ``E |p - m|^2`` and its exponents, see :func:`sparse_error`."""

    value: float
    share: float
    order: float


def sparse_error(noise: NoiseVector, l1_radius: float, l2_radius: float = math.inf) -> SparseError:
    """Return ``min_t R t + min(x, L) A``, with ``x^2 = R t + x A`` and ``A^2 = E |S_t(xi)|^2``.

    ``l1_radius`` and ``l2_radius`` are ``R`` and ``L``. Let ``a`` be the ``share`` of ``R t`` in
    the bound and ``c`` the scale of the noise. The bound is of order ``(R^a c d^((1 -
    a)/2))^order`` with ``order = 2/(1 + a)``, or 1 if ``x > L``. See :ref:`Sparse gradients,
    Theorem 2 <theory-sparse-2>`.
    """

    def error(threshold: float) -> float:
        norm, cut = noise.beyond(threshold), l1_radius * threshold
        root = 0.5 * norm + math.sqrt(0.25 * norm**2 + cut)
        return cut + min(root, l2_radius) * norm

    most = noise.largest_quantile(1e-6)
    result = minimize_scalar(
        error, bounds=(0.0, most), method="bounded", options={"xatol": 1e-9 * most}
    )
    best = float(result.x) if error(result.x) < error(0.0) * (1.0 - 1e-9) else 0.0
    value = error(best)
    share = l1_radius * best / value
    return SparseError(value, share, 2.0 / (1.0 + share) if value <= l2_radius**2 else 1.0)


def projected_error(
    noise: NoiseVector, *, body: Body | str, clip_norm: float, sparsity: int
) -> tuple[Term, ...]:
    """Return several bounds of ``E |p - m|^2``, each with its local exponents.

    - ``dense``: ``E |xi|^2``, for every set.
    - ``sparse``: :func:`sparse_error`, if the set bounds the l1 norm.
    - ``ball``: ``L E |xi|``, if the set bounds the Euclidean norm.
    - ``constant``: the squared size of the set, ``(2 L)^2``, or ``(R + L)^2`` for ``l1``.

    The scale of the noise is of order ``1/(n epsilon)``, times ``sqrt(s)`` for Laplace noise.
    ``clip_norm`` is the clipping norm ``L``.
    """
    body, scale = Body.named("body", body), noise.powers
    terms = [Term("dense", noise.square, 2.0 * scale + Exponents(dim=1.0))]
    if body.round:
        terms.append(Term("ball", clip_norm * math.sqrt(noise.square), scale + Exponents(dim=0.5)))
    if body.sparse:
        reach = clip_norm if body.round else math.inf
        value, share, order = sparse_error(noise, clip_norm * math.sqrt(sparsity), reach)
        parts = Exponents(sparsity=0.5 * share, dim=0.5 * (1.0 - share)) + scale
        terms.append(Term("sparse", value, order * parts))
    if body is not Body.NONE:
        terms.append(_widest(body, clip_norm, sparsity))
    return tuple(terms)


def _widest(body: Body, clip_norm: float, sparsity: int) -> Term:
    """Return the constant bound: ``p`` is in the set and ``|m| <= L``."""
    if body.round:
        return Term("constant", 4.0 * clip_norm**2, FIXED)
    root = math.sqrt(sparsity)
    return Term(
        "constant", (clip_norm * (1.0 + root)) ** 2, Exponents(sparsity=root / (1.0 + root))
    )


@checked
def projection_mechanism_rate(
    problem_class: ProblemClass,
    *,
    noise: NoiseKind | str,
    scale: float,
    body: Body | str,
    clip_norm: float,
) -> Rate:
    """Return the rate of a private mean, ``(H/2) E |p - m|^2``: the smallest bound of its regimes.

    The terms are those of :func:`projected_error`; the regime is named after the smallest. The
    sparse term is tight on blocks of copies, or on packings for Laplace noise. The dense term is
    tight on all records.

    Losses are squared distances to the records, ``(m/2) |w - z|^2``, with ``m`` at most the
    smoothness ``H``. If no smoothness is declared, ``H = 1`` is used for ``m <= 1``; if the
    declared strong convexity exceeds 1, the rate has no terms and states the reason. If no sparsity
    is declared, ``s = d``. ``clip_norm`` is ``L``, the largest norm of a record.

    Examples
    --------
    >>> facts = ProblemClass(n=2048, dim=8192, lipschitz=2.0, radius=1.0, smoothness=1.0,
    ...                      strong_convexity=1.0, sparsity=4)
    >>> rate = projection_mechanism_rate(facts, noise="gaussian", scale=0.004, body="l1_l2",
    ...                                  clip_norm=1.0)
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
        Term(term.name, half * term.value, _without_sparsity(term.powers, problem_class))
        for term in projected_error(vector, body=body, clip_norm=clip_norm, sparsity=sparsity)
    ]
    binding = min(terms, key=lambda term: term.value).name
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
        whole_class=problem_class.strong_convexity > 0.0,  # else not squared distances
        regime=f"{binding}, at a fixed ratio of epsilon to mu",
        tight_on={"dense": "sparse_silence", "sparse": _HARD[vector.kind]}.get(binding),
    )


def _largest_modulus(problem_class: ProblemClass) -> float | None:
    """Return ``H``, by default 1; None if the declared strong convexity exceeds the default."""
    if problem_class.smoothness is not None:
        return problem_class.smoothness
    return 1.0 if problem_class.strong_convexity <= 1.0 else None


def _without_sparsity(powers: Exponents, problem_class: ProblemClass) -> Exponents:
    """Return the exponents with ``s = d`` if no sparsity is declared."""
    if problem_class.sparsity is not None:
        return powers
    return powers + Exponents(dim=powers.sparsity, sparsity=-powers.sparsity)


@checked
def l1_recovery_rate(problem_class: ProblemClass, *, clip_norm: float) -> Rate:
    """Return the rate of a mean recovered from noisy Gaussian measurements and then projected.

    With ``m`` measurements of noise ``sigma`` each, the error is at most ``C (sigma sqrt(m) + L
    sqrt(s ln(d/s)/m))`` with an unknown constant ``C``. The bound is therefore the diameter of the
    convex set: two of its points have distance at most ``2 L``, with ``L`` the ``clip_norm``.
    """
    modulus = _largest_modulus(problem_class)
    if modulus is None:
        return no_rate(_NOT_SMOOTH)
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem="E F(p) - F* <= 2 H L^2; of order L^2 sqrt(s ln(d/s) ln(1/delta))/(n epsilon), "
        "the constant unknown",
        source="Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), Theorem 3.4",
        terms=(Term("constant", 2.0 * modulus * clip_norm**2, FIXED),),
        whole_class=problem_class.strong_convexity > 0.0,
        regime="any",
    )
