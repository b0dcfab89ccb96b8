"""Pages in a real browser: headless Chromium, without a GPU."""

import dataclasses
import json
import time
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from splat_cli.config import TrainConfig
from splat_cli.config.presets import load_config
from splat_cli.eval.metrics import psnr
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.editing.edits import Edits
from splat_cli.gaussians.formats import read_splats
from splat_cli.gaussians.splats import Splats
from splat_cli.render.images import to_8bit
from splat_cli.report import write_report
from splat_cli.run.device import open_device
from splat_cli.run.storage.find_run import new_locked_run
from splat_cli.run.storage.load_run import load_trained_splats
from splat_cli.run.train_scene import train_scene
from splat_cli.sample import make_sample_scene
from splat_cli.scene.cameras_json import read_cameras
from splat_cli.scene.trajectories.camera_path import with_size
from splat_cli.scene.trajectories.focus import UP, look_at
from splat_cli.scene.view import View
from splat_cli.terminal.console import Display
from splat_cli.viewer.html import Stop, write_html
from splat_cli.viewer.initial_camera import InitialCamera, find_initial_camera
from splat_cli.viewer.server import serving
from splat_cli.viewer.splat_source import FileSource, open_source
from splat_cli.viewer.window import Window
from tests.subprocesses import HANG
from tests.views import render_view

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SIZE = {"width": 480, "height": 360}
FREE = np.s_[160:, :480]
"""Part of a window of 900x600 pixels that the panel and messages of the browser do not cover."""


@pytest.fixture(scope="module")
def sample_run(tmp_path_factory):
    """A run of 300 steps on the sample scene."""
    folder = tmp_path_factory.mktemp("sample")
    make_sample_scene(folder / "scene")
    config = load_config("demo", {"steps": 300, "eval": False})
    with new_locked_run(folder / "run") as run:
        train_scene(folder / "scene", run, config, open_device("cpu", config, Display()), Display())
    return run


def wait_for(page, condition, work=lambda: None):
    """Wait until the page shows the expected state; the time depends on the machine."""
    end = time.monotonic() + HANG
    work()
    while not condition():
        if time.monotonic() > end:
            pytest.fail("the browser does not show it")
        page.wait_for_timeout(100)
        work()


def screenshot(page):
    return np.asarray(Image.open(BytesIO(page.screenshot())).convert("RGB"))


def test_the_page_shows_what_splat_renders(chromium, sample_run, tmp_path, open_device):
    opening = find_initial_camera([sample_run.path], "view_007")
    opening.write(tmp_path / "a.html", load_trained_splats(sample_run.path)[0])
    page = chromium.new_page(viewport=SIZE)
    requests = []
    page.on("request", lambda request: requests.append(request.url.partition(":")[0]))
    page.goto(f"{(tmp_path / 'a.html').as_uri()}?noui")
    page.wait_for_selector("body[data-state=ready]", timeout=1000 * HANG)

    backend = open_device("cpu")
    splats = Splats.from_arrays(backend, read_splats(sample_run.ply_path(300)))
    view = with_size(opening.start, **SIZE)
    rendered = to_8bit(render_view(backend, splats, view, antialias=True))
    wait_for(page, lambda: psnr(screenshot(page), rendered) > 36)  # precision of SOG
    assert set(requests) == {"file", "blob"}

    page.mouse.move(200, 200)
    page.mouse.down()
    page.mouse.move(150, 220, steps=5)
    page.mouse.up()
    wait_for(page, lambda: psnr(screenshot(page), rendered) < 25)


ALL_SIZES = [  # number, corners of a box, size, logit of opacity
    (4000, (-2, -1.5, -1), (2, 1.5, 1), 0.002, 3.0),
    (300, (-2, -1.5, -1), (2, 1.5, 2), 0.03, 1.0),
    (20, (-2, -1.5, -1), (2, 1.5, 2), 2.0, -1.0),
    (20, (1, -1, -3.6), (2, 1, -3), 0.2, 1.0),
]
"""Smaller than a pixel, larger than the window, beside the frame, in two orders of depth."""
AT_START = View(
    "view", None, SIZE["width"], SIZE["height"], 300.0, 300.0, 240.0, 180.0,
    look_at(np.array([0.0, 0.0, -4.0]), np.zeros(3), UP),
)  # fmt: skip


