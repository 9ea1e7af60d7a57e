r"""Links of paired comparisons: how probable a win and a tie are, given a difference of scores.

One implementation for losses and leaderboards. With $d = f_i - f_j$, a symmetric cdf F and a half-width
$\epsilon \ge 0$,

$$P(i \succ j) = F(d - \epsilon), \qquad P(i \approx j) = F(d + \epsilon) - F(d - \epsilon);$$

F logistic is Bradley-Terry ($\epsilon = 0$) and Rao-Kupper ($\theta = e^\epsilon$), F normal is Thurstone-Mosteller.
Davidson's model is not of that form: its three weights are $\phi_i$, $\phi_j$ and $\nu\sqrt{\phi_i \phi_j}$.

Kernels take a link as an integer code, and select it inside: a compiled function that is handed another one is not
cached on disk. The tie parameter is on its unconstrained scale t: $\theta = 1 + e^t$ (so $\epsilon = \log(1 + e^t)$),
$\nu = e^t$, and $\epsilon = e^t$ for the normal link.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luce.errors import SettingError
from luce.numerics.compiled import kernel, part
from luce.numerics.fast_exp import sigmoid, softplus
from luce.numerics.normal import hazard, log_cdf, log_interval
from luce.registry import canonical, unknown_name
from luce.types import FloatArray

LOGISTIC, RAO_KUPPER, DAVIDSON, NORMAL, THURSTONE = range(5)


@part
def _shape(code, t):  # type: ignore[no-untyped-def]
    """The half-width epsilon with its two derivatives in t, and a constant of ties with its two."""
    if code == RAO_KUPPER:
        width, slope = softplus(t), sigmoid(t)
        # log(1 - e^{-2 eps}) = log(theta^2 - 1) - 2 eps = t + log(2 + e^t) - 2 eps
        share = 1.0 / (1.0 + 2.0 * math.exp(-t))
        bend = slope * sigmoid(-t)
        constant = math.log(-math.expm1(-2.0 * width))
        return width, slope, bend, constant, 1.0 + share - 2.0 * slope, share * (1.0 - share) - 2.0 * bend
    if code == THURSTONE:
        width = math.exp(t)
        return width, width, width, 0.0, 0.0, 0.0
    return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0


@part
def win(code, d, t):  # type: ignore[no-untyped-def]
    """Log P(i beats j) at d = f_i - f_j and its derivatives: (log P, d, dd, t, tt, dt).

    F(d - epsilon), [Ties] (2): without ties [Ties] (1) and [Ties] (4), logistic [Ties] (5) and minus its logarithm
    [Ties] (11), normal [Ties] (7) and [Ties] (12). Rao and Kupper's theta is e^epsilon, [PMOP] (18).
    """
    if code == DAVIDSON:
        return _davidson(d, t, True)
    width, slope, bend, _, _, _ = _shape(code, t)
    z = d - width
    if code == LOGISTIC or code == RAO_KUPPER:  # noqa: SIM109 (a tuple of codes is a search at run time)
        e = math.exp(-abs(z))
        first = (e if z >= 0.0 else 1.0) / (1.0 + e)
        value, second = min(z, 0.0) - math.log1p(e), -e / (1.0 + e) ** 2
    else:
        value = log_cdf(z)
        first, excess = hazard(z)
        second = -first * excess
    return value, first, second, -first * slope, second * slope * slope - first * bend, -second * slope


@part
def tie(code, d, t):  # type: ignore[no-untyped-def]
    """Log P(i and j tie) at d = f_i - f_j and its derivatives: (log P, d, dd, t, tt, dt).

    A tie is symmetric in d and evaluated at -|d|: at +|d| both cdfs are 1 and their difference is lost.
    F(d + epsilon) - F(d - epsilon), [Ties] (3): logistic [Ties] (6), normal [Ties] (13).
    """
    sign = -1.0 if d > 0.0 else 1.0
    u = -abs(d)
    if code == DAVIDSON:
        value, first, second, by_t, by_tt, mixed = _davidson(u, t, False)
    elif code == RAO_KUPPER:
        value, first, second, by_t, by_tt, mixed = _rao_kupper_tie(u, t)
    else:
        width = math.exp(t)
        value, first, second, by_w, by_ww, by_uw = log_interval(u, width)
        by_t, by_tt, mixed = by_w * width, by_ww * width * width + by_w * width, by_uw * width
    return value, sign * first, second, by_t, by_tt, sign * mixed


@part
def _rao_kupper_tie(u, t):  # type: ignore[no-untyped-def]
    """Log of [Ties] (6), which is [PMOP] (18), with its derivatives; minus it is the second line of [Ties] (11)."""
    # P = s(u + eps) s(eps - u) (1 - e^{-2 eps}), s the logistic cdf: a product, where the difference would cancel.
    width, slope, bend, constant, constant_t, constant_tt = _shape(RAO_KUPPER, t)
    up, down = u + width, u - width
    e_up, e_down = math.exp(-abs(up)), math.exp(down)
    below = (e_up if up >= 0.0 else 1.0) / (1.0 + e_up)
    above = e_down / (1.0 + e_down)
    curved_below, curved_above = e_up / (1.0 + e_up) ** 2, e_down / (1.0 + e_down) ** 2
    value = min(up, 0.0) - math.log1p(e_up) - math.log1p(e_down) + constant
    by_t = constant_t + slope * (below + above)
    by_tt = constant_tt - slope * slope * (curved_below + curved_above) + bend * (below + above)
    return value, below - above, -curved_below - curved_above, by_t, by_tt, slope * (curved_above - curved_below)


@part
def davidson_shares(d, t):  # type: ignore[no-untyped-def]
    """Log of the sum of the weights of win, loss and tie in Davidson's model, and their shares of it.

    The log comes as that of the largest weight and what is added to it.
    """
    # Weights of win, loss and tie are e^{d/2}, e^{-d/2} and e^t, all over the largest of them.
    top = max(0.5 * abs(d), t)
    won, lost, tied = math.exp(0.5 * d - top), math.exp(-0.5 * d - top), math.exp(t - top)
    # The log of the total is that of 1 + the two that are not the largest: exact also where a share is next to 1.
    rest = won + lost if top == t else tied + min(won, lost)
    total, log_total = 1.0 + rest, math.log1p(rest)
    return top, log_total, won / total, lost / total, tied / total


@part
def _davidson(d, t, wins):  # type: ignore[no-untyped-def]
    """Log of a win or of a tie in Davidson's model, [PMOP] (19), with its derivatives."""
    top, log_total, p_win, p_loss, p_tie = davidson_shares(d, t)
    second = -(p_win * p_loss + 0.25 * p_tie * (p_win + p_loss))
    by_tt = -p_tie * (p_win + p_loss)
    mixed = 0.5 * p_tie * (p_win - p_loss)
    if wins:
        return 0.5 * d - top - log_total, p_loss + 0.5 * p_tie, second, -p_tie, by_tt, mixed
    return t - top - log_total, 0.5 * (p_loss - p_win), second, p_win + p_loss, by_tt, mixed


