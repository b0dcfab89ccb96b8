"""Files, headings and options that README and docs/ mention exist."""

import functools
import re
import tomllib
from pathlib import Path

import click
import pytest

from splat_cli import __version__
from splat_cli.cli.main import splat

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
OTHER_PROGRAMS = (
    "npm ",
    "pip ",
    "pytest ",
    "apt ",
    "tensorboard ",
    "docker ",
    "pre-commit ",
    "ruff ",
    "ncu ",
    "#SBATCH ",
    "dask ",
    "tls=",  # options of dask in a variable
    "munged ",
    "job_extra",
    "worker_extra",
)

DESIGN_PAGES = "architecture", "checkpoints", "kernel_list", "kernels", "method", "python", "ranks", "training_loop"
DESIGN = [ROOT / "docs" / f"{name}.md" for name in DESIGN_PAGES]
OF_OTHERS = {"scale_modifier", "prefiltered"}  # switches of another rasterizer
OPTIONS_OF_DASK = {"--dashboard-address", "--no-dashboard"}

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


@pages
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    assert [link for link in links if not _leads_somewhere(page, link)] == []


@pages
def test_tables_end_with_an_empty_line(page):
    """Otherwise the paragraph behind one is its last row."""
    assert re.findall(r"^\|.*\n(?!\||\n).+", page.read_text(), re.MULTILINE) == []


@pages
def test_options_exist(page):
    text = page.read_text()
    declared = {
        f"--{name.replace('_', '-')}" for name in re.findall(r"^\+ +(\w+): \w+ = setting\(", text, re.MULTILINE)
    }
    unknown = [(option, code) for code in _pieces(text) for option in _unknown_options(code)]
    assert [f"{option} in {code!r}" for option, code in unknown if option not in declared] == []


@pytest.mark.parametrize("text", ["`splat info --steps`", "`--magic`", "```\nsplat info x --magic\n```"])
def test_stale_options_are_noticed(text):
    assert any(_unknown_options(code) for code in _pieces(text))


@pytest.mark.parametrize("link", ["docs/nowhere.md", "docs/kernels.md#nowhere", "#nowhere"])
def test_broken_links_are_noticed(link):
    assert not _leads_somewhere(ROOT / "README.md", link)


def test_the_address_of_the_project_is_the_same_everywhere():
    address = _project()["urls"]["Repository"]
    assert f"git clone {address} && cd {address.rpartition('/')[2]}\n" in (ROOT / "README.md").read_text()
    assert all(url.startswith(address) for url in _project()["urls"].values())


def test_the_citation_has_the_version():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_continuous_integration_types_the_readme_and_installs_every_extra():
    """It skips browsers and PyTorch, and installs nvrtc instead of the CUDA extras."""
    script = (ROOT / ".ci" / "run").read_text()
    (pattern,) = re.findall(r"grep '(\^.+)' README\.md", script)
    endings = [
        line.split("&& ")[-1] for line in re.findall(f"{pattern}.*", (ROOT / "README.md").read_text(), re.MULTILINE)
    ]
    assert endings == ["splat demo", "pytest -n auto"]
    (installed,) = re.findall(r'-e "\.\[(.+)\]"', script)
    assert set(installed.split(",")) == _project()["optional-dependencies"].keys() - {
        "all",
        "cuda12",
        "cuda13",
        "sfm-cuda",
        "browser",
        "lpips",
    }


def test_every_kernel_is_explained():
    """docs/kernel_list.md lists each kernel with its file and the work of a thread, and no deleted kernels."""
    folder = ROOT / "cuda_src"
    kernel = re.compile(r"__global__ void (?:__launch_bounds__\(.*\) )?(\w+)\($", re.MULTILINE)
    files = {
        name: path.relative_to(folder).as_posix()
        for path in folder.rglob("*.cu")
        for name in kernel.findall(path.read_text())
    }
    page = (ROOT / "docs" / "kernel_list.md").read_text()
    launches = re.findall(r"^\| launch .*\n\|.*\n((?:\|.*\n)+)", page, re.MULTILINE)
    rows = [row.split(" | ") for table in launches for row in table.splitlines()]
    named = [re.findall(r"`(\w+)`", row[0]) for row in rows]
    assert {"project", "adam_flat", "knn"} <= {name for names in named for name in names}  # one of each table
    assert files.keys() - set(re.findall(r"`(\w+)`", page)) == set()
    stated = [set(re.findall(r"`(\S+\.cu)`", row[-1])) for row in rows]
    assert stated == [{files.get(name, f"no kernel {name}") for name in names} for names in named]


