"""--write-skipped and --only: a second run executes the tests that the first one skipped, also with pytest-xdist."""

import sys

import pytest

from tests.subprocesses import environment, finished

MODULE = """
import os
import pytest

if not os.environ.get("EXTRA"):
    pytest.skip("no extra", allow_module_level=True)

def test_of_a_skipped_module():
    pass
"""
TESTS = """
import os
import pytest

needs_extra = pytest.mark.skipif(not os.environ.get("EXTRA"), reason="no extra")

def test_that_runs():
    assert not os.environ.get("EXTRA")

@needs_extra
@pytest.mark.parametrize("value", ["a", "b"])
def test_that_needs_the_extra(value):
    pass
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_second_run_executes_what_the_first_skipped(tmp_path, workers):
    (tmp_path / "test_module.py").write_text(MODULE)
    (tmp_path / "test_tests.py").write_text(TESTS)

    def run(*options, **variables):
        command = (sys.executable, "-m", "pytest", "-p", "tests.conftest", "-n", workers, *options)
        done = finished(
            [*command, "-c", "/dev/null", "--rootdir", tmp_path, "."], cwd=tmp_path, env=environment(**variables)
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()[-1]

    assert "1 passed, 3 skipped" in run("--write-skipped=skipped")
    assert len((tmp_path / "skipped").read_text().splitlines()) == 3
    assert "3 passed" in run("--only=skipped", EXTRA="1")
