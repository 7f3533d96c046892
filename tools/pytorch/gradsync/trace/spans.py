"""Represents sets of moments as sorted lists of spans that do not touch each other.

A span is a pair: the beginning and the end of a period of time, in seconds. If two kernels run at
the same time, a set of moments has this time only once.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable

Span = tuple[float, float]
Spans = list[Span]


def union(spans: Iterable[Span]) -> Spans:
    """Returns the set of all moments that are in at least one of these spans. The spans may have
    any order."""
    result: Spans = []
    for begin, end in sorted(spans):
        if end <= begin:
            continue
        if result and begin <= result[-1][1]:
            if end > result[-1][1]:
                result[-1] = (result[-1][0], end)
        else:
            result.append((begin, end))
    return result


def clipped(spans: Spans, span: Span) -> Spans:
    """Returns the parts of `spans`, a sorted set of moments, that are in `span`."""
    first = bisect.bisect_right(spans, span[0], key=lambda one: one[1])
    last = bisect.bisect_left(spans, span[1], key=lambda one: one[0])
    return both(spans[first:last], [span])


def length(spans: Spans) -> float:
    """Returns the total length of the spans of a set."""
    return sum(end - begin for begin, end in spans)


def both(one: Spans, other: Spans) -> Spans:
    """Returns the moments that are in both sets."""
    result: Spans = []
    i = j = 0
    while i < len(one) and j < len(other):
        begin = max(one[i][0], other[j][0])
        end = min(one[i][1], other[j][1])
        if begin < end:
            result.append((begin, end))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return result


def without(one: Spans, other: Spans) -> Spans:
    """Returns the moments of the first set that are not in the second set."""
    result: Spans = []
    j = 0
    for begin, end in one:
        while j < len(other) and other[j][1] <= begin:
            j += 1
        k = j
        while k < len(other) and other[k][0] < end:
            if other[k][0] > begin:
                result.append((begin, other[k][0]))
            begin = max(begin, other[k][1])
            k += 1
        if begin < end:
            result.append((begin, end))
    return result


def hull(spans: Iterable[Span]) -> Spans:
    """Returns a set with one span, from the first beginning to the last end of these spans; an
    empty set if there are no spans or if this span has no length."""
    own = list(spans)
    return union([(min(s[0] for s in own), max(s[1] for s in own))]) if own else []
