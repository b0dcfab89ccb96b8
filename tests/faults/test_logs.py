"""train.jsonl on a disk that fills up: torn lines do not end the run or prevent a resume."""

import errno
import json

import pytest

from splat_cli.run.storage.run_dir import RunDir


class TornFile:
    """A file that accepts `room` bytes, then raises ENOSPC."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.file.close()

    def write(self, data):
        if self.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        data = bytes(data)[: self.room]
        self.room -= len(data)
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)


@pytest.fixture
def run(tmp_path):
    run = RunDir(tmp_path)
    for step in range(3):
        run.log.append({"step": step, "loss": 0.5})
    return run


def test_a_line_that_does_not_fit_is_removed(run, monkeypatch):
    before = run.log.path.read_bytes()
    file = run.log.path.open("ab", buffering=0)
    with monkeypatch.context() as patch:
        patch.setattr(type(run.log.path), "open", lambda *args, **kwargs: TornFile(file, 5))
        with pytest.raises(OSError, match="No space"):
            run.log.append({"step": 3})
    assert run.log.path.read_bytes() == before
    run.log.append({"step": 4})
    assert [line["step"] for line in run.log.entries()] == [0, 1, 2, 4]


@pytest.mark.parametrize(
    "torn", [b'{"step": 3, "lo{"step": 4}\n', b'{"st', b"\xff\xfe\n", b'"step"}\n', b"[3}\n", b"{}\n"]
)
def test_torn_lines_are_skipped(run, torn):
    with run.log.path.open("ab") as file:
        file.write(torn)
    assert [line["step"] for line in run.log.entries()] == [0, 1, 2]
    run.log.cut(1)
    assert [json.loads(line)["step"] for line in run.log.path.read_text().splitlines()] == [0, 1]


def test_a_run_with_a_torn_log_is_resumed_and_reported(training, finished, copy):
    with copy.log.path.open("ab") as file:
        file.write(b'{"step": 30, "lo{"step": 31, "loss": 0.5}\n')
    training.resume(copy.path)
    assert copy.ply_path(60).read_bytes() == finished.ply_path(60).read_bytes()