def splats_of_all_sizes(kinds, antialiased):
    rng = np.random.default_rng(0)
    n = sum(kind[0] for kind in kinds)
    sizes, logits = (np.concatenate([np.full(kind[0], kind[i], np.float32) for kind in kinds]) for i in (3, 4))
    return SplatArrays(
        means=np.concatenate([rng.uniform(low, high, (num, 3)) for num, low, high, _, _ in kinds]).astype(np.float32),
        log_scales=np.log(sizes)[:, None] + rng.normal(0, 0.4, (n, 3)).astype(np.float32),
        quats=rng.normal(size=(n, 4)).astype(np.float32),
        logit_opacities=logits,
        sh0=rng.uniform(-1, 2, (n, 3)).astype(np.float32),
        shN=np.zeros((n, 0, 3), np.float32),
        antialiased=antialiased,
    )


@pytest.mark.parametrize("antialiased", [True, False])
def test_page_draws_splats_of_all_sizes_as_in_training(chromium, tmp_path, open_device, antialiased):
    """Colours within 1 %."""
    splats = splats_of_all_sizes(ALL_SIZES, antialiased)
    write_html(tmp_path / "a.html", splats, [Stop(AT_START)], UP)
    page = chromium.new_page(viewport=SIZE)
    page.goto(f"{(tmp_path / 'a.html').as_uri()}?noui")
    page.wait_for_selector("body[data-state=ready]", timeout=1000 * HANG)
    backend = open_device("cpu")
    rendered = to_8bit(render_view(backend, Splats.from_arrays(backend, splats), AT_START, antialias=antialiased))
    wait_for(page, lambda: psnr(screenshot(page), rendered) > 43)
    np.testing.assert_allclose(screenshot(page).mean(axis=(0, 1)), rendered.mean(axis=(0, 1)), rtol=0.01)


def test_page_says_that_the_browser_has_no_webgl(chromium, tmp_path):
    write_html(tmp_path / "a.html", splats_of_all_sizes(ALL_SIZES, False), [Stop(AT_START)], UP)
    page = chromium.new_page(viewport=SIZE)
    page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null")
    page.goto((tmp_path / "a.html").as_uri())
    page.wait_for_selector("body[data-state=failed]", timeout=1000 * HANG)
    assert page.locator("#message").inner_text() == "This browser cannot show the splats: no WebGL 2."


def test_the_live_viewer_draws_splats_of_all_sizes_as_in_training(chromium, tmp_path, open_device):
    """Colours as its camera sees them within 1 %, also of splats beside the frame and larger than it."""
    pytest.importorskip("viser", reason="the live viewer needs viser (extra viewer)")
    backend = open_device("cpu")
    arrays = splats_of_all_sizes(ALL_SIZES, False)
    sides = np.random.default_rng(1).uniform(-0.3, 0.3, (len(arrays.means), 3, 3)).astype(np.float32)
    arrays = dataclasses.replace(arrays, sh0=np.clip(arrays.sh0, -0.9, 0.9), shN=sides)  # viser's colours end at 0, 1
    splats = Splats.from_arrays(backend, arrays)
    behind = dataclasses.replace(AT_START, w2c=look_at(np.array([0.0, 0.0, 4.0]), np.zeros(3), UP))
    source = FileSource(splats, TrainConfig(antialias=False, background="black"), [AT_START, behind], {}, None)
    rendered = to_8bit(render_view(backend, splats, AT_START, antialias=False))
    with serving("127.0.0.1", 18080, Display()) as server:
        window = Window(server, source, tmp_path / "views.json", 2)
        page = chromium.new_page(viewport=SIZE)
        page.goto(f"http://127.0.0.1:{server.get_port()}")
        page.get_by_role("checkbox", name="Show", exact=True).uncheck()  # the pyramids
        page.add_style_tag(content="body * { visibility: hidden } canvas { visibility: visible !important }")
        wait_for(page, lambda: psnr(screenshot(page), rendered) > 46, window.wait)
    np.testing.assert_allclose(screenshot(page).mean(axis=(0, 1)), rendered.mean(axis=(0, 1)), rtol=0.01)


