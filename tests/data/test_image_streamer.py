"""Streamed photographs give the same bits as resident ones, within the memory budget."""

import threading
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from splat_cli.config.presets import load_config
from splat_cli.data.image_budget import ImageBudget, image_budget, photo_bytes
from splat_cli.data.image_streamer import ImageStreamer
from splat_cli.data.training_images import view_order
from splat_cli.device import open_backend
from splat_cli.errors import UsageError
from splat_cli.render.camera import CAMERA_DTYPE, CameraTable
from splat_cli.run.setup.build_trainer import build_trainer
from splat_cli.scene import load_images, read_scene
from splat_cli.scene.images.image_set import lazy_images
from splat_cli.train.trainer import TrainingInputs
from tests.small_scene import write_small_scene
from tests.training import SETTINGS
from tests.views import ring_of_views

STEPS, VIEWS = 200, 30


class Counting:
    """Pictures of different brightness; counts how many are alive and how often each was read."""

    def __init__(self, views):
        self.views, self.taken, self.lock = views, Counter(), threading.Lock()

    def __len__(self):
        return len(self.views)

    def __getitem__(self, index):
        with self.lock:
            self.taken[index] += 1
        return np.full((self.views[index].height, self.views[index].width, 3), index, np.uint8)


@pytest.fixture
def stream(backend):
    def stream(budget, masks=None):
        views = ring_of_views(VIEWS)
        order = view_order(VIEWS, STEPS, 0)
        images = Counting(views)
        masks = masks or [None] * VIEWS
        return ImageStreamer(backend, CameraTable(backend, views), images, masks, order, budget)

    return stream


def shown(backend, stream, view):
    """Brightness of the photograph at the address that the camera table has for a view."""
    rows = backend.download(stream.cameras.array).view(CAMERA_DTYPE)[:, 0]
    addresses = {
        backend.address(photo): int(backend.download(photo)[0, 0, 0]) for photo, _, _ in stream._resident.values()
    }
    return addresses.get(int(rows["photo"][view]))


def run(backend, stream, first=0, last=STEPS):
    """Visits every step like training; checks that its photograph is resident. Returns the maximum number resident."""
    queued, step, most = first, first, 0
    while step < last:
        stop = stream.ready(step)
        assert stop > step
        for at in range(queued, stop):  # queued photographs stay while others are loaded
            assert shown(backend, stream, stream.order[at]) == stream.order[at]
        most = max(most, len(stream._resident) + len(stream._pending))
        queued, step = step, stop
    return most


@pytest.mark.parametrize("count", [4, 7, 15, 29])
def test_every_step_has_its_photograph(backend, stream, count):
    budget = ImageBudget.of(count)
    assert run(backend, stream(budget)) <= count
    assert budget.resident + budget.prefetch == count


def test_few_photographs_of_a_set_that_nearly_fits_are_read_again(backend, stream):
    """With room for 26 of 30 photographs, each pass reads only the few that were evicted (Belady)."""
    most = stream(ImageBudget(26, 2))
    run(backend, most)
    rounds = STEPS / VIEWS
    assert most.images.taken.total() < VIEWS + 8 * rounds


def test_views_out_of_order(backend, stream):
    streamed = stream(ImageBudget.of(12))
    views = [3, 1, 4, 15, 9, 26]
    for step in (0, 1, 10, 11, 90):
        streamed.load(views)
        assert [shown(backend, streamed, view) for view in views] == views
        run(backend, streamed, step, step + 20)


def test_steps_in_any_order(backend, stream):
    """This happens, for example, after a resume."""
    streamed = stream(ImageBudget.of(6))
    for first in (150, 20, 21, 120):
        run(backend, streamed, first, first + 30)


def test_more_downscaled_photographs_fit(backend, stream):
    streamed = stream(ImageBudget(5, 1))
    run(backend, streamed, 0, 20)
    streamed.restart(2)
    assert run(backend, streamed, 20, 60) > 6
    assert {photo.shape for photo, _, _ in streamed._resident.values()} == {(15, 20, 3)}
    streamed.restart(1)
    assert run(backend, streamed, 60, 80) <= 6


def test_masks_and_pixel_counts(backend, stream):
    half = np.zeros((30, 40), np.uint8)
    half[:15] = 255
    streamed = stream(ImageBudget.of(5), masks=[half if i % 2 else None for i in range(VIEWS)])
    stop = streamed.ready(0)
    rows = backend.download(streamed.cameras.array).view(CAMERA_DTYPE)[:, 0]
    for view in streamed.order[:stop]:
        assert rows["num_pixels"][view] == (600 if view % 2 else 1200)
        assert bool(rows["mask"][view]) == bool(view % 2)


@pytest.mark.parametrize(("strategy", "coarse_until"), [("default", 0.0), ("default", 0.6), ("adc", 0.0)])
@pytest.mark.parametrize("budget", [ImageBudget(4, 1), ImageBudget(6, 2), ImageBudget(3, 0, on_host=True)])
def test_same_bits_as_with_all_resident(scene, strategy, coarse_until, budget):
    backend = open_backend("cpu", threads=1)  # sums in a fixed order
    settings = SETTINGS | {"strategy": strategy, "score_views": 4, "steps": 60, "coarse_until": coarse_until}
    config = load_config(None, settings)
    views = read_scene(scene).views
    rng = np.random.default_rng(0)
    points, colors = rng.normal(size=(50, 3)).astype(np.float32), rng.integers(0, 256, (50, 3), dtype=np.uint8)

    def trained(photographs, budget):
        trainer = build_trainer(backend, config, TrainingInputs(photographs, budget), (points, colors))
        trainer.run_until(40)
        trainer.run_until(60)
        return backend.download(trainer.splats.params)[:, : trainer.model.num]

    whole = trained(load_images(views), None)
    photographs = load_images(views) if budget.on_host else lazy_images(views, pytest.fail)
    np.testing.assert_array_equal(trained(photographs, budget), whole)


