"""The last iterate of noisy descent, whatever the sizes of its steps."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["LastIterate", "last_iterate"]


class LastIterate(NamedTuple):
    """``E F(w_{T+1}) - F* <= start R^2 + noise V + end L^2``, as its three coefficients."""

    start: float
    noise: float
    end: float


def last_iterate(
    sizes: npt.NDArray[np.float64], *, modulus: float = 0.0, smoothness: float | None = None
) -> LastIterate:
    """The bound for ``w_{t+1} = Proj(w_t - eta_t g_t)``, ``t = 1..T``, as three coefficients.

    ``F`` is ``m``-strongly convex (``m >= 0``), ``R`` at least ``|w_1 - w*|``, ``E g_t`` a
    subgradient of ``F`` at ``w_t`` given the past. With ``smoothness = H`` and ``eta_t H < 1``,
    ``V`` is at least ``E |g_t - grad F(w_t)|^2``, and ``end`` is 0. Without, ``V`` is at least
    ``E |g_t|^2``, and ``F`` is ``L``-Lipschitz.

    *Points that move.* Let ``u_0 = w*``, ``u_t = theta_t u_{t-1} + (1 - theta_t) w_t`` with numbers
    ``theta_t`` in ``[0, 1]``. They are members of the set that the past knows. Let ``e_t = E
    |w_{t+1} - u_t|^2``, and ``h_t`` the bound of ``E F(u_t) - F*`` that convexity gives::

        h_t = theta_t h_{t-1} + (1 - theta_t) f_t - (m/2) theta_t (1 - theta_t) e_{t-1},

    ``f_t = E F(w_t) - F*``, ``h_0 = 0``. As ``w_t - u_t = theta_t (w_t - u_{t-1})``, the usual
    inequality of one step towards ``u_t`` has ``(1 - eta_t m) theta_t^2 e_{t-1} - e_t`` at its end.

    *Smooth.* ``2 eta_t (f_{t+1} - h_t) <= (1 - eta_t m) theta_t^2 e_{t-1} - e_t + eta_t^2 V/(1 -
    eta_t H)``, as in the proof for averages (:func:`privopt.theory.descent_rate`). With ``theta_1 =
    1``, ``theta_{T+1} = 0``, ``y_t = (1 - theta_{t+1})/eta_t``, let ``k_{t+1} = theta_{t+1} h_t +
    (1 - theta_{t+1}) f_{t+1}``. Then ::

        k_{t+1} + y_t e_t/2 <= h_t + y_t (1 - eta_t m) theta_t^2 e_{t-1}/2 + y_t eta_t^2 V/(2 (1 -
                               eta_t H)),    h_t = k_t - (m/2) theta_t (1 - theta_t) e_{t-1},

    and the right side is at most ``k_t + y_{t-1} e_{t-1}/2`` plus the noise if ::

        y_t (1 - eta_t m) theta_t^2 = (1 - theta_t) (1/eta_{t-1} + m theta_t),

    a quadratic equation for ``theta_t``, solved from the last step backwards. At the end ``k_{T+1}
    = f_{T+1}``: the sum is ``start = y_1 (1 - eta_1 m)/2``, ``noise = sum_t y_t eta_t^2/(2 (1 -
    eta_t H))``.

    *Not smooth.* ``2 eta_t (f_t - h_t) <= (1 - eta_t m) theta_t^2 e_{t-1} - e_t + eta_t^2 V``. With
    ``y_t = (1 - theta_t)/(eta_t theta_t)`` that is ``h_t + y_t e_t/2 <= h_{t-1} + y_{t-1} e_{t-1}/2
    + y_t eta_t^2 V/2``, where ``theta_t = 1/(1 + eta_t y_t)`` and ``y_{t-1}`` is ``y_t theta_t
    (theta_t (1 - eta_t m) - eta_t m)``, or 0 if that is less. At last ``f_{T+1} - h_T <= L
    sqrt(e_T) - m e_T/2 <= y_T e_T/2 + L^2/(2 (y_T + m))``, and ``y_T = 1/eta_T`` is as good as any
    up to a constant.

    In linear decay, ``eta_t = eta (T + 1 - t)/T`` and ``m = 0``, ``start`` is ``1/(2 eta T)`` and
    ``noise`` the mean of ``eta/(2 (1 - eta_t H))``: no more than for the average of constant steps
    ``eta``. With ``eta_t = eta (T + 1 - t)/(T + 1)`` and no smoothness the sum is ``R^2/(2 eta (T +
    1)) + eta V/2``, for ``V >= L^2``: that of the average again.

    Source: the moving points are those of Zamani and Glineur 2023 (arXiv:2307.11134); Liu and Zhou
    2024 (arXiv:2312.08531) use them for smooth losses. Any steps, ``m`` and the constants are
    derived here.

    Examples
    --------
    >>> decay = 0.5 * np.arange(10, 0, -1) / 10
    >>> found = last_iterate(decay, smoothness=1.0)
    >>> round(found.start, 9), round(found.noise, 4)
    (0.1, 0.3594)
    >>> round(last_iterate(decay, modulus=0.5, smoothness=1.0).start, 4)
    0.0195
    """
    descending = sizes[::-1].tolist()
    rise, noise = 1.0 / descending[0], 0.0
    if smoothness is None:
        end = 0.5 / (rise + modulus)
        for size in descending:
            noise += 0.5 * rise * size**2
            theta = 1.0 / (1.0 + size * rise)
            rise *= theta * max(0.0, theta * (1.0 - size * modulus) - size * modulus)
        return LastIterate(0.5 * rise, noise, end)
    for size, before in zip(descending, [*descending[1:], None], strict=True):
        noise += 0.5 * rise * size**2 / (1.0 - size * smoothness)
        rise *= 1.0 - size * modulus
        if before is not None:  # 1 - theta, of the quadratic equation
            stiff = modulus + 1.0 / before
            root = math.sqrt(stiff**2 + 4.0 * rise / before)
            rise = 2.0 * rise / ((2.0 * rise + stiff + root) * before)
    return LastIterate(0.5 * rise, noise, 0.0)