def test_frame_scene_shows_the_room_despite_a_far_splat(chromium, sample_run, tmp_path):
    """The key F moves back until the cameras' room fills the window; R returns to the start."""
    splats = load_trained_splats(sample_run.path)[0]
    splats.means[:20] = np.random.default_rng(0).normal(size=(20, 3)) * 500
    find_initial_camera([sample_run.path], "view_007").write(tmp_path / "a.html", splats)
    page = chromium.new_page(viewport=SIZE)
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((tmp_path / "a.html").as_uri())
    page.wait_for_selector("body[data-state=ready]", timeout=1000 * HANG)
    page.wait_for_timeout(1000)
    start = screenshot(page)[:200]
    page.keyboard.press("f")
    wait_for(page, lambda: psnr(screenshot(page)[:200], start) < 20)
    page.wait_for_timeout(3000)
    framed = screenshot(page)[:200]
    assert (framed.max(axis=2) > 40).mean() > 0.6  # the room fills most of the window
    page.keyboard.press("r")
    wait_for(page, lambda: psnr(screenshot(page)[:200], start) > 25)
    assert errors == []


@pytest.mark.parametrize("turn", [0, 180])
def test_frame_scene_stays_on_the_side_of_the_first_view(chromium, tmp_path, turn):
    """What is red at the left and green at the right stays so: from behind, a wall would be mirrored."""
    splats = splats_of_all_sizes([(2000, (-2, -1.5, -0.1), (2, 1.5, 0.1), 0.05, 3.0)], False)
    sides = (splats.means[:, :1] < 0) == np.array([[True, False, False]])
    splats = dataclasses.replace(splats, sh0=np.where(sides & [[True, True, False]], 1.5, -1.5).astype(np.float32))
    turned = Edits(rotate=(0.0, turn, 0.0))
    move = turned.similarity()
    opening = InitialCamera([AT_START], AT_START, (0.0, 0.0, 0.0), "a").moved(move)
    opening.write(tmp_path / "a.html", turned.apply(splats))
    page = chromium.new_page(viewport=SIZE)
    page.goto((tmp_path / "a.html").as_uri())
    page.wait_for_selector("body[data-state=ready]", timeout=1000 * HANG)
    start = screenshot(page)
    page.keyboard.press("f")
    wait_for(page, lambda: psnr(screenshot(page)[:200], start[:200]) < 20)

    def is_framed():
        left, right = np.split(screenshot(page)[60:200].astype(float).mean(axis=0), 2)
        return (left[:, 0] - left[:, 1]).mean() > 10 and (right[:, 1] - right[:, 0]).mean() > 10

    wait_for(page, is_framed)


