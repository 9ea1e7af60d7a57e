"""Simulated users: where they look, what they click, and when they stop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from luce.errors import SettingError
from luce.types import FloatArray

KINDS = ("position", "trust", "cascade")


@dataclass(frozen=True)
class Users:
    r"""A kind of users, and how fast their attention falls.

    Examination of position $k$ is $\theta_k = k^{-\eta}$.

    - "position": a click with probability $\theta_k \gamma_d$, independently;
    - "trust": $\theta_k (\gamma_d + (1 - \gamma_d)\, \tau / k)$: what stands high is clicked for that alone;
    - "cascade": from the top down, clicking what is looked at with probability $\gamma_d$; on from $k$ with probability
      $(k / (k + 1))^\eta$, times `after_click` after a click.
    """

    kind: str = "position"
    eta: float = 1.0
    trust: float = 0.3
    after_click: float = 0.5

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise SettingError(f"users is {self.kind!r}; it must be one of {', '.join(KINDS)}.")
        for name, value, right, allowed in (
            ("eta", self.eta, 0 <= self.eta < np.inf, "a finite number of at least 0"),
            ("trust", self.trust, 0 <= self.trust <= 1, "between 0 and 1"),
            ("after_click", self.after_click, 0 <= self.after_click <= 1, "between 0 and 1"),
        ):
            if not right:
                raise SettingError(f"{name} is {value}; it must be {allowed}.")

    @property
    def stop(self) -> bool:
        """Whether they go down the list and stop."""
        return self.kind == "cascade"

    def theta(self, positions: FloatArray) -> FloatArray:
        """Examination of positions, the first 1."""
        return np.asarray(positions, dtype=np.float64) ** -self.eta

    def chance(self, k: int, attracted: FloatArray) -> FloatArray:
        """Probability of a click at position k; for cascading users, given that they got there."""
        if self.kind == "cascade":
            return attracted
        looked = float(k) ** -self.eta
        if self.kind == "trust":
            attracted = attracted + (1.0 - attracted) * self.trust / k
        result: FloatArray = looked * attracted
        return result

    def goes_on(self, k: int, clicked: bool) -> float:
        """Probability that a cascading user who is at position k looks at the next one."""
        return float((k / (k + 1)) ** self.eta) * (self.after_click if clicked else 1.0)


def attraction(grades: FloatArray, noise: float = 0.1) -> FloatArray:
    r"""How likely one who looks at a document clicks it, $\epsilon + (1 - \epsilon)(2^y - 1)/(2^{y_{\max}} - 1)$.

    >>> attraction(np.array([0.0, 1.0, 2.0])).round(12).tolist()
    [0.1, 0.4, 1.0]
    """
    if not 0 <= noise <= 1:
        raise SettingError(f"noise is {noise}; it must be between 0 and 1.")
    above = grades - grades.min()
    result: FloatArray = noise + (1 - noise) * (np.exp2(above) - 1) / max(float(np.exp2(above.max()) - 1), 1.0)
    return result
