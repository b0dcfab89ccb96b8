"""Our files in SuperSplat's viewer, in Chromium: upright, as we render them."""

import json
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from splat_cli.eval.metrics import psnr
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.formats import read_splats, write_splats
from splat_cli.gaussians.splats import Splats
from splat_cli.render.images import to_8bit
from splat_cli.scene.trajectories.focus import look_at
from splat_cli.scene.view import View
from tests.views import render_view

pytestmark = pytest.mark.browser

PUBLIC = Path(__file__).parent / "node_modules/@playcanvas/supersplat-viewer/public"
ORIGIN = "http://viewer.test/"
SIZE = 240, 180
POSITION = np.array([0.6, -0.8, -4.0])
TO_VIEWER = np.diag([-1.0, -1.0, 1.0])  # files have y down, its world has y up
EFFECTS = "sharpness", "bloom", "grading", "vignette", "fringing"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json"}


@pytest.fixture
def splats():
    """Turquoise above, red below, bright on the right: the picture differs in every other orientation."""
    rng = np.random.default_rng(0)
    means = rng.uniform((-1, -0.7, -0.5), (1, 0.7, 0.5), (1500, 3)).astype(np.float32)
    red, bright = (means[:, 1] > 0)[:, None], 0.3 + 0.3 * (means[:, :1] + 1)
    colors = bright * np.where(red, (1.0, 0.1, 0.1), (0.1, 1.0, 0.8))
    quats = rng.normal(size=(1500, 4)).astype(np.float32)
    log_scales = np.log(rng.uniform(0.03, 0.09, (1500, 3))).astype(np.float32)
    sh0, shN = ((colors - 0.5) / 0.28209479).astype(np.float32), np.zeros((1500, 0, 3), np.float32)
    return SplatArrays(means, log_scales, quats, np.full(1500, 2.0, np.float32), sh0, shN)


@pytest.fixture
def camera():
    width, height = SIZE
    w2c = look_at(POSITION, np.zeros(3), np.array([0.0, -1.0, 0.0]))
    return View("camera", None, width, height, 300.0, 300.0, width / 2, height / 2, w2c)


@pytest.fixture
def viewer(chromium, camera, tmp_path):
    """Opens the viewer's own page with a file of `tmp_path`: (page, its error messages)."""
    if not PUBLIC.is_dir():
        pytest.skip("no @playcanvas/supersplat-viewer: needs `npm install --prefix tests/interop`")
    fov = np.degrees(2 * np.arctan(camera.width / camera.fx / 2))  # of the longer side
    start = {"position": (TO_VIEWER @ POSITION).tolist(), "target": [0, 0, 0], "fov": fov}
    settings = {
        "version": 2,
        "tonemapping": "none",
        "highPrecisionRendering": False,
        "background": {"color": [0, 0, 0]},
        "postEffectSettings": {name: {"enabled": False} for name in EFFECTS},
        "animTracks": [],
        "annotations": [],
        "cameras": [{"initial": start}],
        "startMode": "default",
    }
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    page = chromium.new_page(viewport=dict(zip(("width", "height"), SIZE, strict=True)))

    def answer(route):
        name = route.request.url.removeprefix(ORIGIN).partition("?")[0]
        found = next(folder / name for folder in (PUBLIC, tmp_path) if (folder / name).is_file())
        route.fulfill(body=found.read_bytes(), content_type=TYPES.get(found.suffix, "application/octet-stream"))

    page.route(f"{ORIGIN}**", answer)
    said = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)

    def show(name):
        page.goto(f"{ORIGIN}index.html?content=./{name}&noui&noanim&webgl")
        return page, said

    yield show
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".ply", ".compressed.ply", ".sog"])
def test_the_viewer_shows_what_we_render(viewer, backend, splats, camera, tmp_path, suffix):
    write_splats(tmp_path / f"splats{suffix}", splats)
    page, said = viewer(f"splats{suffix}")
    rendered = to_8bit(
        render_view(backend, Splats.from_arrays(backend, read_splats(tmp_path / f"splats{suffix}")), camera, False)
    )
    assert best_match(page, rendered) > 25, said
    assert psnr(screenshot(page), rendered[::-1]) < 15


def best_match(page, rendered):
    """PSNR of the page. Waits until the page is close to the picture; the time depends on the machine."""
    for _ in range(150):
        page.wait_for_timeout(200)
        found = psnr(screenshot(page), rendered)
        if found > 25:
            break
    return found


def screenshot(page):
    return np.asarray(Image.open(BytesIO(page.screenshot())).convert("RGB"))


@pytest.mark.slow
def test_viewer_refuses_spz(viewer, splats, tmp_path):
    """If the viewer learns to read SPZ, the table in docs/formats.md must change."""
    write_splats(tmp_path / "splats.spz", splats)
    page, said = viewer("splats.spz")
    for _ in range(150):
        page.wait_for_timeout(200)
        if said:
            break
    assert said
    assert screenshot(page).max() < 40