@pytest.mark.parametrize("size", [{"width": 1280, "height": 800}, {"width": 390, "height": 844}])
def test_report_compares_photographs_with_the_scene(chromium, sample_run, tmp_path, open_device, size):
    """The slider lays the photograph over the splats, of the same colours; buttons and keys go to others."""
    report = write_report(sample_run, open_device("cpu"), Display(), path=tmp_path / "report.html")
    page, errors = chromium.new_page(viewport=size), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(report.as_uri())
    page.wait_for_selector("body[data-state=ready]", timeout=1000 * HANG)
    name, cut, photograph = page.locator("#view-name"), page.locator("#cut"), page.locator("#photograph")
    box = page.locator("#stage").bounding_box()
    assert box["x"] + box["width"] <= size["width"]
    assert box["y"] + box["height"] < size["height"]
    for button in page.locator("#walk button").all():
        assert min(button.bounding_box()[side] for side in ("width", "height")) >= 44

    def compared():
        """(splats, photograph), without the viewer's buttons."""
        box = page.locator("#stage").bounding_box()
        inner = {side: int(box[side]) for side in ("x", "y", "width")} | {"height": int(box["height"] - 80)}
        cut.fill("0")
        shown = [np.asarray(Image.open(BytesIO(page.screenshot(clip=inner))).convert("RGB"))]
        cut.fill("100")
        cut.blur()  # the slider has arrow keys of its own
        shown.append(np.asarray(Image.open(BytesIO(page.screenshot(clip=inner))).convert("RGB")))
        covered = np.any(shown[0] != shown[1], axis=2)
        rows, columns = np.flatnonzero(covered.mean(axis=1) > 0.3), np.flatnonzero(covered.mean(axis=0) > 0.3)
        return [part[rows[0] : rows[-1], columns[0] : columns[-1]] for part in shown]

    names = []
    for go in (lambda: None, page.locator("#next").click, lambda: page.keyboard.press("ArrowRight")):
        go()
        names.append(name.inner_text())
        wait_for(page, photograph.is_visible)
        splats, photo = compared()
        assert psnr(splats, photo) > 22
        assert abs(splats.mean() / photo.mean() - 1) < 0.02
    assert names[0] == "view_000.jpg"
    assert names == sorted(set(names))
    page.locator("#previous").click()
    assert name.inner_text() == names[1]
    wait_for(page, photograph.is_visible)
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 160, box["y"] + 110, steps=5)
    page.mouse.up()
    wait_for(page, photograph.is_hidden)
    assert page.locator("#view-note").inner_text() == "seen from elsewhere; the slider goes back"
    page.keyboard.press("r")
    assert name.inner_text() == names[0]
    wait_for(page, photograph.is_visible)
    wait_for(page, lambda: page.locator("#view-note").inner_text() != "seen from elsewhere; the slider goes back")
    page.mouse.wheel(0, 100)
    wait_for(page, photograph.is_hidden)
    assert page.evaluate("getComputedStyle(document.getElementById('veil'), '::after').display") == "none"
    assert errors == []


def texts_of(page, element):
    """A function that returns the texts of an element from now on: on a slow machine, the next may be there already."""
    page.evaluate(
        """id => {
            const [element, texts] = [document.getElementById(id), []];
            new MutationObserver(() => texts.push(element.textContent)).observe(element, { childList: true });
            (globalThis.texts ??= {})[id] = texts;
        }""",
        element,
    )
    return lambda: page.evaluate("id => globalThis.texts[id]", element)