def test_run_with_little_memory_resumes(training, finished, tmp_path):
    run = training.new(tmp_path / "run", image_memory=8 * 3 * 40 * 30 / 2**30, score_views=4, steps=30)
    assert any("photographs" in line for line in training.said)
    training.resume(run.path, steps=60)
    # other steps before the end of the schedule: the same run without the limit
    other = training.new(tmp_path / "other", score_views=4, steps=30)
    training.resume(other.path, steps=60)
    assert run.ply_path(60).read_bytes() == other.ply_path(60).read_bytes()


def test_broken_photograph_does_not_count(training, scene, tmp_path):
    """It is found during training, because nothing is decoded before."""
    broken = write_small_scene(tmp_path / "scene")
    path = broken / "images" / "a_04.jpg"
    path.write_bytes(path.read_bytes()[:-100])
    training.scene = broken
    training.new(tmp_path / "run", image_memory=8 * 3 * 40 * 30 / 2**30, score_views=4)
    assert sum("does not count: a_04.jpg" in line for line in training.display.warnings) == 1


def test_lazy_photographs_equal_eager_ones(scene):
    views = read_scene(scene).views
    now, later = load_images(views), lazy_images(views, pytest.fail)
    assert len(later.images) == len(views)
    for index in range(len(views)):
        np.testing.assert_array_equal(now.images[index], later.images[index])
        assert later.masks[index] is None


def test_photographs_that_do_not_fit_are_in_host_memory_if_they_fit_there(monkeypatch):
    backend, views = open_backend("cpu"), ring_of_views(50, width=60, height=45)
    size = photo_bytes(views[0])

    def budget(room, **changes):
        monkeypatch.setattr(backend, "host_room", lambda: room)
        return image_budget(backend, load_config(None, changes), views[:40], views[40:])

    little = {"max_memory": 16 * 20 * size / 2**30}
    assert budget(100 * size, **little) == ImageBudget(1, 0, on_host=True)  # before any splats
    assert not budget(100 * size - 1, **little).on_host
    assert not budget(100 * size, **little, gpus=2, batch=2).on_host
    assert not budget(100 * size, image_memory=20 * size / 2**30).on_host
    assert budget(100 * size) is None
    monkeypatch.setattr(backend, "memory", lambda: (40 * size, 80 * size))  # half of it is for photographs
    assert budget(100 * size) == ImageBudget(20, 0, on_host=True)


def test_budget(backend):
    views = ring_of_views(50, width=60, height=45)  # a sixteenth of the least --max-memory holds 8
    gib = photo_bytes(views[0]) / 2**30

    def room(count, **changes):
        return image_budget(
            backend, load_config(None, {"image_memory": count and count * gib, **changes}), views[:40], views[40:]
        )

    assert room(50) is None
    assert room(49).resident + room(49).prefetch == 49
    assert image_budget(backend, load_config(None), views, []) is None
    with pytest.raises(UsageError, match="hold 11 photographs .* more --image-memory, or --downscale 2"):
        room(11)
    assert room(11, score_views=5).resident >= 5
    assert room(None, max_memory=16 * 50 * gib) is None
    assert room(None, max_memory=16 * 49 * gib).resident + room(None, max_memory=16 * 49 * gib).prefetch == 49
    assert room(None, max_memory=0.001).resident >= 10  # enough for a round of density control
    assert room(50, max_memory=0.001) is None  # --image-memory counts
    assert room(30, gpus=2, batch=2) is None  # 20 of 40 training photographs, and 10 held out
    assert room(29, gpus=2, batch=2) is not None


def test_thousands_of_photographs_start_soon(training, tmp_path):
    """No photograph is decoded before it is needed."""
    folder = write_small_scene(tmp_path / "many", num_views=600)
    for path in (folder / "images").iterdir():
        Image.new("RGB", (40, 30), (int(path.stem[2:]) % 256, 0, 0)).save(path)
    training.scene = folder
    run = training.new(tmp_path / "run", image_memory=40 * 3 * 40 * 30 / 2**30, steps=10, deterministic=False)
    assert run.ply_path(10).is_file()


def test_many_broken_photographs_give_few_lines(tmp_path):
    """Transparent photographs, which decoding detects."""
    views = read_scene(write_small_scene(tmp_path / "scene", num_views=13)).views
    for view in views[:-1]:
        Image.new("LA", (40, 30)).save(view.path, "PNG")
    lines = []
    images = lazy_images(views, lines.append).images
    for index in 2 * list(range(len(views))):
        assert images[index].any() == (index == 12)
    assert lines[:5] == [f"{view.name}: is wholly transparent" for view in views[:5]]
    assert lines[5:] == ["a_09.jpg: is wholly transparent; 10 photographs so far"]
