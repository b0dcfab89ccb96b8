"""`splat check`, and its two lines before poses are estimated."""

import json
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image, ImageFilter

from splat_cli.commands import check, photo_checks
from splat_cli.commands.check import _groups, _num_apart, _rough_directions, directions
from splat_cli.commands.photo_checks import _pose_seconds, check_photographs, look, overlap, training_seconds
from splat_cli.config import TrainConfig
from splat_cli.run.device import step_seconds
from splat_cli.run.plan import resolve_plan
from splat_cli.scene.coverage import Gap
from splat_cli.scene.images.decode import COLORS
from splat_cli.scene.lens.distortion import Equirectangular
from splat_cli.scene.photograph import Pair
from splat_cli.scene.sfm.photographs import source_files
from splat_cli.terminal.console import Display
from tests.scene.sfm.exif import camera_exif
from tests.textured_ball import photographs_all_around
from tests.views import ring_of_views
from tests.wide_picture import crops


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    """12 photographs that overlap."""
    folder = tmp_path_factory.mktemp("check") / "photos"
    folder.mkdir()
    crops(folder, 12)
    return folder


def checked(folder):
    found = check_photographs(folder, source_files(folder), Display().counting)
    return {one.topic: one for one in found.findings}


def copied(capture, folder, skip=()):
    folder.mkdir()
    for number, path in enumerate(source_files(capture)):
        if number not in skip:
            (folder / path.name).write_bytes(path.read_bytes())
    return source_files(folder)


def test_a_good_capture_has_no_problem(capture, splat):
    result = splat("check", capture)
    assert result.code == 0, result.err
    assert "!!" not in result.out
    assert "12 photographs; camera poses " in result.out
    assert "directions  " in result.out


def test_blurred_photographs_are_named(capture, tmp_path, splat):
    for path in copied(capture, tmp_path / "photos")[2:5]:
        Image.open(path).filter(ImageFilter.GaussianBlur(2)).save(path)
    result = splat("check", tmp_path / "photos", "--json", "-o", tmp_path / "check.html")
    data = json.loads(result.out)
    (problem,) = [one for one in data["findings"] if not one["ok"]]
    assert problem["topic"] == "blur"
    assert problem["photographs"] == ["a_02.png", "a_03.png", "a_04.png"]
    assert data["num_problems"] == 1
    html = (tmp_path / "check.html").read_text()
    assert html.count("data:image/jpeg") == 3
    assert "3 of 12 blurred: a_02.png; a_03.png; a_04.png" in html


def test_colours_that_are_not_applied_are_named(capture, tmp_path, splat):
    for path in copied(capture, tmp_path / "photos")[:2]:
        Image.open(path).convert("CMYK").save(path.with_suffix(".jpg"))
        path.unlink()
    result = splat("check", tmp_path / "photos", "--json")
    (problem,) = [one for one in json.loads(result.out)["findings"] if not one["ok"]]
    assert problem["topic"] == "colours"
    assert problem["text"].startswith(f"2 of 12 photographs {COLORS.format('CMYK')}")


def test_a_video_says_that_it_is_hdr(capture, tmp_path, splat, monkeypatch):
    def extract(video, images, num_frames, count, say):
        say(f"{video} is HDR: pale")
        images.rmdir()
        copied(capture, images)

    monkeypatch.setattr(check, "extract_frames", extract)
    (tmp_path / "a.mp4").touch()
    result = splat("check", tmp_path / "a.mp4")
    assert f"!!  colours     {tmp_path / 'a.mp4'} is HDR: pale" in result.out, result.err


def test_one_blurred_photograph_is_not_a_problem(capture, tmp_path):
    path = copied(capture, tmp_path / "photos")[2]
    Image.open(path).filter(ImageFilter.GaussianBlur(2)).save(path)
    finding = checked(tmp_path / "photos")["blur"]
    assert finding.ok
    assert finding.photographs == (path.name,)


def test_all_blurred(capture, tmp_path):
    for path in copied(capture, tmp_path / "photos"):
        Image.open(path).filter(ImageFilter.GaussianBlur(3)).save(path)
    assert "all are blurred" in checked(tmp_path / "photos")["blur"].text


def test_files_that_cannot_be_read_and_photographs_in_subfolders(capture, tmp_path):
    paths = copied(capture, tmp_path / "photos")
    paths[0].write_bytes(b"not a picture")
    (tmp_path / "photos" / "more").mkdir()
    Image.open(paths[3]).filter(ImageFilter.GaussianBlur(3)).save(tmp_path / "photos" / "more" / paths[3].name)
    found = checked(tmp_path / "photos")
    assert found["files"].photographs == ("a_00.png",)
    assert not found["files"].ok
    assert found["blur"].photographs == ("more/a_03.png",)


