"""Parts of a report: markup, numbers, pictures, charts."""

import base64
import io
import json
import re

import numpy as np
import pytest
from PIL import Image

from splat_cli.report.charts import Series, bars, histogram, line_chart
from splat_cli.report.markup import Markup, compact, duration, join, jpeg, png, roughly, size, tag, ticks


def test_text_is_escaped():
    assert tag("b", "<i>", class_='"') == '<b class="&quot;">&lt;i&gt;</b>'
    assert join("a & b", tag("br"), None, 3) == "a &amp; b<br>3"
    assert tag("line", stroke_width=2, x1=None) == '<line stroke-width="2"></line>'
    assert join(Markup("<i>")) == "<i>"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (compact(950), "950"),
        (compact(24_867), "24.9k"),
        (compact(-1_300_000), "-1.3M"),
        (duration(4.21), "4.2 s"),
        (duration(200), "3 m 20 s"),
        (duration(3900), "1 h 5 m"),
        (roughly(4), "a few seconds"),
        (roughly(44), "about 40 s"),
        (roughly(290), "about 5 min"),
        (roughly(10_000), "about 3 h"),
        (size(300 * 2**20), "300 MiB"),
        (size(3.25 * 2**30), "3.2 GiB"),
    ],
)
def test_numbers_are_short(written, expected):
    assert written == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 100, [0, 50, 100]), (12.3, 13.1, [12.4, 12.6, 12.8, 13.0]), (3, 3, [3]), (101, 199, [120, 140, 160, 180])],
)
def test_ticks_are_round(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected)


def test_range_has_at_least_two_ticks():
    rng = np.random.default_rng(0)
    for low, width in zip(rng.uniform(-1e3, 1e3, 1_000), 10 ** rng.uniform(-2, 4, 1_000), strict=True):
        assert 2 <= len(ticks(low, low + width)) <= 10, (low, width)


def _decoded(address):
    return Image.open(io.BytesIO(base64.b64decode(address.partition("base64,")[2])))


def test_pictures_keep_the_size_limit():
    noise = np.random.default_rng(0).integers(0, 256, (600, 900, 3), dtype=np.uint8)
    address = jpeg(noise, 450, 20_000)
    picture = _decoded(address)
    assert len(base64.b64decode(address.partition("base64,")[2])) <= 20_000
    assert picture.width <= 450
    assert picture.width / picture.height == pytest.approx(1.5, rel=0.02)


def test_small_pictures_keep_their_size_and_transparency():
    pixels = np.full((20, 30, 4), 128, np.uint8)
    assert _decoded(jpeg(pixels[..., :3], 450, 20_000)).size == (30, 20)
    np.testing.assert_array_equal(np.asarray(_decoded(png(pixels))), pixels)


def _hover(svg):
    return json.loads(re.search(r'data-hover="([^"]*)"', svg)[1].replace("&quot;", '"'))


def test_curve_passes_through_its_points():
    chart = line_chart("Loss", [Series("", [0, 100, 200], [4.0, 2.0, 3.0])], "{:.1f}".format, low=0)
    points = [tuple(map(float, point.split(","))) for point in re.search(r'points="([^"]*)"', chart)[1].split()]
    left, middle, right = points
    assert middle[0] - left[0] == pytest.approx(right[0] - middle[0], abs=0.2)
    assert left[1] < right[1] < middle[1]  # y points down
    assert (middle[1] - left[1]) == pytest.approx(2 * (right[1] - left[1]), abs=0.2)
    assert [text for _, text in _hover(chart)] == ["step 0: 4.0", "step 100: 2.0", "step 200: 3.0"]


def test_nonfinite_points_are_omitted():
    chart = line_chart("Loss", [Series("", [0, 1, 2, 3], [1.0, float("nan"), float("inf"), 2.0])], str)
    assert len(_hover(chart)) == 2
    assert "nan" not in chart
    assert line_chart("Loss", [Series("", [0, 1], [1.0, float("nan")])], str) is None
    assert line_chart("Loss", [Series("", [], [])], str) is None


def test_long_curves_are_subsampled_and_keep_the_last_point():
    chart = line_chart("Loss", [Series("", range(10_000), range(10_000))], str)
    assert 150 <= len(_hover(chart)) <= 300
    assert _hover(chart)[-1][1] == "step 9,999: 9999"


@pytest.mark.parametrize("log", [False, True])
def test_histogram_counts_all_values_in_range(log):
    values = np.random.default_rng(0).uniform(0.1, 0.9, 1000)
    chart = histogram("Opacity", values, "{:.3g}".format, (0.05, 1.0), log)
    counts = [int(text.rpartition(": ")[2].replace(",", "")) for _, text in _hover(chart)]
    assert sum(counts) == 1000
    assert chart.count("<rect ") == len(counts) == 40


def test_bars_of_equal_values_are_visible():
    chart = bars("PSNR", "", [20.0, 20.0], ["a.jpg", "b<.jpg"], str)
    assert all(float(height) > 10 for height in re.findall(r'<rect [^>]* height="([\d.]+)"', chart))
    assert "b&lt;.jpg: 20.0" in chart
