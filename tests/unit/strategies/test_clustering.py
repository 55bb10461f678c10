"""Clusters of values by ratio, at their bounds."""

from __future__ import annotations

from strategies.parts.monitoring.base import cluster_by_ratio


def test_values_exactly_the_ratio_apart_are_one_group() -> None:
    assert cluster_by_ratio([1.0, 1.5], 1.5) == [[0, 1]]
    assert cluster_by_ratio([1.0, 1.51], 1.5) == [[0], [1]]


def test_there_are_as_many_groups_as_allowed_and_no_more() -> None:
    values = [8.0, 1.0, 4.0, 2.0]
    assert cluster_by_ratio(values, 1.1) == [[1], [3], [2], [0]]
    assert cluster_by_ratio(values, 1.1, at_most=4) == [[1], [3], [2], [0]]
    assert cluster_by_ratio(values, 1.1, at_most=3) == [[1, 3], [2], [0]], "of equal ratios the smallest values"
