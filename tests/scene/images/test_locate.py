"""Location of photographs and masks, and their sizes."""

import unicodedata
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image as Picture

from splat_cli.errors import SceneError
from splat_cli.scene import SceneOptions, read_scene
from splat_cli.scene.dataset import Unusable
from splat_cli.scene.images.locate import DepthLocator, ImageIndex
from tests.scene.models import small_model, write_scene


def smaller_photographs(root, size=(20, 15), folder="images_2"):
    (root / folder).mkdir()
    for path in (root / "images").iterdir():
        Picture.open(path).resize(size).save(root / folder / path.name)


def test_existing_smaller_photographs_are_used(tmp_path):
    write_scene(tmp_path, small_model())
    smaller_photographs(tmp_path)
    view = read_scene(tmp_path, SceneOptions(downscale=2)).views[0]
    assert view.path.parent.name == "images_2"
    assert (view.width, view.height, view.fx, view.cx) == (20, 15, 17.5, 10.5)
    assert read_scene(tmp_path, SceneOptions(downscale=4)).views[0].path.parent.name == "images"
    assert read_scene(tmp_path).views[0].path.parent.name == "images"
    view = read_scene(tmp_path, SceneOptions(downscale=2, images="images")).views[0]
    assert (view.path.parent.name, view.width) == ("images", 20)


def test_smaller_photographs_of_the_wrong_size(tmp_path):
    write_scene(tmp_path, small_model())
    smaller_photographs(tmp_path, size=(12, 9))
    with pytest.raises(SceneError, match=r"images_2/a\.png is 12 pixels wide, not 1/2 .*--images images"):
        read_scene(tmp_path, SceneOptions(downscale=2))


def masks(root, *names, folder="masks"):
    (root / folder).mkdir()
    for name in names:
        (root / folder / name).parent.mkdir(exist_ok=True, parents=True)
        Picture.new("L", (40, 30), 255).save(root / folder / name)


def test_masks_by_either_name(tmp_path):
    write_scene(tmp_path, small_model(("a.png", "sub/b.png", "c.png")))
    masks(tmp_path, "a.png.png", "a.png", "sub/b.png")
    found = [view.mask for view in read_scene(tmp_path).views]
    assert found == [tmp_path / "masks" / "a.png.png", None, tmp_path / "masks" / "sub" / "b.png"]
    assert [view.mask for view in read_scene(tmp_path, SceneOptions(masks="none")).views] == [None] * 3


COMPOSED, APART = (unicodedata.normalize(form, "\u00fc.png") for form in ("NFC", "NFD"))


@pytest.mark.parametrize(
    ("photographs", "files", "found", "unread"),
    [
        ((COMPOSED, "b.png"), (APART, "b.png"), (APART, "b.png"), ()),  # as macOS and Linux write the same name
        ((APART, "b.png"), (f"{COMPOSED}.png",), (f"{COMPOSED}.png", None), ()),
        (("A.png", "b.png"), ("a.PNG", "b.png"), ("a.PNG", "b.png"), ()),
        (("A.png", "a.png"), ("a.png",), (None, "a.png"), ()),
        (("a.png", "b.png"), ("b.png", "a_mask.png", "._c.png"), (None, "b.png"), ("a_mask.png",)),
        (("a.png", "b.png"), ("a.png", "b.png", "extra.png"), ("a.png", "b.png"), ()),
        (("a.ppm", "b.png"), ("a.png",), ("a.png", None), ()),  # a suffix that only datasets name
        (("sub/a.png", "b.png"), ("b.png", "other/a.png"), (None, "b.png"), ("other/a.png",)),
    ],
)
@pytest.mark.parametrize("kind", ["masks", "depths"])
def test_files_of_photographs_by_names_that_look_alike(tmp_path, kind, photographs, files, found, unread):
    """A photograph was trained on without its mask if the accents in their names were encoded in other ways."""
    write_scene(tmp_path, small_model(photographs))
    masks(tmp_path, *files, folder=kind)
    scene = read_scene(tmp_path)
    there = [view.mask if kind == "masks" else view.depth and view.depth.path for view in scene.views]
    folder = tmp_path / kind
    assert dict(zip((view.name for view in scene.views), there, strict=True)) == dict(
        zip(photographs, (name and folder / name for name in found), strict=True)
    )
    named = "".join(f" (not read: {folder / name})" for name in unread)
    assert scene.found.removesuffix(named) == f"the COLMAP model in {tmp_path / 'sparse' / '0'}"


@pytest.mark.parametrize(("named", "file"), [(COMPOSED, APART), (APART, COMPOSED)])
def test_photographs_by_names_that_look_alike(tmp_path, named, file):
    write_scene(tmp_path, small_model((named, "b.png")))
    (tmp_path / "images" / named).rename(tmp_path / "images" / file)
    assert {view.path.name for view in read_scene(tmp_path).views} == {file, "b.png"}


def test_masks_elsewhere(tmp_path):
    write_scene(tmp_path, small_model())
    masks(tmp_path, "a.png", folder="other")
    assert read_scene(tmp_path).views[0].mask is None
    assert read_scene(tmp_path, SceneOptions(masks="other")).views[0].mask is not None
    assert read_scene(tmp_path, SceneOptions(masks=tmp_path / "other")).views[0].mask is not None
    with pytest.raises(SceneError, match="--masks DIR"):
        read_scene(tmp_path, SceneOptions(masks="nowhere"))


@pytest.mark.parametrize("depths", [".", "/"])
def test_depth_maps_may_be_in_a_folder_without_a_name(monkeypatch, tmp_path, depths):
    """Confidences are searched beside it."""
    write_scene(tmp_path, small_model())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("splat_cli.scene.images.locate.ImageIndex._files", [])  # not all files of the system
    locator = DepthLocator(Path(), [Path()], depths)
    (tmp_path / "a.png").touch()
    found = locator.find(SimpleNamespace(file="a.jpg", depth=None))
    assert (found and found.path) == (Path("a.png") if depths == "." else None)


def test_missing_format_is_named(tmp_path):
    write_scene(tmp_path, small_model())
    with pytest.raises(SceneError, match=r"transforms\.json cannot be read"):
        read_scene(tmp_path, SceneOptions(format="transforms"))


@pytest.mark.parametrize(
    ("files", "label", "found"),
    [
        (["IMG_1.jpg", "IMG_1.png"], "IMG_1.JPG", "IMG_1.jpg"),
        (["a.jpg", "a.jpg.png"], "a.jpg", "a.jpg"),
        (["a.jpg", "a.jpg.png"], "A.JPG", "a.jpg"),
        (["b/a.jpg", "a.jpg.png"], "a.jpg", "b/a.jpg"),
        (["a.JPG", "a.jpg"], "a.jpg", "a.jpg"),
        (["a.jpg", "a.png"], "a.tif", None),
    ],
)
def test_a_label_is_the_photograph_of_the_same_whole_name(tmp_path, files, label, found):
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    if found:
        assert ImageIndex(tmp_path).find_label(label) == found
    else:
        with pytest.raises(Unusable, match="several photographs have this name"):
            ImageIndex(tmp_path).find_label(label)


def test_empty_folder(tmp_path):
    with pytest.raises(SceneError, match=r"has neither photographs nor camera poses.*sparse/0.*docs/input\.md"):
        read_scene(tmp_path)