@pytest.mark.parametrize("size", [{"width": 1280, "height": 800}, {"width": 390, "height": 844}])
def test_page_walks_and_measures(chromium, sample_run, tmp_path, size):
    """Buttons go to other views; two clicks give the option that scales the run, though the page is scaled itself.

    In the narrow window, these are taps. A mark that is dragged in another view moves to where both rays meet. The
    play button flies through a tour.
    """
    opening = find_initial_camera([sample_run.path], "view_007")
    opening = dataclasses.replace(opening, views=opening.views[7:9], is_tour=True)
    edits = Edits(scale=2.0, rotate=(10.0, 0.0, 0.0))
    splats = load_trained_splats(sample_run.path)[0]
    opening.moved(edits.similarity()).write(tmp_path / "a.html", edits.apply(splats))
    is_phone = size["width"] < 600
    page, errors = chromium.new_page(viewport=size, has_touch=is_phone), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((tmp_path / "a.html").as_uri())
    page.wait_for_selector("body[data-state=ready]", timeout=1000 * HANG)
    name, distance = page.locator("#view-name"), page.locator("#distance")
    page.locator("#pick").click()
    box = page.locator("#stage").bounding_box()
    for share, answer in ((0.35, "second"), (0.65, "units")):
        press = page.touchscreen.tap if is_phone else page.mouse.click
        texts = texts_of(page, "distance")
        press(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
        assert texts()[0] == "finding the point …"
        page.wait_for_selector(f"#distance:text('{answer}')", timeout=1000 * HANG)
    wait_for(page, page.locator("#marks circle").last.is_visible)
    page.locator("#length input").fill("1,25" if is_phone else "1.25")
    assert distance.inner_text().startswith("1.250 m (")
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    a, b = measured_points(page)
    assert page.locator("#option").inner_text().endswith(" 1.25m")
    assert page.locator("#to-scale").inner_text() == "For files in metres, add to splat export:"
    assert np.linalg.norm(a - b) == pytest.approx(float(distance.inner_text().split("(")[1].split()[0]), rel=1e-3)
    start = opening.start
    w2c = start.w2c
    left, right = (w2c[:3, :3] @ point + w2c[:3, 3] for point in (a, b))
    assert left[0] / left[2] == pytest.approx(-right[0] / right[2], abs=0.01)
    assert left[0] < 0 < left[2]
    assert [left[1] / left[2], right[1] / right[2]] == pytest.approx([0, 0], abs=0.01)
    notes = texts_of(page, "view-note")
    page.locator("#next").click()
    assert name.inner_text() == "view_008.jpg"
    assert notes()[0] == "moving …"

    nearer = start.center + 0.85 * (a - start.center)  # on the ray of the click, but not on the surface
    [there] = [view for view in opening.views if view.name == "view_008.jpg"]
    mark, goal = (on_screen(page, there, point) for point in (a, nearer))
    wait_for(page, lambda: np.linalg.norm(center_of(page.locator("#marks circle").first) - mark) < 2)
    page.mouse.move(*mark)
    page.mouse.down()
    page.mouse.move(*goal, steps=3)
    page.mouse.up()
    moved, other = measured_points(page)
    assert np.linalg.norm(moved - nearer) < 0.02 * np.linalg.norm(a - start.center)
    assert (other == b).all()
    page.locator("#previous").click()
    assert name.inner_text() == "view_007.jpg"
    last = page.locator("#marks circle").last
    ends = [on_screen(page, view, b) for view in opening.views]
    wait_for(page, lambda: np.linalg.norm(center_of(last) - ends[0]) < 2)
    page.locator(".sse-play").dispatch_event("click")  # hidden while the mouse rests
    wait_for(page, lambda: np.linalg.norm(center_of(last) - ends[1]) < 0.25 * np.linalg.norm(ends[0] - ends[1]))
    assert errors == []


def test_a_click_past_the_splats_is_answered(chromium, tmp_path):
    write_html(tmp_path / "a.html", splats_of_all_sizes([(300, -0.2, 0.2, 0.05, 3.0)], False), [Stop(AT_START)], UP)
    page = chromium.new_page(viewport={"width": 800, "height": 600})
    page.goto((tmp_path / "a.html").as_uri())
    page.wait_for_selector("body[data-state=ready]", timeout=1000 * HANG)
    page.locator("#pick").click()
    box, distance = page.locator("#stage").bounding_box(), page.locator("#distance")
    page.mouse.click(box["x"] + 30, box["y"] + 100)
    wait_for(page, lambda: distance.inner_text() == "No surface found there. Click on two points.")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    wait_for(page, lambda: distance.inner_text() == "Click on the second point.")


def measured_points(page):
    """The points of the option that the page shows, float64 [2, 3]."""
    return np.array([point.split(",") for point in page.locator("#option").inner_text().split()[1:3]], float)


def on_screen(page, view, point):
    """Where the page shows a point [3] from a view with the principal point in the middle, in pixels of the window."""
    views = json.loads(page.locator("#scene").text_content())["views"]
    [shown] = [one for one in views if one["name"] == view.name]
    box = page.locator("#stage").bounding_box()
    scale = min(box["width"] / 2 / shown["frame"][0], box["height"] / 2 / shown["frame"][1])
    x, y, z = view.w2c[:3, :3] @ point + view.w2c[:3, 3]
    turned = scale * complex(x, y) / z * np.exp(1j * shown["roll"])  # the page's camera has no roll
    return np.array([box["x"] + box["width"] / 2 + turned.real, box["y"] + box["height"] / 2 + turned.imag])


def center_of(locator):
    box = locator.bounding_box()
    return np.array([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])


SHAPES = [({"width": 240, "height": 480}, np.s_[150:330]), ({"width": 600, "height": 300}, np.s_[:, 100:500])]
"""Windows with another shape than the first view, and the part of each window that shows the view."""


@pytest.mark.parametrize("shapes", [SHAPES, SHAPES[::-1]])
def test_window_of_any_shape_shows_the_whole_start_view(chromium, sample_run, tmp_path, open_device, shapes):
    """The view fits at the start, and after the window is resized or a phone is rotated."""
    opening = find_initial_camera([sample_run.path], "view_007")
    opening.write(tmp_path / "a.html", load_trained_splats(sample_run.path)[0])
    page = chromium.new_page(viewport=shapes[0][0])
    page.goto(f"{(tmp_path / 'a.html').as_uri()}?noui")
    page.wait_for_selector("body[data-state=ready]", timeout=1000 * HANG)

    backend = open_device("cpu")
    splats = Splats.from_arrays(backend, read_splats(sample_run.ply_path(300)))
    for window, frame in shapes:
        page.set_viewport_size(window)
        height, width = screenshot(page)[frame].shape[:2]
        rendered = to_8bit(render_view(backend, splats, with_size(opening.start, width, height), antialias=True))
        wait_for(page, lambda: psnr(screenshot(page)[frame], rendered) > 25)  # noqa: B023


def test_the_live_viewer_shows_the_splats_and_compares(chromium, sample_run, open_device):
    """Shows the first view without pyramids, then the third camera's view next to its photograph."""
    pytest.importorskip("viser", reason="the live viewer needs viser (extra viewer)")
    backend, display = open_device("cpu"), Display()
    source = open_source(sample_run.path, backend, display)
    with serving("127.0.0.1", 18080, display) as server:
        window = Window(server, source, sample_run.path / "views.json", 64)
        page, errors = chromium.new_page(viewport={"width": 900, "height": 600}), []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(f"http://127.0.0.1:{server.get_port()}")

        def until(condition):
            """Serve the browser until it shows the expected state."""
            wait_for(page, condition, window.work)

        def shows(picture):
            return psnr(screenshot(page)[FREE], picture[FREE]) > 20

        page.get_by_text("Saved views").click()
        page.get_by_text("Save this view").wait_for()
        assert not page.get_by_text("Compare").is_visible()
        page.get_by_role("checkbox", name="Show", exact=True).uncheck()  # the pyramids
        first, third = (
            to_8bit(render_view(backend, source.splats, with_size(view, 900, 600), antialias=True))
            for view in source.views[:3:2]
        )
        until(lambda: shows(first))
        for name in ("view_001.jpg", "view_002.jpg"):
            page.get_by_text("Next", exact=True).click()
            until(page.get_by_text(f"{name}, PSNR").is_visible)
        until(lambda: shows(third))
        page.get_by_text("Save this view").click()
        until((sample_run.path / "views.json").exists)
        page.reload()  # starts at the chosen camera, whose pyramid is hidden
        until(lambda: shows(third))
        page.get_by_text("Crop", exact=True).first.click()
        assert not page.get_by_text("Option", exact=True).is_visible()
        page.get_by_role("checkbox", name="Crop", exact=True).check()
        fields = page.locator("textarea, input:not([type=checkbox])")
        until(lambda: any(field.input_value().startswith("--crop ") for field in fields.all()))
    assert not errors
    kept = read_cameras(sample_run.path / "views.json")[0]
    np.testing.assert_allclose(kept.w2c, source.views[2].w2c, atol=1e-3)
