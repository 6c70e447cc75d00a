"""The mean of sparse records under noise that is projected onto a body: the upper bounds.

Records have ``|z|_2 <= L`` and ``|z|_1 <= R = L sqrt(s)``, as those with ``s`` nonzero entries do.
Their mean is ``m``, the noise ``xi``; what is released is ``p``, the point of a body nearest to ``m
+ xi``. The bodies: none (the whole space), ``l2`` (``|z|_2 <= L``), ``l1`` (``|z|_1 <= R``), and
``l1_l2``, both at once. The noise is Gaussian or Laplace, and symmetric.

*Bounds of the error.* As ``m`` is in the body, ``<p - m - xi, m - p> >= 0``: for ``u = p -
m``, ``|u|^2 <= <u, xi>``, hence ``|u| <= |xi|``. And ``E <m, xi> = 0``, so that ``E |u|^2 <=
E <p, xi>``, at most the support function ``E h(xi)`` of the body.

*Between sparse and dense.* Cut the noise at ``t``: ``xi = (xi - S_t(xi)) + S_t(xi)``, of which the
first part is nowhere above ``t`` and ``S_t(xi)`` is odd in ``xi``. As ``|p|_1 <= R`` and ``E <m,
S_t(xi)> = 0``, ``E <p, xi> <= R t + E <u, S_t(xi)>``: with ``x^2 = E |u|^2``

    x^2 <= R t + x A,   A^2 = E |S_t(xi)|^2,   hence   x <= A/2 + sqrt(A^2/4 + R t)  for every t.

At ``t = 0`` this is the dense bound ``E |xi|^2``. The best ``t`` leaves about as many entries of
the noise above it as the mean can afford: for Laplace noise of scale ``b`` the bound is at most
``2 R b (1 + ln(d b/R))``, where ``d b >= R``, and the logarithm that of ``2 d/(n epsilon)``: the
order of the lower bound, where ``R E |xi|_inf`` has ``ln d``. For Gaussian noise the logarithm is
that of ``d sigma/R``, likewise. It is quasi-convex in ``t``: ``A`` is convex in ``t``, and ``x <=
c`` where ``R t + c A <= c^2``.

Sources: Nikolov, Talwar and Zhang 2013 (arXiv:1212.0297), the projection mechanism; Ghazi, Guzman,
Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), sparse means. The constants and the cut are
derived here.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.optimize import minimize_scalar

from privopt.arguments import Names
from privopt.theory.noise_norms import NoiseVector
from privopt.theory.rate import FIXED, Powers, Term

__all__ = [
    "Body",
    "projected_error",
    "sparse_error",
]


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
    """A bound of ``E |p - m|^2``, and how it moves: see :func:`sparse_error`.

    Attributes
    ----------
    value : float
        The bound.
    share : float
        ``a``, the share of ``R t`` in it.
    order : float
        The power of ``R^a c d^((1 - a)/2)`` like which it moves.
    """

    value: float
    share: float
    order: float


def sparse_error(noise: NoiseVector, l1_radius: float, l2_radius: float = math.inf) -> SparseError:
    """``min_t R t + min(x, L) A``, with ``x^2 = R t + x A`` and ``A^2 = E |S_t(xi)|^2``.

    See the module; ``E <p, S_t(xi)> <= L A`` where the body bounds the norm. At ``t = 0`` it is
    ``E |xi|^2``, or ``L (E |xi|^2)^(1/2)``.

    *How it moves.* With ``a`` the ``share`` of ``R t`` in it and ``c`` the scale of the noise, the
    best ``t`` does not count in first order: where ``x <= L``, ``(1 + a) d ln x = a d ln R + d ln c
    + ((1 - a)/2) d ln d``. So the bound moves like ``R^a c d^((1 - a)/2)`` to the power ``order =
    2/(1 + a)``, and where ``x > L`` to the power 1.

    Parameters
    ----------
    noise : NoiseVector
    l1_radius, l2_radius : float
        ``R`` and ``L``.

    Examples
    --------
    >>> noise = NoiseVector("laplace", 0.004, 16384)
    >>> round(sparse_error(noise, 2.0).value, 4), round(2.0 * noise.largest, 4), noise.square
    (0.0536, 0.0823, 0.524288)
    >>> sparse_error(NoiseVector("laplace", 1e-5, 16384), 2.0).share
    0.0
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

    Parameters
    ----------
    noise : NoiseVector
        Of which the scale moves like ``1/(n epsilon)``, and ``sqrt(s)`` for Laplace noise.
    body : Body or its name
    clip, sparsity : float, int
        ``L`` and ``s``.

    Examples
    --------
    >>> noise = NoiseVector("gaussian", 0.004, 8192)
    >>> for term in projected_error(noise, body="l1_l2", clip=1.0, sparsity=4):
    ...     print(term.name, round(term.value, 4), round(term.powers.n, 2))
    dense 0.1311 -2.0
    ball 0.362 -1.0
    sparse 0.0217 -1.14
    constant 4.0 0.0
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
