"""Drawings beside numbers."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import pytest

from nemo_pages.sparklines import HEIGHT, MOST_POINTS, WIDTH, interval, sparkline


def points(drawing):
    lines = ET.fromstring(drawing).findall("polyline")
    return [[tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()] for line in lines]


@pytest.mark.parametrize("values", [[], [1.0], [None, math.nan, math.inf, 2.0]])
def test_fewer_than_two_values_make_no_line(values):
    assert sparkline(values) == ""


def test_a_gap_parts_the_line_and_everything_lies_inside():
    first, second = points(sparkline([1.0, 3.0, None, 2.0, math.nan, 5.0, 4.0]))
    assert [y for _, y in first] == [22.0, 12.0]
    assert [y for _, y in second] == [2.0, 7.0]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in first + second)


def test_a_long_line_is_thinned_and_an_even_one_lies_in_the_middle():
    (line,) = points(sparkline([float(at) for at in range(10_000)]))
    assert len(line) == MOST_POINTS
    assert points(sparkline([7.0, 7.0])) == [[(2.0, 12.0), (94.0, 12.0)]]


def test_an_interval_stays_on_its_scale():
    drawing = ET.fromstring(interval(0.5, -0.2, 1.4))
    whisker = drawing.findall("line")[1].attrib
    assert (whisker["x1"], whisker["x2"], drawing.find("circle").attrib["cx"]) == ("2.0", "94.0", "48.0")
