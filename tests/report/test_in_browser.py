"""The report in a real browser: without a network, on a phone, light and dark, with its controls."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from tests.subprocesses import HANG

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def open_page(chromium, report):
    """`open_page(width, scheme, unfolded)`; asserts at the end of the test that no page reported an error."""
    contexts, complaints = [], []

    def open_page(width=1200, scheme="light", unfolded=True):
        context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url))
        page.goto(report.as_uri())
        if unfolded:
            page.evaluate("document.querySelectorAll('.fold').forEach((fold) => (fold.open = true))")
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
def test_page_fits_the_window(open_page, width):
    page = open_page(width)
    page.evaluate("document.getElementById('measure').hidden = false")
    page.evaluate("document.getElementById('option').textContent = '--scale-by ' + '-0.123456789,'.repeat(6)")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for figure in page.locator("figure").all():
        assert figure.bounding_box()["width"] <= width
    for chart in page.locator(".chart").all():
        assert chart.bounding_box()["width"] <= 600  # its text is as wide


@pytest.mark.parametrize("width", [390, 1200])
def test_portraits_fit_the_window(open_page, width):
    """Portrait pictures: the frame keeps the given aspect ratio."""
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


def test_sections_below_the_verdict_are_folded(open_page):
    page = open_page(unfolded=False)
    assert page.get_by_text("What to do next").is_visible()
    assert not page.locator(".view").first.is_visible()
    page.get_by_text("Renders and photographs").click()
    assert page.locator(".view").first.is_visible()


def test_worst_views_are_shown_in_3d(open_page):
    """A link of the verdict goes to the view's photograph; the wheel scrolls the page until a click into the scene."""
    page = open_page(unfolded=False)
    page.wait_for_selector("body[data-state=ready]", timeout=1000 * HANG)
    link = page.locator(".verdict a").last
    link.click()
    assert page.locator("#view-name").inner_text() in link.inner_text()
    page.wait_for_selector("#photograph", state="visible", timeout=1000 * HANG)
    assert page.locator("#photograph").get_attribute("src") in page.content().partition('class="views"')[2]
    page.evaluate("scrollTo(0, 0)")
    page.locator("#stage").hover()
    page.mouse.wheel(0, 200)
    for _ in range(100):  # scrolls smoothly
        page.wait_for_timeout(100)
        if page.evaluate("scrollY") > 100:
            return
    pytest.fail("the page does not scroll")


def test_cameras_of_the_map_are_visited_in_3d(open_page):
    page = open_page(unfolded=False)
    page.wait_for_selector("body[data-state=ready]", timeout=1000 * HANG)
    page.get_by_text("Cameras from above").click()
    camera = page.locator(".map a").nth(4)
    camera.click()
    assert page.locator("#view-name").inner_text() == camera.text_content().removesuffix(" (held out)")
    assert page.locator("#view-note").inner_text() == "moving …"
    page.wait_for_selector("#view-note:not(:text('moving'))", timeout=1000 * HANG)
    assert page.locator("#view-note").inner_text().startswith(("held out", "trained on"))
    assert page.locator("#stage").bounding_box()["y"] > -1


def test_commands_are_copied_or_selected(open_page):
    page = open_page(unfolded=False)
    step = page.locator(".verdict ol > li").first
    command = step.locator("code").last.inner_text()
    assert command.startswith("splat ")
    step.get_by_role("button").click()
    page.wait_for_selector(".verdict ol > li:first-child button:text-matches('copied|selected')", timeout=1000 * HANG)
    assert page.evaluate("getSelection().toString()") == command


@pytest.mark.parametrize("width", [390, 1200])
def test_lines_do_not_break_within_options(open_page, width):
    page = open_page(width)
    options = page.locator(".verdict pre .option")
    assert options.count()
    sizes = "all => all.map((one) => [one.offsetHeight, parseFloat(getComputedStyle(one).fontSize)])"
    assert all(height < 2 * size for height, size in options.evaluate_all(sizes))
    command = page.locator(".verdict pre code").first
    command.evaluate("code => (code.lastElementChild.textContent = '--split=' + 'folder/'.repeat(40))")
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize(("reach", "outline"), [("Tab", "solid"), ("click", "none")])
def test_scene_is_reached_by_tab(open_page, reach, outline):
    """Keys then move in the scene, and a frame shows it; a click shows none."""
    page = open_page(unfolded=False)
    page.wait_for_selector("body[data-state=ready]", timeout=1000 * HANG)
    stage = page.locator("#stage")
    if reach == "Tab":
        page.keyboard.press("Tab")
    else:
        stage.click(position={"x": 100, "y": 100})
    assert page.evaluate("document.activeElement.id") == "stage"
    assert stage.evaluate("stage => getComputedStyle(stage).outlineStyle") == outline
    unnamed = "all => all.filter((one) => !(one.ariaLabel || one.textContent.trim())).map((one) => one.className)"
    assert page.locator("button").evaluate_all(unnamed) == []


def test_slider_blends_render_and_photograph(open_page):
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


def test_error_map_replaces_the_pictures(open_page):
    page = open_page()
    view = page.locator(".view").first
    before = _pixels(view.locator(".stage"))
    assert not view.locator(".legend").is_visible()
    view.get_by_text("error map").click()
    assert view.locator(".legend").is_visible()
    assert _difference(before, _pixels(view.locator(".stage"))) > 10


def test_pointer_shows_values_of_a_curve(open_page):
    page = open_page()
    chart = page.locator(".charts .chart").first
    summary = chart.locator("output").inner_text()
    chart.locator("svg").hover(position={"x": 120, "y": 60})
    assert chart.locator("output").inner_text().startswith("step ")
    page.mouse.move(0, 0)
    assert chart.locator("output").inner_text() == summary
