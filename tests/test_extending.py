"""docs/extending.md: in a copy of the program, the code of each section does what the page says."""

import json
import os
import re
import shutil
import sys

import pytest

from splat_cli.config import SETTINGS
from splat_cli.density import STRATEGIES
from splat_cli.run.checkpoints.file import read_checkpoint
from tests.documented import ROOT
from tests.subprocesses import finished

PAGE = (ROOT / "docs" / "extending.md").read_text()
BLOCK = re.compile(r"^(?:`([\w./]+)`:\n\n)?```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILES = {"A density strategy": 3, "A loss term": 4, "A camera model": 5, "A format of splats": 2}

FAST = ("--device", "cpu", "--init", "points", "--no-report")


def blocks(title):
    """(file or empty, language, code) of each code block of a section."""
    return BLOCK.findall(PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0])


def apply(blocks, root):
    """Writes and changes the files that the blocks name."""
    for name, language, code in blocks:
        path = root / name
        if name and language == "diff":
            lines = [(line[:1], line[1:]) for line in code.splitlines()]
            before = "\n".join(text for mark, text in lines if mark != "+") + "\n"
            after = "\n".join(text for mark, text in lines if mark != "-") + "\n"
            content = path.read_text()
            assert content.count(before) == 1, f"docs/extending.md: {name} does not hold once:\n{before}"
            path.write_text(content.replace(before, after))
        elif name:
            assert not path.exists()
            path.write_text(code)


def run(root, cwd, *arguments):
    """A Python process that imports the copy."""
    done = finished([sys.executable, *arguments], cwd=cwd, env=os.environ | {"PYTHONPATH": str(root)})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(params=FILES)
def section(request, tmp_path, scene, trained):
    """(title, copy of the program with its code, folder with the scene and the run that its commands name)."""
    for folder in ("splat_cli", "cuda_src", "configs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    found = blocks(request.param)
    apply(found, tmp_path)
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    shutil.copytree(scene, cwd / "room")
    shutil.copytree(trained, cwd / "runs" / "room")
    assert len({name for name, _, _ in found if name}) == FILES[request.param]
    return request.param, tmp_path, cwd


def test_the_steps_of_the_page_work(section):
    title, root, cwd = section
    checks = [(language, code) for name, language, code in blocks(title) if not name]
    for language, code in checks:
        if language == "python":
            run(root, cwd, "-c", code)
        for line in code.splitlines() if language == "sh" else ():
            said = run(root, cwd, "-m", "splat_cli", *line.split()[1:], *(FAST if " train " in line else ()))
    if title == "A density strategy":  # the scene has fewer points
        assert json.loads((cwd / "runs" / "largest" / "result.json").read_text())["num_splats"] > 400
    elif title == "A loss term":
        means = read_checkpoint(cwd / "runs" / "ensemble" / "checkpoints" / "step_60.npz").arrays["ensemble"]
        assert means.shape == (9, 3 * 40 * 30)
        assert 0 < means.mean() < 1
    elif title == "A format of splats":
        assert re.search(r"^splats +[23]\d\d$", said, re.MULTILINE)


def test_code_of_the_page_is_typed(tmp_path):
    """All sections are applied together; they do not conflict."""
    mypy = pytest.importorskip("mypy.api", reason="types are checked with mypy (extra dev)")
    for folder in ("splat_cli", "cuda_src"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for title in FILES:
        apply(blocks(title), tmp_path)
    new = {str(tmp_path / name) for title in FILES for name, language, _ in blocks(title) if name.endswith(".py")}
    said = mypy.run(["--config-file", str(tmp_path / "pyproject.toml"), *sorted(new)])
    assert "Success" in said[0], said[0]


def test_the_table_has_every_strategy_that_the_setting_takes():
    choices = {name for name in SETTINGS["strategy"].choices if name != "default"}
    assert choices == STRATEGIES.keys(), "a strategy is a row in density/__init__.py and a choice in config/density.py"
