"""`--json`: one object on standard output, on success and on failure."""

import json

from splat_cli.run.storage.run_dir import RunDir


def test_every_command_prints_its_result(splat, scene, run_copy):
    commands = {
        "train": (["train", scene, "--steps", 2, "--device", "cpu"], {"run", "ply", "steps", "num_splats", "seconds"}),
        "render": (["render", run_copy, "--device", "cpu"], {"pictures"}),
        "export": (["export", run_copy, "out.ply"], {"file", "num_splats", "sh_degree", "bytes"}),
        "eval": (["eval", run_copy, "--device", "cpu"], {"step", "psnr", "ssim", "per_image", "protocol"}),
        "info": (["info", run_copy], {"run", "scene", "settings"}),
    }
    for name, (arguments, keys) in commands.items():
        result = splat(*arguments, "--json")
        assert result.code == 0, result.err
        assert result.out.count("\n") == 1, name
        assert keys <= json.loads(result.out).keys(), name


def test_error_is_printed_as_json(splat):
    result = splat("--json", "info", "nowhere")
    assert result.code == 2
    message = "nowhere does not exist; name a scene, the folder of a run or a file of splats"
    assert json.loads(result.out) == {"error": message, "exit_code": 2}
    assert result.err == f"Error: {message}\n"


def test_result_of_training_is_saved_in_the_run(splat, scene, tmp_path):
    result = splat("train", scene, "--steps", 2, "--device", "cpu", "-o", tmp_path / "run", "--json")
    assert RunDir(tmp_path / "run").result() == json.loads(result.out)
