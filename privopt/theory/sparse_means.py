"""Private means of sparse records: rates, as minimisers of squared distances."""

from __future__ import annotations

from privopt.spec import ProblemClass
from privopt.theory.noise_norms import NoiseKind, NoiseVector
from privopt.theory.projected_error import Body, projected_error
from privopt.theory.rate import FIXED, Powers, Quantity, Rate, Term, no_rate

__all__ = ["l1_recovery_rate", "projection_mechanism_rate"]

_NOT_SMOOTH = "no smoothness is declared of distances more curved than one"
_HARD = {NoiseKind.GAUSSIAN: "sparse_copies", NoiseKind.LAPLACE: "sparse_packing"}


def projection_mechanism_rate(
    problem_class: ProblemClass,
    *,
    noise: NoiseKind | str,
    scale: float,
    body: Body | str,
    clip: float,
) -> Rate:
    """The rate of a private mean, ``(H/2) E |p - mean|^2``: the least of its regimes' bounds.

    Terms as for :func:`privopt.theory.projected_error`; the regime is named after the least. The
    sparse term is tight on blocks of copies, for Laplace noise on packings; the dense term on any
    records, and at the smallest ``n`` on zero records.

    Parameters
    ----------
    problem_class : ProblemClass
        Squared distances to the records, ``(m/2) |w - z|^2``, of which ``m`` is at most the
        smoothness ``H``: a declared strong convexity is at most ``m``. Without a smoothness the
        rate speaks of distances of ``m <= 1``, and ``H = 1``. Without a sparsity records are dense,
        ``s = d``.
    noise, scale, body
        As for :func:`privopt.theory.projected_error`.
    clip : float
        ``L``, the longest that a record is.

    Returns
    -------
    Rate
        Without terms, and with the reason, where a strong convexity above 1 is declared and no
        smoothness.

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


def l1_recovery_rate(problem_class: ProblemClass, *, clip: float) -> Rate:
    """The rate of a mean that is recovered from noisy Gaussian measurements and then projected.

    The theorem's constant is not known: with ``m`` measurements of noise ``sigma`` each, the error
    is at most ``C (sigma sqrt(m) + L sqrt(s ln(d/s)/m))``, of the order of the projection mechanism
    with ``ln(d/s)``. What is promised is what the body allows whatever was recovered: no two of its
    points are more than ``2 L`` apart.

    Parameters
    ----------
    problem_class : ProblemClass
    clip
        As for :func:`projection_mechanism_rate`.

    Examples
    --------
    >>> facts = ProblemClass(n=64, dim=4096, lipschitz=2.0, radius=1.0, smoothness=1.0,
    ...                      strong_convexity=1.0, sparsity=4)
    >>> l1_recovery_rate(facts, clip=1.0).upper
    2.0
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
