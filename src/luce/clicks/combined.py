r"""Conditional and joint choice together: the noise of the one is known, the bias of the other is estimated.

Conditional choice $\hat c$ is right on average, and noisy; joint choice $\hat\jmath$ has less noise, but leans on the
features, which may lead it astray by some $b$. Both are of the same clicks, so their joint covariance is known, and

$$\hat\jmath - \hat c \sim N(0, D + \sigma^2 B), \quad
\log\theta \mid \hat c, \hat\jmath, \sigma: \text{ mean } \hat c + G_\sigma (\hat\jmath - \hat c), \quad
G_\sigma = (S_{cc} - S_{cj}) (D + \sigma^2 B)^{-1},$$

with $D = S_{cc} + S_{jj} - S_{cj} - S_{jc}$ and the bias a Wiener process in $x = \log k$ of variance $\sigma^2$ that
is 0 at the first position, $B = \min(x, x')$. $\sigma$ counts by its marginal likelihood: with many clicks the
difference shows the bias, and nothing is left of joint choice but what agrees. To take the one or the other was
rejected: the bias was in no interval, and those of an evaluation in short logs covered less than they said.
"""

from __future__ import annotations

import numpy as np

from luce.types import FloatArray

_SIGMA = np.linspace(0.0, 1.0, 101)
"""How far joint choice may be astray, all values alike beforehand."""
_LEAST = 1e-9
"""Of the noise of a direction, beside that of the noisiest: with few clicks an estimated one may be 0."""


def combined(
    positions: FloatArray, conditional: FloatArray, joint: FloatArray, covariance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """What the estimate moves from conditional towards joint choice, (places, places), and its covariance.

    `conditional` and `joint` are logarithms of examination, 0 at the first place, and `covariance` is that of both, one
    after the other.

    >>> k, c = np.arange(1.0, 5.0), -np.log(np.arange(1.0, 5.0))
    >>> noise = np.diag([0.0, 0.04, 0.04, 0.04, 0.0, 0.0001, 0.0001, 0.0001])
    >>> gain, left = combined(k, c + [0, 0.2, -0.2, 0.2], c, noise)
    >>> bool(np.all(np.diag(gain)[1:] > 0.5)), bool(np.all(np.diag(left)[1:] < 0.04))
    (True, True)
    """
    n = len(conditional)
    x = np.log(np.asarray(positions, dtype=np.float64) / positions[0])[1:]
    cc, jj, cj = covariance[1:n, 1:n], covariance[n + 1 :, n + 1 :], covariance[1:n, n + 1 :]
    root = np.linalg.inv(np.linalg.cholesky(np.minimum.outer(x, x)))
    # In these coordinates D and B are diagonal, for every sigma at once.
    noise, turn = np.linalg.eigh(root @ (cc + jj - cj - cj.T) @ root.T)
    apart = turn.T @ root @ (joint - conditional)[1:]
    towards = (cc - cj) @ root.T @ turn
    total = np.maximum(noise, _LEAST * max(float(noise[-1]), _LEAST)) + _SIGMA[:, None] ** 2
    weight = -0.5 * (np.log(total) + apart**2 / total).sum(axis=1)
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    mean = towards * (weight @ (1.0 / total))
    moved = (apart / total - weight @ (apart / total)) @ towards.T
    left = cc - mean @ towards.T + (moved * weight[:, None]).T @ moved
    gain, kept = np.zeros((n, n)), np.zeros((n, n))
    gain[1:, 1:], kept[1:, 1:] = mean @ turn.T @ root, 0.5 * (left + left.T)
    return gain, kept
