"""The most frequent errors and their messages. `python -m tests.error_cases > docs/errors.md`."""

import contextlib
import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from splat_cli.cli.main import run
from tests.scene.transforms_files import frame_entry, write_blender, write_transforms
from tests.small_scene import write_small_scene
from tests.views import ring_of_views

HEAD = """# Errors

A command that fails prints one line: the file or option, what is wrong, what was expected, what to do. Photographs,
masks and points that cannot be used do not end training: they are left out and listed.

| exit code | meaning |
| --- | --- |
| 0 | success |
| 1 | failure: memory, disk, device, or a defect of the program |
| 2 | invalid usage or input |
| 75 | with `--gpus`, a process was lost and restarts did not help; continue with `--resume` |
| 130, 143, 129 | interrupted by Ctrl-C, by SIGTERM, by a closed terminal |

If the address space is limited (`ulimit -v`, as in some batch systems), splat uses one arena of the C library. The
smallest scenes then train within 250 MiB on 2 cores. With still less, OpenBLAS ends the process with its own message
and exit code 1.

`--debug` adds the traceback. On a GPU it also waits after every kernel launch and names the kernel that failed, with
its grid and the shapes of its arguments. This turns the CUDA graph off and is slow.

Damaged files are read up to the damage, or refused. `python -m tests.fuzz` mutates files of 50 kinds. 54,800 mutated
files of 30 kinds each gave a result, or one line with exit code 2. Memory stayed under 64 MiB plus four times the
file's length. The slowest file took 2.9 s.

`python -m tests.error_cases` prints the messages below; a test compares them. `SCENE` stands for the scene's folder.
"""


@dataclass(frozen=True)
class Case:
    title: str
    prepare: Callable[[Path], Path]
    """Fills a folder; returns the scene."""
    options: tuple[str, ...] = ()


def _colmap(change: Callable[[Path], object] = lambda scene: None, **more) -> Callable[[Path], Path]:
    def prepare(folder: Path) -> Path:
        scene = write_small_scene(folder / "scene", **more)
        change(scene)
        return scene

    return prepare


def _transforms(change: Callable[[dict], object]) -> Callable[[Path], Path]:
    def prepare(folder: Path) -> Path:
        scene = write_transforms(folder / "scene", ring_of_views(3))
        document = json.loads((scene / "transforms.json").read_text())
        change(document)
        (scene / "transforms.json").write_text(json.dumps(document))
        return scene

    return prepare


def _empty_folder(folder: Path) -> Path:
    (folder / "scene").mkdir()
    return folder / "scene"


def _truncate(name: str, size: int) -> Callable[[Path], object]:
    return lambda scene: (scene / name).write_bytes((scene / name).read_bytes()[:size])


def _break_photographs(scene: Path) -> None:
    for path in (scene / "images").iterdir():
        path.write_bytes(path.read_bytes()[:300])


def _wrong_photographs(scene: Path) -> None:
    for path in (scene / "images").iterdir():
        Image.new("RGB", (30, 40)).save(path)


def _zip_bomb(scene: Path) -> None:
    shutil.rmtree(scene / "sparse")
    with zipfile.ZipFile(scene / "model.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cameras.bin", bytes(50_000_000))


def _small_images_2(scene: Path) -> None:
    (scene / "images_2").mkdir()
    for path in (scene / "images").iterdir():
        Image.open(path).resize((12, 9)).save(scene / "images_2" / path.name)


def _unregistered(scene: Path) -> None:
    (scene / "unregistered.txt").write_text("".join(f"b_{number:02d}.jpg\n" for number in range(20)))


def _misnamed_masks(scene: Path) -> None:
    (scene / "cutouts").mkdir()
    (scene / "cutouts" / "mask_1.png").touch()


def _black_masks(scene: Path) -> None:
    (scene / "masks").mkdir()
    for view in ring_of_views(9):
        Image.fromarray(np.zeros((30, 40), np.uint8)).save(scene / "masks" / f"{view.name}.png")


def _invisible_photographs(folder: Path) -> Path:
    scene = write_blender(folder / "scene")
    for path in scene.glob("*/*.png"):
        Image.new("RGBA", (20, 20)).save(path)
    return scene