def test_exposures_that_jump(capture, tmp_path):
    pytest.importorskip("pycolmap")
    for path in copied(capture, tmp_path / "photos")[::2]:
        Image.open(path).point(lambda value: value // 2).save(path)
    finding = checked(tmp_path / "photos")["exposure"]
    assert not finding.ok
    assert "jumps by up to 2." in finding.text


@pytest.mark.parametrize(("num_cameras", "ok"), [(4, False), (5, True)])
def test_photographs_of_many_cameras_have_other_exposures(capture, tmp_path, num_cameras, ok):
    """Nobody can take them again: the preset for such collections is named instead."""
    pytest.importorskip("pycolmap")
    for number, path in enumerate(copied(capture, tmp_path / "photos")):
        darker = Image.open(path).point(lambda value, by=1 + number % 2: value // by).convert("RGB")
        darker.save(path.with_suffix(".jpg"), quality=95, exif=camera_exif(f"Phone {number % num_cameras}"))
        path.unlink()
    found = checked(tmp_path / "photos")
    assert found["exposure"].ok == ok
    assert len(found["exposure"].photographs) == 12
    assert (f"among {num_cameras} cameras: train with --preset phototourism" in found["exposure"].text) == ok
    assert found["overlap"].ok


def test_duplicates(capture, tmp_path):
    paths = copied(capture, tmp_path / "photos")
    for path in paths[:4]:
        path.with_name(f"{path.stem}_again.png").write_bytes(path.read_bytes())
    finding = checked(tmp_path / "photos")["duplicates"]
    assert finding.photographs == tuple(f"a_{number:02d}_again.png" for number in range(4))
    assert not finding.ok


def test_two_halves_that_share_nothing(capture, tmp_path):
    pytest.importorskip("pycolmap")
    copied(capture, tmp_path / "photos", skip=range(4, 10))
    finding = checked(tmp_path / "photos")["overlap"]
    assert not finding.ok
    assert set(finding.photographs) >= {"a_10.png", "a_11.png"}


def test_a_third_of_the_circle_is_missing_by_rough_poses(splat, tmp_path, monkeypatch):
    """The copies of photographs are numbered; findings have the names of the photographs."""
    pytest.importorskip("pycolmap")
    found, rough = [], check._rough
    monkeypatch.setattr(check, "_rough", lambda *args: found.append(rough(*args)) or found[-1])
    (tmp_path / "photos" / "walk").mkdir(parents=True)
    for number, picture in enumerate(photographs_all_around(30)):
        if not 10 <= number < 20:
            picture.save(tmp_path / "photos" / "walk" / f"ball {number}.png")
    result = splat("check", tmp_path / "photos", "--json", "-o", tmp_path / "check.html")
    assert result.code == 0, result.err
    data = json.loads(result.out)
    (problem,) = [one for one in data["findings"] if not one["ok"]]
    assert problem["topic"] == "directions"
    assert problem["photographs"] == ["ball 9.png", "ball 20.png"]
    assert 125 < int(problem["text"].split(" of 360 degrees")[0].rsplit(" ", 1)[1]) < 145, "132 by true poses"
    assert found[-1].spread > 0
    assert ["ball 9.png", "ball 20.png"] in [place["between"] for place in data["places"]]
    assert "From above" in (tmp_path / "check.html").read_text()


@pytest.mark.parametrize(
    ("placed", "num_apart", "ok", "text"),
    [
        (44, 20, False, "44 and 20 of 65 fit together only among themselves: add some that connect both groups"),
        (44, 12, True, "unknown, 44 of 65 have a rough pose: run `splat sfm`, then check its scene"),
        (22, 12, True, "unknown, 22 of 65 have a rough pose"),
        (21, 12, False, "only 21 of 65 fit together: take more that overlap by two thirds"),
        (
            65,
            0,
            False,
            "one half of the points gives other poses than the other half (by 3% of the scene's size); take more",
        ),
    ],
)
def test_directions_of_photographs_that_do_not_fit_together(placed, num_apart, ok, text):
    finding = _groups(placed, num_apart, 65, 0.03 if placed == 65 else 0.02)
    assert finding.ok == ok
    assert finding.text.startswith(text)


@pytest.mark.parametrize(
    ("matched", "num_apart"),
    [
        ([], 3),
        ([("a", "d"), ("h", "i")], 2),
        ([("d", "a")], 2),
        ([("a", "h"), ("h", "d")], 0),  # by the other group
        ([("d", "h")], 3),
    ],
)
def test_a_group_that_matches_is_not_apart(matched, num_apart):
    assert _num_apart({"a", "b"}, [{"d", "e", "f"}, {"h", "i"}], matched) == num_apart


ALL, SIDE = ring_of_views(20), ring_of_views(40)[:20]
OPEN = ring_of_views(30)[:20]
OTHER = ring_of_views(20)
"""Rough poses that depend on the points."""
SPHERES = [replace(view, distortion=Equirectangular()) for view in OPEN]


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (SIDE[:16], None, "evenly from 135 of 360 degrees"),
        (SIDE[:14], ALL, "from all around"),
        (SIDE[:14], OPEN, "no photograph from 132 of 360 degrees"),
        (SIDE[:14], SIDE[:15], "15 and 5 of 20 fit together only"),
        (SIDE[:14], [], "only 0 of 20 fit together"),
        ([], SIDE, "evenly from 171 of 360 degrees"),
        (OTHER, SIDE, "evenly from 171 of 360 degrees"),
        (OTHER, OTHER, "one half of the points gives other poses"),
    ],
)
def test_enlarged_copies_decide_if_few_photographs_have_a_rough_pose(monkeypatch, tmp_path, first, second, text):
    """first, second: views with rough poses, from few features and, unless that suffices, from more."""
    looks = iter([(False, first), (True, second)])

    def rough(checked, are_enlarged, counting):
        expected, views = next(looks)
        assert are_enlarged == expected
        spread = 0.021 if views is OTHER else 0.02
        return check._Rough(SimpleNamespace(views=views), 20 - len(views), [], spread) if views else None

    found = photo_checks.Checked(tmp_path, [], [f"{i}" for i in range(20)], [], None, [], 1.0, None, [(0, 1)])
    monkeypatch.setattr(check, "check_photographs", lambda *args: found)
    monkeypatch.setattr(check, "_rough", rough)
    monkeypatch.setattr(check, "helpful_places", lambda scene, num: [])
    (finding,) = check._check_without_poses(tmp_path, [], Display().counting).findings
    assert finding.text.startswith(text)
    assert (next(looks, None) is None) == (second is not None)


