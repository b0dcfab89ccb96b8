"""Invalid JSON files of a run give an error of one line that names the file; invalid log lines are skipped."""

import shutil

import pytest

from splat_cli.errors import FormatError
from splat_cli.run.storage.inputs import inputs_of
from splat_cli.run.storage.run_dir import RunDir
from tests.views import ring_of_views

SCORE = '{"psnr": 20.5, "ssim": 0.5}'


@pytest.mark.parametrize(
    "text",
    [
        "[]", "3", "null", '{"steps": []}', f'{{"steps": {{"x": {SCORE}}}}}', '{"steps": {"1": 3}}',
        '{"steps": {"1": {}}}',
        '{"steps": {"1": {"psnr": "20", "ssim": 0.5}}}', '{"steps": {"1": {"psnr": 20, "ssim": null}}}',
        '{"steps": {"1": {"psnr": 20, "ssim": 0.5, "per_image": []}}}', '{"steps": {}, "protocol": 3}',
        '{"steps": {"1": {"psnr": 20, "ssim": 0.5, "per_image": {"a": 3}}}}',
        '{"steps": {"1": {"psnr": 1, "ssim": 1, "per_image": '
        '{"a": {"psnr": 1, "ssim": 1}, "b": {"psnr": 1, "ssim": 1, "flip": 1}}}}}',
        f'{{"steps": {{"{"9" * 5000}": {SCORE}}}}}', "[" * 100_000, "{", "", "\xff",
    ],
)  # fmt: skip
def test_metrics(tmp_path, text):
    run = RunDir(tmp_path)
    run.metrics_path.write_bytes(text.encode("latin-1"))
    with pytest.raises(FormatError, match=r"metrics\.json"):
        run.metrics()


@pytest.mark.parametrize(
    "text", ["[]", '{"steps": "x"}', '{"steps": 3}', '{"steps": 3, "num_splats": 1, "seconds": null}']
)
def test_result(tmp_path, text):
    run = RunDir(tmp_path)
    run.result_path.write_text(text)
    with pytest.raises(FormatError, match=r"result\.json is corrupt"):
        run.result()


@pytest.mark.parametrize("points", ["3", "[1]", '["1", 0, 0, 0, 0]', "[NaN, 0, 0, 0, 0]"])
def test_points_of_inputs(tmp_path, points):
    run = RunDir(tmp_path)
    run.inputs_path.write_text(f'{{"views": {{}}, "points": {points}}}')
    with pytest.raises(FormatError, match=r"inputs\.json is corrupt: expected `points`, five numbers"):
        run.inputs()


@pytest.mark.parametrize("change", [{"lens": 3}, {"lens": ["1"]}, {"lens": [float("nan")]}, {"camera": None}])
def test_lenses_of_inputs(tmp_path, change):
    run, entry = RunDir(tmp_path), next(iter(inputs_of(ring_of_views(1)).values()))
    run.save_inputs({"a.jpg": entry}, [])
    assert run.inputs() == {"a.jpg": entry}
    run.save_inputs({"a.jpg": entry | change}, [])
    with pytest.raises(FormatError, match=r"inputs\.json is corrupt: expected `views`"):
        run.inputs()


@pytest.mark.parametrize(
    "color",
    [
        "[NaN, 0, 0]",
        "[0, 0]",
        "[0, 0, 0, 0]",
        '["0", 0, 0]',
        "3",
        "null",
        "[2, 0, 0]",
        "[[0], [0], [0]]",
        "[1e999, 0, 0]",
    ],
)
def test_background(tmp_path, color):
    run = RunDir(tmp_path)
    run.config_path.write_text('background = "learned"')
    run.background_path.write_text(f'{{"color": {color}}}')
    with pytest.raises(FormatError, match=r"background\.json is corrupt: .*three numbers"):
        run.background()


def test_invalid_lines_of_the_log_are_skipped(tmp_path):
    good = [
        '{"step": 1, "loss": NaN, "psnr": 20.0}',
        '{"step": 2, "warning": "a"}',
        '{"step": 3, "phases": {"a": 1.5}}',
    ]
    bad = ['{"step": "1"}', "[]", "3", '{"step": 1, "phases": []}', '{"step": 1, "phases": {"a": "b"}}', "[" * 100_000,
           '{"step": 1, "warning": 3}',
           '{"step": 1, "loss": "x"}', '{"step": -1}', '{"step": 1, "loss": {}}']  # fmt: skip
    run = RunDir(tmp_path)
    run.log.path.write_text("\n".join([*good, *bad, *good]))
    assert [line["step"] for line in run.log.entries()] == [1, 2, 3, 1, 2, 3]


def test_a_run_with_odd_files_is_described_or_refused(splat, finished, tmp_path):
    run = RunDir(shutil.copytree(finished.path, tmp_path / "run"))
    run.metrics_path.write_text('{"steps": [1]}')
    for command in (("info", run.path), ("report", run.path, "--device", "cpu")):
        result = splat(*command)
        assert (result.code, result.err.count("\n")) == (2, 1), result.err
