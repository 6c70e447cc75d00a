"""How far the gradient of a batch is from the gradient of all records."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ALL_RECORDS", "Moments", "batch_moments"]


class Moments(NamedTuple):
    """Bounds on the mean gradient ``g`` of a batch, in units of ``L^2``, given the past.

    Attributes
    ----------
    second_moment : float
        ``E |g|^2 / L^2``.
    variance : float
        ``E |g - grad F|^2 / L^2``.
    """

    second_moment: float
    variance: float


ALL_RECORDS = Moments(1.0, 0.0)


def batch_moments(sampler: str, *, n: int, batch_size: float) -> Moments | None:
    """The moments of a batch of ``b`` out of ``n`` gradients ``g_i`` of norm at most ``L``.

    Poisson, ``g = (1/b) sum_i B_i g_i`` with independent ``B_i`` of mean ``q = b/n``: its mean is
    ``grad F``, and its variance ``(1/b^2) sum_i q (1 - q) |g_i|^2 <= L^2 (1 - q)/b``.

    Without replacement, ``g`` the mean of ``b`` records: ``|g| <= L`` always. Its variance is
    ``(1/b) (n - b)/(n - 1)`` times that of one record, ``(1/n) sum_i |g_i|^2 - |grad F|^2 <= L^2``.

    Parameters
    ----------
    sampler : str
        ``"poisson"``, ``"without_replacement"`` or ``"shuffled"``.
    n : int
        Number of records.
    batch_size : float
        ``b``, at most ``n``; the expected size of a Poisson batch.

    Returns
    -------
    Moments or None
        None for shuffled passes: given the past, a batch of theirs is biased.

    Examples
    --------
    >>> batch_moments("poisson", n=100, batch_size=25)
    Moments(second_moment=1.03, variance=0.03)
    >>> batch_moments("without_replacement", n=101, batch_size=51)
    Moments(second_moment=1.0, variance=0.00980392156862745)
    """
    if sampler == "shuffled":
        return None
    if sampler == "poisson":
        variance = max(0.0, 1.0 - batch_size / n) / batch_size
        return Moments(1.0 + variance, variance)
    return Moments(1.0, (n - batch_size) / (max(n - 1, 1) * batch_size))