@pytest.mark.parametrize(
    ("turned", "num_apart", "num_chained", "num_cameras", "text"),
    [
        (ring_of_views(24)[:16], 3, 15, 1, "no photograph looks at 135 of 360 degrees"),
        (ring_of_views(24)[:15], 3, 16, 1, "unknown, 9 of 20 have a rough pose"),
        (ring_of_views(24)[:15], 3, 15, 4, "only 15 of 20 can be placed one after another (each must show 15 points"),
        (ring_of_views(24)[:15], 3, 15, 5, "unknown, 9 of 20 have a rough pose"),  # nobody can take them again
        (ring_of_views(16), 3, 16, 1, "from all around"),
        (ring_of_views(16), 3, 15, 1, "only 15 of 20 can be placed one after another"),
        (ring_of_views(24)[:16], 4, 15, 1, "9 and 4 of 20 fit together only among themselves"),
    ],
)
def test_rotations_and_chains_decide_where_few_photographs_have_a_pose(
    monkeypatch, tmp_path, turned, num_apart, num_chained, num_cameras, text
):
    """Four fifths of the photographs must have one. All are at one place, so they look outward."""
    names = [f"{i}" for i in range(20)]
    found = photo_checks.Checked(tmp_path, [], names, [], None, [], 1.0, None, [(0, 1)], num_cameras)
    monkeypatch.setattr(check, "check_photographs", lambda *args: found)
    views = [check._turned(ALL[0], view.name, view.w2c[:3, :3]) for view in turned]
    rough = check._Rough(SimpleNamespace(views=SIDE[:9]), num_apart, [], 0.0, views, num_chained)
    monkeypatch.setattr(check, "_rough", lambda *args: rough)
    (finding,) = check._check_without_poses(tmp_path, [], Display().counting).findings
    assert finding.text.startswith(text)


@pytest.mark.parametrize(
    ("views", "pair", "text"),
    [
        (OPEN, (0, 6), "no photograph from 132 of 360 degrees"),  # they look 72 degrees apart
        (OPEN, (0, 8), "a_00.jpg and a_08.jpg show the same, but by rough poses they look over 90 degrees apart; some"),
        (SPHERES, (0, 8), "no photograph from 132 of 360 degrees"),
        (OPEN, (0, 21), "no photograph from 132 of 360 degrees"),  # one has no rough pose
        (ALL, (0, 8), "from all around"),
    ],
)
def test_matches_that_contradict_rough_poses_change_an_alarm(views, pair, text):
    matched = [(OPEN[0].name, OPEN[1].name), tuple(f"a_{number:02d}.jpg" for number in pair)]
    finding = _rough_directions(views, matched)
    assert finding.text.startswith(text)
    assert finding.ok == (views is ALL)