def _no_training_frames(folder: Path) -> Path:
    scene = write_blender(folder / "scene")
    (scene / "transforms_train.json").unlink()
    return scene


def _names(scene: Path) -> None:
    (scene / "names.txt").write_text("nowhere.jpg\n")


CASES = (
    Case("A folder that does not exist", lambda folder: folder / "scene"),
    Case("No dataset in the folder", _empty_folder),
    Case("Half a model", _colmap(lambda scene: (scene / "sparse/0/points3D.bin").unlink())),
    Case("A truncated model", _colmap(_truncate("sparse/0/images.bin", 200))),
    Case(
        "A count that the file has no room for",
        _colmap(lambda scene: (scene / "sparse/0/points3D.bin").write_bytes(b"\xff" * 6 + b"\0\0" + bytes(40))),
    ),
    Case("No folder of photographs", _colmap(lambda scene: (scene / "images").rename(scene / "photos"))),
    Case("Photographs all missing", _colmap(lambda scene: [path.unlink() for path in (scene / "images").iterdir()])),
    Case("Photographs of another camera", _colmap(_wrong_photographs)),
    Case("Photographs cut short", _colmap(_break_photographs)),
    Case("images_2 of another size", _colmap(_small_images_2), ("--downscale", "2")),
    Case("Camera poses that look wrong", _colmap(_unregistered)),
    Case("Masks that leave nothing", _colmap(_black_masks)),
    Case("Masks with other names", _colmap(_misnamed_masks), ("--masks", "SCENE/cutouts")),
    Case("No folder of masks", _colmap(), ("--masks", "SCENE/cutouts")),
    Case("A zip file that would fill the disk", _colmap(_zip_bomb)),
    Case("transforms.json without frames", _transforms(lambda document: document.clear())),
    Case("transforms.json without a focal length", _transforms(lambda document: document.update(fl_x=None, fl_y=None))),
    Case(
        "A point cloud outside the scene", _transforms(lambda document: document.update(ply_file_path="../cloud.ply"))
    ),
    Case("A point cloud that is missing", _transforms(lambda document: document.update(ply_file_path="cloud.ply"))),
    Case(
        "A frame's file outside the scene",
        _transforms(
            lambda document: document.update(frames=[frame_entry(ring_of_views(1)[0]) | {"file_path": "/etc/hostname"}])
        ),
    ),
    Case(
        "Transparent photographs on a random background",
        lambda folder: write_blender(folder / "scene"),
        ("--background", "random"),
    ),
    Case("Photographs that are wholly transparent", _invisible_photographs),
    Case("A Blender scene without its training photographs' poses", _no_training_frames),
    Case("A split that names none of the photographs", _colmap(_names), ("--eval", "--split", "SCENE/names.txt")),
    Case("Too few photographs to hold one out", _colmap(num_views=1), ("--eval",)),
    Case("A crop that leaves no point", _colmap(), ("--crop", "9,9,9,1", "--crop-start")),
    Case("An invalid crop", _colmap(), ("--crop", "1,2,3")),
)


def message_of(case: Case, folder: Path) -> str:
    """The message of `splat train`, with the scene's folder as SCENE. AssertionError unless it is one line."""
    scene = case.prepare(folder)
    options = [option.replace("SCENE", str(scene)) for option in case.options]
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed):
        code = run(["train", str(scene), "-o", str(folder / "run"), "--device", "cpu", "--steps", "2", *options])
    message = printed.getvalue()
    assert code == 2, f"{case.title}: exit code {code}: {message}"
    assert message.count("\n") == 1, f"{case.title}: {message}"
    return message.strip().replace(str(scene), "SCENE")


def errors_page() -> str:
    """Content of docs/errors.md."""
    parts = [HEAD]
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            options = " ".join(("", *case.options))
            parts.append(
                f"## {case.title}\n\n```\n$ splat train SCENE{options}\n{message_of(case, Path(folder))}\n```\n"
            )
    return "\n".join(parts)


if __name__ == "__main__":
    print(errors_page(), end="")
