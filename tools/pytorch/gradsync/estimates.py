"""Computes means of measured values, and the 95 % intervals of these means and of predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import quantiles

TRIMMED = 0.2  # the part of the values that is left out at each end
NORMAL_975 = 1.959963984540054  # 97.5 % of a normal distribution are below it
NORMAL_90 = 1.2816


@dataclass(frozen=True)
class Interval:
    """An estimated value, and the limits between which the true value lies with a probability of 95
    %.

    `draws`: for each launch (run of the recorded script), one estimate of the value from each
    repetition of a bootstrap. `draws` may be empty, as for a measured value; less() and
    is_told_from() then raise ValueError. Predicted steps of one question share some random errors,
    such as those of the link. In the difference of two predicted steps of the same question, shared
    errors cancel as far as they change both steps equally."""

    value: float
    low: float
    high: float
    draws: Sequence[Sequence[float]] = field(default=(), repr=False, compare=False)

    @classmethod
    def of(cls, value: float, draws: Sequence[Sequence[float]]) -> Interval:
        """Returns an Interval with the estimated value `value`. `draws`: for each of at least one
        launch (run of the recorded script), one estimate from each repetition of a bootstrap. The
        Interval reaches from the lowest to the highest of the launches' 95 % limits, because a new
        launch may be like any of them."""
        limits = [_limits(own) for own in draws]
        return cls(value, min(low for low, _ in limits), max(high for _, high in limits), draws)

    def is_told_from(self, other: Interval) -> bool:
        """Returns whether the 95 % interval of the difference of the two values excludes 0."""
        difference = self.less(other)
        return not difference.low <= 0 <= difference.high

    def less(self, other: Interval) -> Interval:
        """Returns this value minus the other one, with the interval of the difference. Both values
        must have `draws` of the same launches and of the same repetitions of a bootstrap. Draws of
        the same launch and repetition are subtracted, so that errors that change both values
        equally cancel."""
        draws = [
            [a - b for a, b in zip(own, others, strict=True)]
            for own, others in zip(self.draws, other.draws, strict=True)
        ]
        return Interval.of(self.value - other.value, draws)

    def scaled(self, factor: float) -> Interval:
        """Returns this Interval with its value, limits and draws multiplied by `factor`, which must
        be positive."""
        draws = [[factor * one for one in own] for own in self.draws]
        return Interval(factor * self.value, factor * self.low, factor * self.high, draws)


def _limits(draws: Sequence[float]) -> tuple[float, float]:
    """Returns the limits between which the middle 95 % of these values lie."""
    low, *_, high = quantiles(draws, n=40, method="inclusive")
    return low, high


@dataclass(frozen=True)
class Estimate:
    """A value that was computed from measurements, and its 95 % interval, which is None if there
    were too few measurements."""

    value: float
    interval: Interval | None


def trimmed_mean(values: Sequence[float]) -> float:
    """Returns the mean without the smallest fifth and the largest fifth of the values, so that a
    few disturbed steps hardly change it. The number of values in a fifth is rounded down. `values`
    must not be empty."""
    kept = _kept(values)
    return sum(kept) / len(kept)


def _kept(values: Sequence[float]) -> list[float]:
    cut = int(TRIMMED * len(values))
    return sorted(values)[cut : len(values) - cut]


def estimate(launches: Sequence[Sequence[float]]) -> Estimate:
    """Returns the trimmed mean of all values, and its 95 % interval if trimming leaves at least two
    values.

    `launches`: the values of each launch; each launch must have at least one value. The interval
    comes from the Winsorised variance, as in Yuen's method (The two-sample trimmed t for unequal
    population variances, Biometrika 61, 1974). If launches differ by more than the variation of
    their values explains (at the 10 % level), the interval is computed from the launches' means
    alone. If there are, on average, fewer than two values per launch, all values are treated as
    those of one launch."""
    values = [value for launch in launches for value in launch]
    mean = trimmed_mean(values)
    kept = _kept(values)
    if len(kept) < 2:
        return Estimate(mean, None)
    if len(values) < 2 * len(launches):  # too few to tell how much a launch varies
        launches = [values]
    variance, degrees = _variance_of_mean(launches, mean, kept)
    margin = math.sqrt(variance * _squared_t(degrees))
    return Estimate(mean, Interval(mean, mean - margin, mean + margin))


def _variance_of_mean(
    launches: Sequence[Sequence[float]], mean: float, kept: Sequence[float]
) -> tuple[float, int]:
    """Returns an estimate of the variance of the trimmed mean, and the degrees of freedom of this
    estimate. `mean`: the trimmed mean. `kept`: the values that trimming leaves, in increasing
    order."""
    count = sum(map(len, launches))
    scale = count / len(kept)
    # How much each value moves the trimmed mean: those that are left out as much as the outermost.
    influences = [
        [scale * (min(max(value, kept[0]), kept[-1]) - mean) for value in launch]
        for launch in launches
    ]
    means = [sum(own) / len(own) for own in influences]
    mean_influence = sum(map(sum, influences)) / count
    within = sum(
        (value - own_mean) ** 2
        for own, own_mean in zip(influences, means, strict=True)
        for value in own
    )
    between = sum(
        len(own) * (own_mean - mean_influence) ** 2
        for own, own_mean in zip(influences, means, strict=True)
    )
    of_values = within / (count - len(launches))
    degrees = len(kept) - 1
    more_launches = len(launches) - 1
    if more_launches:
        of_launches = between / more_launches
        if of_launches > max(1, _chi_square_90(more_launches)) * of_values:
            return of_launches / count, min(degrees, more_launches)
    return of_values / count, degrees


def _chi_square_90(degrees: int) -> float:
    """Returns the value that chi-square / degrees exceeds with a probability of 10 %.

    This value is approximated by the formula of Wilson and Hilferty (The distribution of
    chi-square, PNAS 17, 1931).
    """
    part = 2 / (9 * degrees)
    return (1 - part + NORMAL_90 * math.sqrt(part)) ** 3


def _squared_t(degrees: int) -> float:
    """Returns the square of the 97.5 % quantile of Student's t distribution. The quantile is
    approximated by Wallace's formula (Bounds on normal approximations to Student's and the
    chi-square distributions, Annals of Mathematical Statistics 30, 1959).
    """
    normal = NORMAL_975 * (8 * degrees + 3) / (8 * degrees + 1)
    return degrees * math.expm1(normal * normal / degrees)