def test_kernel_files_name_their_launch_and_their_reference():
    """Each .cu file names the module that launches its kernels, and its version in plain NumPy if there is one."""
    pattern = re.compile(r"^// Launched by (\S+\.py)\.(?: The same in plain NumPy: (\S+\.py)\.)?$", re.MULTILINE)
    for path in (ROOT / "cuda_src").rglob("*.cu"):
        [(launched_by, reference)] = pattern.findall(path.read_text())
        unit = path.relative_to(ROOT / "cuda_src").with_suffix("").as_posix()
        assert f'"{unit}"' in (ROOT / launched_by).read_text(), path
        assert not reference or (ROOT / reference).exists(), path


@pytest.mark.parametrize("page", [ROOT / "README.md", *DESIGN], ids=lambda page: page.name)
def test_files_and_names_exist(page):
    """Paths in spans of code exist, and names in them occur in the code."""
    files, words = _code()
    spans = set(
        re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL))
    )
    paths = {span for span in spans if re.fullmatch(r"[\w/]+\.(py|cuh?|h)", span)}
    names = {
        span for span in spans if re.fullmatch(r"[A-Za-z]\w*_\w+|[A-Z][a-z]+[A-Z]\w+|[A-Z]\w+\.\w+", span)
    } - OF_OTHERS
    missing = [path for path in paths if not any(f"/{file}".endswith(f"/{path}") for file in files)]
    if page in DESIGN:
        missing += [name for name in names if not set(re.findall(r"[A-Za-z]\w*", name)) <= words]
    assert sorted(missing) == []


@pytest.mark.parametrize("page", DESIGN, ids=lambda page: page.name)
def test_kernel_files_of_examples_exist(page):
    files = re.findall(r'\bkernel\("([^"]+)"', page.read_text())
    assert [file for file in files if not any((ROOT / "cuda_src").glob(f"{file}.cu"))] == []


@functools.cache
def _project():
    """The table [project] of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@functools.cache
def _code():
    """Paths of the source files, and all words in these files."""
    folders = "splat_cli", "cuda_src", "scripts", "tests"
    paths = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".py", ".cu", ".cuh", ".h")
    ]
    text = "\n".join(path.read_text() for path in paths)
    return [path.relative_to(ROOT).as_posix() for path in paths], set(re.findall(r"[A-Za-z]\w*", text))


def _leads_somewhere(page, link):
    """Whether the linked file and its heading exist. Addresses on the network are not checked."""
    if re.match(r"[a-z]+:", link):
        return True
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    return target.exists() and (not anchor or anchor in _anchors(target))


def _anchors(page):
    """The anchors that GitHub creates for a page's headings."""
    headings = re.findall(r"^#+ +(.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _pieces(text):
    """The lines of code blocks, the spans of code in the text, and the remaining text."""
    blocks = re.findall(r"^```.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`]+)`", rest)
    return [line for block in blocks for line in block.splitlines()] + spans + [re.sub(r"`[^`]+`", "", rest)]


def _unknown_options(code):
    """The options in a piece of code that no script or command has, or that the named command does not have."""
    code = code.removeprefix("$ ")
    if code.startswith(OTHER_PROGRAMS):
        return []
    if script := re.search(r"scripts/[\w/]+\.py", code):
        known = set(OPTION.findall((ROOT / script[0]).read_text() + (ROOT / "tests" / "conftest.py").read_text()))
    elif (named := re.match(r"(?:\S*/)?splat ([a-z]+)", code)) and named[1] in _options():
        known = _options()[named[1]]
    else:
        known = set().union(*_options().values())
    return [option for option in OPTION.findall(code) if option not in known | OPTIONS_OF_DASK]


@functools.cache
def _options():
    """Command -> its options and those of the whole program."""
    context = click.Context(splat)
    shared = {"--help", "--version", *_names(splat)}
    return {name: _names(splat.get_command(context, name)) | shared for name in splat.list_commands(context)}


def _names(command):
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
