"""`splat train --cluster`: the reaction to the end of rank 0, and the lines shown from its log."""

import io
import json
from pathlib import Path

import pytest

from splat_cli.commands.cluster_training import _check, _Log
from splat_cli.engine.job import Job, JobResult
from splat_cli.errors import SplatError, UsageError
from splat_cli.ranks.protocol import FailedRankError, RankError
from splat_cli.terminal.console import Display, Level


def _ended(code, output):
    return JobResult(Job("job", (), Path(), Path("log")), code, 1.0, "somewhere", output, "Killed")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1, FailedRankError),
        (2, UsageError),
        (75, RankError),
        (143, RankError),
    ],
)
def test_exit_code_of_rank_0_tells_whether_to_restart(code, kind):
    with pytest.raises(SplatError, match="reason|closes") as raised:
        _check(_ended(code, json.dumps({"error": "reason", "exit_code": code})))
    assert type(raised.value) is kind


def test_killed_rank_0_is_started_again():
    with pytest.raises(RankError, match=r"ended with -9 \(killed, as .* memory runs out\), see log") as raised:
        _check(_ended(-9, ""))
    assert not isinstance(raised.value, FailedRankError)


def test_a_folder_that_cannot_be_made_is_reported_before_workers_are_asked(splat, scene, tmp_path):
    (tmp_path / "file").write_text("a")
    out = tmp_path / "file" / "run"
    result = splat("train", scene, "-o", out, "--cluster", "local:1", "--device", "cpu", "--steps", 2)
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert "is a file; name another folder" in result.err


def test_result_is_not_an_error():
    _check(_ended(0, '{"steps": 3}'))


@pytest.mark.parametrize("level", [Level.NORMAL, Level.QUIET])
def test_log_is_shown_line_by_line(tmp_path, level):
    path, stream = tmp_path / "log", io.StringIO()
    path.write_text("of an earlier session\n")
    log = _Log(path, Display(stream, level))
    for text in ("Scene: it\nWarn", "ing: few updates\nstep 1/2", "\nError: told at the end\n"):
        with path.open("a") as file:
            file.write(text)
        log.show()
    shown = stream.getvalue().splitlines()
    quiet = ["Warning: few updates"]
    assert shown == (quiet if level == Level.QUIET else ["Scene: it", *quiet, "step 1/2"])
