"""`scripts/bench/bench_kernels.py stages` on a small run, and scripts/figures/draw_stages.py on its result."""

import json
import xml.etree.ElementTree

import bench_kernels
import stage_passes
from blend_stages import STAGES
from click.testing import CliRunner
from draw_stages import stages_svg


def test_command_and_chart(trained, tmp_path):
    """One row per stage in the table and in the JSON file; the chart has a bar per stage and the source's five bars."""
    options = ["stages", str(trained), "--views", "1", "--device", "cpu", "--json", str(tmp_path / "stages.json")]
    done = CliRunner().invoke(bench_kernels.main, options, catch_exceptions=False)
    results = json.loads((tmp_path / "stages.json").read_text())
    stages = results["runs"][0]["stages"]
    assert [stage["name"] for stage in stages] == [stage.name for stage in STAGES if not stage.cuda_only]
    assert all(f"| {stage['name']} | {stage['ms']:.3f} |" in done.output for stage in stages)
    assert all(stage["difference"] < 1e-3 for stage in stages)
    svg = xml.etree.ElementTree.fromstring(stages_svg(results))
    bars = svg.findall("{http://www.w3.org/2000/svg}rect")
    assert len(bars) == 1 + 2 + len(stages) + 5  # paper, legend


def test_once_for_a_profiler(trained, monkeypatch):
    launched = []
    real = stage_passes._gradients

    def gradients(raster, state, stage):
        launched.append(stage.name)
        return real(raster, state, stage)

    monkeypatch.setattr(stage_passes, "_gradients", gradients)
    CliRunner().invoke(
        bench_kernels.main, ["stages", str(trained), "--once", "--device", "cpu"], catch_exceptions=False
    )
    assert launched == [stage.name for stage in STAGES if not stage.cuda_only]
