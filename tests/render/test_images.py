"""Names and files of pictures."""

import unicodedata
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from splat_cli.render.images import png_names, save_animation, save_png
from splat_cli.render.output.frame_files import FrameFiles

NAMES = ("a.jpg", "depth/a.jpg", "Normal/a.jpg")


def test_names_follow_the_photographs():
    assert png_names(["a.JPG", "sub/b.png"]) == [PurePosixPath("a.png"), PurePosixPath("sub/b.png")]


def test_names_that_would_collide_are_numbered():
    """Also on file systems that ignore case."""
    names = png_names(["a.jpg", "A.png", "b.jpg"])
    assert len({str(name).lower() for name in names}) == 3
    names = png_names(["\u00fc.jpg", "u\u0308.jpg"])  # one name for macOS
    assert len({unicodedata.normalize("NFC", str(name)) for name in names}) == 2


def test_pictures_do_not_replace_maps_of_others():
    """Maps of a.jpg lie in folders like that of the second photograph."""
    files = FrameFiles(frozenset({"depth", "normal"}))
    folder = Path("out")
    pictures = png_names(NAMES, files.maps)
    paths = [path for picture in pictures for path in files.paths(folder / picture, folder).values()]
    assert len(set(paths)) == 9
    assert png_names(NAMES) == [PurePosixPath(name).with_suffix(".png") for name in NAMES]


def test_names_cannot_leave_the_folder():
    for name in png_names(["../../etc/x.jpg", "/abs/y.jpg", "..", "", "./z.jpg"]):
        assert not name.is_absolute()
        assert ".." not in name.parts
        assert name.suffix == ".png"


def test_png_has_the_same_pixels(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    save_png(tmp_path / "new" / "a.png", pixels)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.png"]
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "new" / "a.png")), pixels)


def test_animation_has_all_frames(tmp_path):
    frames = [np.full((8, 8, 3), 40 * i, np.uint8) for i in range(5)]
    save_animation(tmp_path / "a.webp", frames, 10)
    with Image.open(tmp_path / "a.webp") as animation:
        assert animation.n_frames == 5