class Terms(NamedTuple):
    """A log-probability with its derivatives in d and in the unconstrained tie parameter t."""

    value: FloatArray
    d: FloatArray
    dd: FloatArray
    t: FloatArray
    tt: FloatArray
    dt: FloatArray


_GREATEST_LOG = math.log(sys.float_info.max)


@dataclass(frozen=True)
class Link:
    """A link by name, with its tie parameter.

    >>> link = get("davidson")
    >>> t = link.unconstrained(2.0)
    >>> win, tie = link.win([0.0], t), link.tie([0.0], t)
    >>> np.exp(win.value).round(6).tolist(), np.exp(tie.value).round(6).tolist()
    ([0.25], [0.5])
    """

    name: str
    code: int
    """Code of the link with ties; see `code_without_ties`."""
    code_without_ties: int
    parameter: str
    """Name of the tie parameter on its natural scale: theta, epsilon or nu."""
    least: float
    """The natural parameter lies above this; at this value there are no ties."""
    start: float
    """Natural value from which learning starts, and the value outside training where none is given."""
    bounds: tuple[float, float]
    """Least and greatest unconstrained value while it is learned: data without ties drive it to the least."""
    softplus: bool = False
    """The natural parameter is log(1 + e^t); else it is `least` + e^t."""

    def unconstrained(self, natural: float) -> float:
        """The tie parameter on its unconstrained scale, t.

        >>> get("rao_kupper").unconstrained(2.0)
        0.0
        """
        if not (np.isfinite(natural) and natural > self.least):
            raise SettingError(
                f"{self.name}({self.parameter}={natural}): {self.parameter} must be a finite number above "
                f"{self.least:g}; for a model without ties use ties=False."
            )
        if self.softplus:
            # theta = e^epsilon = 1 + e^t; for small epsilon expm1 keeps the digits, for large ones t is epsilon.
            return float(natural + math.log(-math.expm1(-natural)))
        return math.log(natural - self.least)

    def natural(self, t: float) -> float:
        """The tie parameter on its natural scale; infinite beyond the greatest number.

        >>> get("rao_kupper").natural(0.0), get("davidson").natural(1e3)
        (2.0, inf)
        """
        if self.softplus:
            return float(np.logaddexp(0.0, t))
        return self.least + math.exp(t) if t < _GREATEST_LOG else math.inf

    def win(self, d: ArrayLike, t: float = 0.0, *, ties: bool = True) -> Terms:
        """Log P(i beats j) at every d = f_i - f_j; without ties t is not used."""
        return _terms(False, self.code if ties else self.code_without_ties, d, t)

    def tie(self, d: ArrayLike, t: float) -> Terms:
        """Log P(i and j tie) at every d = f_i - f_j."""
        return _terms(True, self.code, d, t)


def _terms(tied: bool, code: int, d: ArrayLike, t: float) -> Terms:
    at = np.asarray(d, dtype=np.float64)
    out = np.empty((6, at.size))
    _each(tied, code, at.ravel(), float(t), out)
    return Terms(*out.reshape(6, *at.shape))


@kernel
def _each(tied, code, d, t, out):  # type: ignore[no-untyped-def]
    for i in range(len(d)):
        found = tie(code, d[i], t) if tied else win(code, d[i], t)
        out[0, i], out[1, i], out[2, i], out[3, i], out[4, i], out[5, i] = found


LINKS: dict[str, Link] = {
    link.name: link
    for link in (
        Link("rao_kupper", RAO_KUPPER, LOGISTIC, "theta", 1.0, 2.0, (-12.0, 12.0)),
        Link("bradley_terry", RAO_KUPPER, LOGISTIC, "epsilon", 0.0, math.log(2.0), (-12.0, 12.0), softplus=True),
        Link("davidson", DAVIDSON, LOGISTIC, "nu", 0.0, 1.0, (-12.0, 12.0)),
        Link("thurstone_mosteller", THURSTONE, NORMAL, "epsilon", 0.0, 0.5, (-12.0, 5.0)),
    )
}


def get(name: str) -> Link:
    """The link of that name, or an error that lists the names."""
    link = LINKS.get(canonical(name))
    if link is None:
        raise unknown_name("link", name, LINKS)
    return link
