"""Logs of a run for TensorBoard, read with its own reader."""

import errno

import numpy as np
import pytest

from splat_cli.errors import UsageError
from splat_cli.eval.metrics import Score
from splat_cli.run import training_log as module
from splat_cli.run.training_log import TensorBoardLogger
from tests.gaussians.some_splats import some_splats

pytest.importorskip("tensorboard")
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def board(tmp_path, warnings):
    return TensorBoardLogger(tmp_path / "tensorboard", warnings.append)


def _read(folder):
    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def _images(events):
    return [tag for tag in events.Tags()["tensors"] if events.SummaryMetadata(tag).plugin_data.plugin_name == "images"]


def _scalars(events, tag):
    return [(event.step, event.tensor_proto.float_val[0]) for event in events.Tensors(tag)]


def test_figures_scores_and_distributions(board):
    board.open(0)
    board.figures({"step": 10, "loss": 0.5, "psnr": None, "num_splats": 7})
    board.figures({"step": 20, "loss": 0.25, "psnr": 21.0, "num_splats": 9})
    board.scores(20, Score(25.0, 0.5))
    board.splats(20, some_splats(100))
    board.close()
    events = _read(board.folder)
    assert _scalars(events, "train/loss") == [(10, 0.5), (20, 0.25)]
    assert _scalars(events, "train/psnr") == [(20, 21.0)]
    assert _scalars(events, "held out/psnr") == [(20, 25.0)]
    assert {"splats/opacity", "splats/log_scale"} <= set(events.Tags()["tensors"])


def test_renders_of_the_first_views_shrunk(board):
    board.open(0)
    for number in range(20):
        board.render(5, number, f"{number}.jpg", np.zeros((500, 1000, 3), np.uint8))
    board.close()
    events = _read(board.folder)
    assert len(_images(events)) == 8
    (image,) = events.Tensors("held out/3.jpg")
    assert (image.step, image.tensor_proto.string_val[:2]) == (5, [b"800", b"400"])


def test_a_resume_invalidates_events_after_its_checkpoint(board):
    for first, steps in ((0, (10, 20, 30)), (15, (21,))):
        board.open(first)
        for step in steps:
            board.figures({"step": step, "loss": float(step)})
        board.close()
    assert [step for step, _ in _scalars(_read(board.folder), "train/loss")] == [10, 21]


def test_a_closed_logger_writes_nothing(board):
    board.figures({"step": 1, "loss": 0.5})
    board.splats(1, some_splats(10))
    board.render(1, 0, "a.jpg", np.zeros((5, 5, 3), np.uint8))
    board.close()
    assert not board.folder.exists()


def test_a_full_disk_ends_logging_with_a_warning(board, warnings, monkeypatch):
    def fail(event):
        raise OSError(errno.ENOSPC, "full")

    board.open(0)
    board._writer.close()
    monkeypatch.setattr(board._writer, "add_event", fail)
    board.figures({"step": 1, "loss": 0.5, "psnr": 20.0})
    board.close()
    assert len(warnings) == 1
    assert "no space left" in warnings[0]


def test_a_missing_package_is_an_error_before_training(training, tmp_path, monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'splat-cli\[tensorboard\]'"):
        training.new(tmp_path / "run", tensorboard=True)
    assert not (tmp_path / "run").exists()


def test_training_writes_events(training, tmp_path):
    run = training.new(tmp_path / "run", tensorboard=True, eval=True, steps=20, save_at=(10,))
    events = _read(run.path / "tensorboard")
    assert [step for step, _ in _scalars(events, "held out/psnr")] == [10, 20]
    assert sorted(_images(events)) == ["held out/a_00.jpg", "held out/a_08.jpg"]
    assert _scalars(events, "train/num_splats")[-1][0] == 20
