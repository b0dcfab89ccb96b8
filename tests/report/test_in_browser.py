"""The page in a real browser: whole without a network, as wide as a phone, light and dark, and answering."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture
def open_page(chromium, report):
    """`open_page(width, scheme)`; at the end of the test, nothing may have gone wrong in any of them."""
    contexts, complaints = [], []

    def open_page(width=1200, scheme="light"):
        context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url))
        page.goto(report.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def _pixels(frame):
    return np.asarray(Image.open(BytesIO(frame.screenshot())).convert("RGB")).astype(int)


def _difference(a, b):
    return np.abs(a - b).mean()


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_is_wider_than_the_window(open_page, width):
    page = open_page(width)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for figure in page.locator("figure").all():
        assert figure.bounding_box()["width"] <= width


@pytest.mark.parametrize("width", [390, 1200])
def test_portraits_fit_into_the_window(open_page, width):
    """The pictures of the report, made portraits: their frame keeps the shape that it is given."""
    page = open_page(width)
    stage = page.locator(".stage").first
    assert "--aspect" in stage.get_attribute("style")
    stage.evaluate("stage => stage.style.setProperty('--aspect', '0.5')")
    box = stage.bounding_box()
    assert box["width"] <= 0.5 * 0.8 * 800 + 1


def test_light_and_dark(open_page):
    light, dark = (_pixels(open_page(scheme=scheme)) for scheme in ("light", "dark"))
    assert dark[:, :10].mean() < 50
    assert light[:, :10].mean() > 220
    assert _difference(light, dark) > 50


def test_the_slider_goes_from_the_render_to_the_photograph(open_page):
    page = open_page()
    stage, slider = page.locator(".stage").first, page.locator(".stage input").first
    frames = []
    for place in ("100", "0"):
        slider.fill(place)
        frames.append(_pixels(stage))
    slider.fill("50")
    both, middle = _pixels(stage), frames[0].shape[1] // 2
    assert _difference(*frames) > 5
    assert _difference(both[:, : middle - 20], frames[0][:, : middle - 20]) < 2
    assert _difference(both[:, middle + 20 :], frames[1][:, middle + 20 :]) < 2


def test_the_error_map_shows_instead(open_page):
    page = open_page()
    view = page.locator(".view").first
    before = _pixels(view.locator(".stage"))
    assert not view.locator(".legend").is_visible()
    view.get_by_text("error map").click()
    assert view.locator(".legend").is_visible()
    assert _difference(before, _pixels(view.locator(".stage"))) > 10


def test_a_pointer_reads_off_a_curve(open_page):
    page = open_page()
    chart = page.locator(".chart").first
    summary = chart.locator("output").inner_text()
    chart.locator("svg").hover(position={"x": 120, "y": 60})
    assert chart.locator("output").inner_text().startswith("step ")
    page.mouse.move(0, 0)
    assert chart.locator("output").inner_text() == summary