def looked_at(topic, sharpness=(0.2,) * 20, pairs=(), thumbnails=range(0, 2000, 100)):
    """A finding of photographs 0, 1, ...: whether it is ok, and how many it names."""
    photographs = [
        SimpleNamespace(sharpness=one, thumbnail=np.full((16, 16), level, np.float32))
        for one, level in zip(sharpness, thumbnails, strict=True)
    ]
    found = {one.topic: one for one in look(photographs, pairs, [f"{i}" for i in range(len(photographs))])}
    return (found[topic].ok, len(found[topic].photographs)) if topic in found else None


@pytest.mark.parametrize(
    ("num", "sharpness", "num_blurred", "expected"),
    [
        (20, 0.2, 1, (True, 1)),
        (20, 0.2, 2, (False, 2)),
        (100, 0.2, 3, (True, 3)),
        (100, 0.2, 4, (False, 4)),
        (100, 0.2, 73, (False, 73)),
        (20, 0.041, 0, (True, 0)),
        (20, 0.039, 0, (False, 0)),
    ],
)
def test_blur_is_relative_to_sharp_photographs(num, sharpness, num_blurred, expected):
    """At the limit, 0.45 of their sharpness, photographs are not blurred."""
    limit = 0.45 * sharpness
    values = [limit - 1e-3] * num_blurred + [limit + 1e-3] * min(num_blurred, 1)
    values += [sharpness] * (num - len(values))
    assert looked_at("blur", values, thumbnails=range(0, 100 * num, 100)) == expected


def linked(num, rest=20, num_shared=12, **found):
    """`num` pairs with these values, of photographs 0 and 1, 1 and 2, ...; `rest` with others follow."""
    fields = {"moved": 0.25, "stops": 1.0, "shift": 0.003}
    pairs = [Pair(i, i + 1, num_shared, **fields | found) for i in range(num)]
    return pairs + [Pair(0, 1, 12, **fields) for _ in range(rest - num)]


@pytest.mark.parametrize(
    ("topic", "found", "most"),
    [("exposure", {"stops": -1.01}, 2), ("movement", {"moved": 0.26}, 5), ("duplicates", {"shift": 0.0029}, 4)],
)
def test_a_share_of_pairs_is_a_problem(topic, found, most):
    """Pairs that share fewer than 12 points say nothing about exposure and movement; duplicates look the same."""
    same = np.arange(20) * 1.9
    assert looked_at(topic, pairs=linked(0), thumbnails=same) == (True, 0)
    assert looked_at(topic, pairs=linked(most, **found), thumbnails=same)[0]
    assert looked_at(topic, pairs=linked(most + 1, **found), thumbnails=same) == (
        False,
        most + 1 + (topic != "duplicates"),
    )
    if topic == "duplicates":
        assert looked_at(topic, pairs=linked(9, **found), thumbnails=np.arange(20) * 2.1) == (True, 0)
        assert looked_at(topic, thumbnails=same) == (False, 19), "neighbours, if pairs are unknown"
    else:
        assert looked_at(topic, pairs=linked(9, 9, 11, **found)) is None


def test_directions_of_photographs_without_pairs_are_unknown(capture, monkeypatch, splat, tmp_path):
    found = photo_checks.Checked(tmp_path, [], ["a", "b", "c"], [], None, [], 1.0, None, [])
    monkeypatch.setattr(check, "check_photographs", lambda *args: found)
    (finding,) = check._check_without_poses(tmp_path, [], Display().counting).findings
    assert (finding.ok, finding.text.partition(":")[0]) == (True, "unknown, 0 of 3 have a rough pose")
    monkeypatch.setattr(check, "check_photographs", lambda *args: replace(found, names=[]))
    assert "??  directions" in splat("check", capture, "-o", tmp_path / "check.html").out
    assert ">unknown</span>" in (tmp_path / "check.html").read_text()


def chain(num):
    """Each of `num` photographs overlaps with the next two."""
    apart = np.abs(np.subtract.outer(np.arange(num), np.arange(num)))
    return (apart == 1) | (apart == 2)


def test_overlap_counts_links_and_ways():
    names = [f"{number}.jpg" for number in range(20)]
    finding = overlap(names, chain(20))
    assert finding.ok
    assert finding.photographs == ()
    alone = chain(20)
    alone[:, :3] = alone[:3] = False
    assert overlap(names, alone).ok
    assert overlap(names, alone).text == "enough; little in 0.jpg; 1.jpg; 2.jpg"
    alone[:, :4] = alone[:4] = False
    alone[range(4), range(10, 14)] = alone[range(10, 14), range(4)] = True  # one link each
    finding = overlap(names, alone)
    assert not finding.ok
    assert finding.photographs == ("0.jpg", "1.jpg", "2.jpg", "3.jpg")
    assert not overlap(names, alone, 4).ok
    of_many = overlap(names, alone, 5)
    assert (of_many.ok, of_many.photographs) == (True, finding.photographs)
    assert of_many.text.startswith(
        "4 of 20, by 5 cameras, have hardly any points in common with the others and may get"
    )
    alone[:, :10] = alone[:10] = False
    assert overlap(names, alone, 5).ok
    alone[:, :11] = alone[:11] = False
    assert not overlap(names, alone, 5).ok, "most photographs are strays"
    group = chain(20)
    group[:5, 5:] = group[5:, :5] = False
    assert overlap(names, group).photographs == ("0.jpg", "1.jpg", "2.jpg", "3.jpg", "4.jpg"), "a second place"


@pytest.mark.parametrize(
    ("degrees", "is_ring", "ok"),
    [
        ([20, 10], True, True),
        ([120, 10], True, False),
        ([60, 10], False, True),
        ([120, 10], False, False),
        ([200, 10], True, True),
        ([200, 55], True, False),
        ([270, 20], True, True),
        ([270, 30], True, False),
    ],
)
def test_gaps_that_are_problems(degrees, is_ring, ok):
    found = [Gap(one, "a.jpg", "b.jpg", is_ring) for one in degrees]
    assert directions(found).ok == ok


def test_scene_with_a_gap(scene, splat, tmp_path):
    result = splat("check", scene, "--json", "-o", tmp_path / "check.html")
    data = json.loads(result.out)
    assert result.code == 0, result.err
    assert {one["topic"] for one in data["findings"]} >= {"blur", "overlap", "directions"}
    assert data["poses_seconds"] is None
    shutil.make_archive(str(tmp_path / "zipped"), "zip", scene)
    assert "training" in splat("check", tmp_path / "zipped.zip").out
    page = (tmp_path / "check.html").read_text()
    assert "where more would help most" in page
    assert re.search("Photographs from these places would help most:</p><ol>(<li>between [^<]+</li>)+</ol>", page)


def test_inputs_that_cannot_be_checked(splat, tmp_path):
    assert "does not exist" in splat("check", tmp_path / "missing").err
    (tmp_path / "one").mkdir()
    Image.new("RGB", (32, 32)).save(tmp_path / "one" / "a.png")
    result = splat("check", tmp_path / "one")
    assert result.code == 2
    assert "at least 3" in result.err
    for name in ("images", "images_2", "masks"):
        (tmp_path / "scene" / name).mkdir(parents=True)
        Image.new("RGB", (32, 32)).save(tmp_path / "scene" / name / "a.png")
    assert "scene has 1 photographs that can be decoded" in splat("check", tmp_path / "scene").err
    (tmp_path / "notes.html").write_text("mine")
    assert "not a page of splat" in splat("check", tmp_path / "one", "-o", tmp_path / "notes.html").err


def test_training_time_is_that_of_the_plan(monkeypatch):
    monkeypatch.setattr(photo_checks, "why_no_cuda", lambda: "no GPU")
    monkeypatch.setattr(photo_checks, "num_cores", lambda: 2)
    plan = resolve_plan(TrainConfig(), ring_of_views(100, 600, 400)).config
    assert training_seconds(100, 240_000) == plan.steps * step_seconds(240_000, plan.max_splats, 2)


def test_time_for_poses_follows_features_and_pairs(monkeypatch):
    """All pairs of up to 200 photographs, then 15 per photograph; features of up to 10 megapixels."""
    monkeypatch.setattr(photo_checks, "num_cores", lambda: 2)
    assert _pose_seconds(200, 1e6) == pytest.approx((200 * 0.8 + 200 * 199 / 2 * 0.02) / 2)
    assert _pose_seconds(201, 30e6) == pytest.approx((201 * 0.3 * 10 + 201 * 15 * 0.02 * 2.5**2) / 2)
    assert _pose_seconds(200, 1.6e6) < _pose_seconds(200, 1.4e6), "copies of twice the size are not searched"
    assert 40 < 1.3 * _pose_seconds(100, 660 * 432) < 160  # southbuilding: 50 s on two idle cores, 150 on busy ones
