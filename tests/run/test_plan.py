"""Resolution of a run: defaults that follow the number of steps and the scene."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from splat_cli.config import TrainConfig
from splat_cli.config.presets import load_config
from splat_cli.run import plan
from splat_cli.run.plan import (
    apply_splat_budget,
    budget_by_detail,
    default_steps,
    dropout_for,
    is_sparse_capture,
    resolve_plan,
    sh_lr_factor,
    unit_of_budget,
    views_per_point,
)
from splat_cli.scene.view import DepthFile
from tests.views import ring_of_views

VIEWS = ring_of_views(4)


def resolved(preset=None, **settings):
    return resolve_plan(load_config(preset, settings), VIEWS).config


def test_schedule_follows_the_number_of_steps():
    long, short = resolved(steps=30_000), resolved(steps=3000)
    assert (long.densify_start, long.densify_stop, long.sh_degree_interval) == (500, 20_000, 1000)
    assert (short.densify_start, short.densify_stop, short.sh_degree_interval) == (50, 2000, 100)
    assert (long.lr_decay_start, short.lr_decay_start) == (15_000, 1500)
    assert short.growth_rate == pytest.approx(0.2)
    assert long.growth_rate == pytest.approx(0.05)
    assert resolved(steps=10_000).growth_rate == pytest.approx(1.05**3 - 1)
    assert resolved(steps=3000, growth_rate=0.3).growth_rate == pytest.approx(0.3)
    assert (long.strategy, short.strategy) == ("copies", "splits")
    assert (long.init_opacity, long.init_scale) == (0.5, 0.1)
    assert (short.init_opacity, short.init_scale) == (0.1, 1.0)


@pytest.mark.parametrize(
    ("shares", "pixels", "budget"),
    [
        ([0.3] * 4, 1_000_000, None),
        ([0.6], 1_000_000, 2**0.5),
        ([9.0, 0.0], 1_000_000, 3.125**0.5),
        ([5.0], 2_000_000, 2.5),
    ],
)
def test_budget_grows_with_the_share_of_detail(shares, pixels, budget):
    found = budget_by_detail(shares, 10_000, 50, 50 * pixels)
    assert found == (None if budget is None else pytest.approx(1.74 * budget))


def test_small_photographs_have_the_splats_for_their_detail():
    assert budget_by_detail([1.2], 10_000, 50, 50 * 120_000) is None
    assert budget_by_detail([5.0], 10_000, 50, 50 * 350_000) == pytest.approx(1.74 * 2.5 / 2 ** (2 / 3))


@pytest.mark.parametrize(("share", "steps", "budget"), [(0.4, 20_000, None), (0.4, 10_000, 4 / 3), (0.48, 20_000, 1.6)])
def test_detail_never_lowers_the_budget_of_long_runs_on_many_photographs(share, steps, budget):
    found = budget_by_detail([share], steps, 200, 200_000_000)
    assert found == (None if budget is None else pytest.approx(1.74 * budget**0.5))


def test_boundary_of_short_runs():
    below, above = resolved(steps=4999), resolved(steps=5000)
    assert (below.strategy, below.noise_scale, below.dropout > above.dropout) == ("splits", 0, False)
    assert (above.strategy, above.noise_scale > 0) == ("copies", True)


def test_given_settings_are_kept():
    asked = {
        "steps": 3000,
        "densify_start": 7,
        "densify_stop": 100,
        "sh_degree_interval": 3,
        "lr_decay_start": 9,
        "init_opacity": 0.3,
        "init_scale": 0.7,
        "strategy": "adc",
        "dropout": 0.25,
        "splat_budget": 0,
        "batch": 1,
        "appearance": "exposure",
    }
    config = resolved(**asked)
    assert {name: getattr(config, name) for name in asked} == asked
    assert resolve_plan(load_config(None, asked), VIEWS).requested == load_config(None, asked)


def test_a_plan_records_that_nothing_chose_an_appearance():
    """A run that continues must not leave it open again: trials would choose another one."""
    assert resolve_plan(load_config(), VIEWS).requested.decided == {"batch": 1, "appearance": "none"}
    assert resolve_plan(load_config(), VIEWS).requested.appearance == "none"


def test_steps_follow_the_number_of_photographs():
    assert [default_steps(count) for count in (9, 83, 84, 166, 167, 10_000)] == [
        10_000,
        10_000,
        10_080,
        19_920,
        20_000,
        20_000,
    ]
    plan = resolve_plan(TrainConfig(), ring_of_views(150))
    assert plan.config.steps == plan.requested.steps == plan.requested.num_steps == 18_000
    assert resolve_plan(TrainConfig(steps=7), VIEWS).requested.steps == 7


def test_captures_are_sparse_by_the_share_of_photographs_that_show_a_point():
    assert is_sparse_capture(12, 6.0)  # 50 %
    assert not is_sparse_capture(12, 7.4)
    assert is_sparse_capture(6, 4.2)  # too few, though 70 %


@pytest.mark.parametrize(
    ("count", "share", "budget"),
    [(29, 0.5, 0.87), (29, 0.4, 0.435), (8, 0.5, 0.435), (30, 0.5, None), (17, 0.95, None), (24, 0.6, None)],
)
def test_few_photographs_that_overlap_little_get_fewer_steps_and_splats(count, share, budget):
    """A point in front of all cameras, and one that none of them sees."""
    views = [ring_of_views(count, 400, 300)[0]] * count
    seen, unseen = np.zeros((1, 3)), views[0].center[None]
    points = np.concatenate([np.repeat(seen, 100 * share, axis=0), np.repeat(unseen, 100 * (1 - share), axis=0)])
    plan, is_sparse = resolve_plan(TrainConfig(), views, points), budget is not None
    assert plan.is_sparse is is_sparse
    assert plan.config.steps == (5_000 if is_sparse else 10_000)
    assert (plan.config.dropout == 0.3) is is_sparse
    few = max(int((budget or 0) * (count * 120_000) ** (2 / 3)), 5_000)
    assert plan.config.max_splats == (few if is_sparse else count * 120_000 // 50)
    assert plan.with_max_splats(2_000).config.dropout == (0.3 if is_sparse else dropout_for(10_000, count, 2_000))
    given = resolve_plan(TrainConfig(steps=1_000, splat_budget=1.74), views, points).config
    assert (given.dropout < 0.1, given.max_splats > 15_000) == (True, True)
    assert resolve_plan(TrainConfig(), views, points, from_splats=True).config.steps == 10_000


@pytest.mark.parametrize(
    ("settings", "size", "until", "levels"),
    [
        ({}, (500, 400), 0.3, 1),
        ({}, (499, 400), 0.0, 1),
        ({"steps": 10_000}, (1250, 800), 0.6, 2),
        ({"steps": 10_000}, (1250, 799), 0.3, 1),
        ({"steps": 9_996}, (1250, 800), 0.3, 1),
        ({"steps": 10_000, "coarse_levels": 1}, (1250, 800), 0.3, 1),
        ({"steps": 10_000, "coarse_until": 0.5}, (1250, 800), 0.5, 2),
        ({"coarse_until": 0.5}, (40, 30), 0.5, 1),
        ({"coarse_until": 0.0}, (500, 400), 0.0, 1),
        ({"strategy": "adc"}, (500, 400), 0.0, 1),
        ({"pose_opt": True}, (500, 400), 0.0, 1),
    ],
)
def test_large_photographs_start_at_reduced_sizes(settings, size, until, levels):
    views, given = ring_of_views(4, *size), settings.get("coarse_until", 0.0)
    config = resolve_plan(TrainConfig(**settings), views).config
    assert (config.coarse_until, config.coarse_levels) == (until, levels)
    assert resolve_plan(TrainConfig(**settings), views, from_splats=True).config.coarse_until == given


def test_batches_are_whole():
    plan = resolve_plan(load_config(None, {"batch": 8, "steps": 3001, "save_at": (100, 7000)}), VIEWS)
    assert (plan.requested.steps, plan.requested.save_at) == (3008, (104, 7000))
    assert (plan.config.densify_interval, plan.config.opacity_reset_interval) == (96, 3000)
    assert "376 updates" in plan.warnings[0]
    assert resolve_plan(load_config(None, {"batch": 3, "steps": 3000}), VIEWS).warnings == []


def test_save_steps_after_the_end_are_a_warning_if_given():
    plan = resolve_plan(load_config(None, {"steps": 30, "save_at": (7000, 10, 50), "batch": 1}), VIEWS)
    assert plan.warnings == ["nothing is saved at 50, 7,000 (--save-at): the run ends after 30 steps"]
    assert resolve_plan(load_config(None, {"steps": 30, "save_at": (7000,), "batch": 1}), VIEWS).warnings
    plan = resolve_plan(load_config(None, {"steps": 30, "batch": 1}), VIEWS)
    assert (plan.warnings, plan.requested.save_steps) == ([], [7000])


ROUNDS = {"steps": 500, "init_opacity": 0.5}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"densify_stop": 0, "growth_rate": 0.2}, ["--growth-rate does nothing: none of 500 steps is a multiple of"]),
        ({"densify_start": 400, "score_views": 3}, ["--score-views does nothing: none of 500 steps"]),
        ({"densify_interval": 500, "prune_opacity": 0.1}, ["--prune-opacity does nothing: none of 500 steps"]),
        ({"densify_interval": 500, "strategy": "adc", "opacity_reset_interval": 500}, ["--strategy does nothing"]),
        ({"densify_interval": 500, "strategy": "adc", "opacity_reset_interval": 200}, []),
        ({"densify_stop": 0}, []),
        ({"growth_rate": 0.2}, []),
        ({"coarse_until": 0.5, "densify_interval": 600}, ["--coarse-until does nothing: sizes change at multiples of"]),
        ({"coarse_until": 0.5}, []),
        ({"coarse_until": 0.5, "coarse_levels": 4}, ["--coarse-levels 4: photographs are too small for more than 2"]),
        (
            {"prune_opacity": 1.0},
            ["splats begin with an opacity of 0.5, which --prune-opacity 1"],
        ),
        ({"prune_opacity": 0.49}, []),
        ({"prune_opacity": 1.0, "init_from": "a.ply"}, []),
    ],
)
def test_settings_that_no_round_of_density_control_reads_are_named(settings, words):
    found = resolve_plan(load_config(None, {**ROUNDS, **settings}), VIEWS).warnings
    assert len(found) == len(words)
    for line, start in zip(found, words, strict=True):
        assert line.startswith(start)


def test_short_runs_have_higher_learning_rates_and_no_noise():
    long, short = resolved(steps=30_000), resolved(steps=1875)
    for name in ("lr_means", "lr_means_final", "lr_scales", "lr_quats"):
        assert getattr(long, name) == getattr(TrainConfig(), name)
        assert getattr(short, name) == pytest.approx(4 * getattr(TrainConfig(), name))
    assert short.lr_opacities == long.lr_opacities
    assert (long.noise_scale, short.noise_scale) == (30_000, 0)
    assert resolved(steps=7500).noise_scale == 15_000
    assert resolved(steps=7500, noise_scale=100).noise_scale == 50
    assert resolved(steps=10).lr_quats == pytest.approx(5 * TrainConfig().lr_quats)
    assert resolved(steps=60_000).lr_quats == TrainConfig().lr_quats


def test_trained_splats_continue_at_the_rates_of_long_runs():
    for config in (
        resolved(steps=7500, init_from="splats.ply"),
        resolve_plan(TrainConfig(steps=7500), VIEWS, from_splats=True).config,
    ):
        assert config.lr_means == TrainConfig().lr_means
        assert config.sh_degree_interval == 1


def test_sh_rate_grows_with_views_per_point():
    assert [sh_lr_factor(overlap, 120) for overlap in (1, 30, 60, 1000)] == pytest.approx([0.3, 1, 2, 4])
    assert [sh_lr_factor(30, visits) for visits in (1000, 30, 1)] == pytest.approx([1, 4**0.75, 3])
    assert resolved().lr_shN == pytest.approx(0.3 * TrainConfig().lr_shN)
    views, points = 140 * ring_of_views(1), np.zeros((5, 3))
    assert resolve_plan(TrainConfig(), views, points).config.lr_shN == pytest.approx(4 * TrainConfig().lr_shN)
    assert resolve_plan(TrainConfig(steps=140 * 30), views, points, from_splats=True).config.lr_shN == pytest.approx(
        4 * TrainConfig().lr_shN
    )


def test_views_per_point_counts_images_that_contain_it_from_one_side():
    views = 6 * ring_of_views(1)
    seen, unseen = np.zeros((3, 3)), np.array([[0.0, 1e6, 0.0]])
    assert views_per_point(views, seen) == pytest.approx(6)
    assert views_per_point(views, np.concatenate([seen, unseen])) == pytest.approx(4.5)
    assert views_per_point(views, np.zeros((0, 3))) == 2
    assert views_per_point(views, np.repeat(seen, 5000, axis=0)) == pytest.approx(6)
    assert views_per_point(ring_of_views(6), seen) == pytest.approx(0, abs=1e-9)
    assert views_per_point(views, views[0].center[None]) == 0


@pytest.mark.parametrize(
    ("settings", "batch"),
    [
        ({}, 4),
        ({"steps": 4999}, 1),
        ({"steps": 5000}, 4),
        ({"gpus": 2}, 4),
        ({"gpus": 3}, 6),
        ({"gpus": 8}, 8),
        ({"steps": 100, "gpus": 3}, 3),
        ({"pose_opt": True}, 1),
        ({"batch": 2}, 2),
        ({"color": "field"}, 4),
        ({"color": "field", "pose_opt": True}, 1),
    ],
)
def test_long_runs_on_many_photographs_use_batches(settings, batch):
    assert resolve_plan(TrainConfig(**settings), ring_of_views(40)).requested.batch == batch
    assert resolve_plan(TrainConfig(**settings), ring_of_views(39)).config.batch == settings.get(
        "batch", settings.get("gpus", 1)
    )


@pytest.mark.parametrize(
    ("count", "steps", "many"), [(166, None, 0), (167, None, 1), (300, 14_000, 0), (300, 15_000, 1)]
)
def test_long_runs_on_more_photographs_get_more_splats_and_larger_batches(count, steps, many):
    views = [ring_of_views(count, 800, 500)[0]] * count
    config = resolve_plan(TrainConfig(steps=steps), views).config
    assert (config.batch, config.coarse_until) == ((8, 0.45) if many else (4, 0.3))
    assert config.max_splats == int((2.15 if many else 1.74) * unit_of_budget(count, count * 400_000))
    given = resolve_plan(TrainConfig(steps=steps, batch=2, coarse_until=0.1, splat_budget=1.0), views).config
    assert (given.batch, given.coarse_until, given.max_splats) == (2, 0.1, int(unit_of_budget(count, count * 400_000)))


@pytest.mark.parametrize(
    ("count", "share", "start"),
    [
        (6, 0.7, (0.1, 1.0)),
        (8, 0.42, (0.1, 1.0)),
        (8, 0.4, (0.5, 0.1)),
        (14, 0.71, (0.1, 1.0)),
        (14, 0.72, (0.5, 0.1)),
        (23, 0.43, (0.1, 1.0)),
        (23, 0.44, (0.5, 0.1)),
        (6, 0.89, (0.1, 1.0)),
        (6, 0.9, (0.5, 0.1)),
    ],
)
def test_few_photographs_of_the_same_points_start_with_large_splats(count, share, start):
    """Unless ten photographs show a point, or nearly all."""
    views = [ring_of_views(count)[0]] * count
    seen = np.zeros((round(100 * share), 3))
    points = np.concatenate([seen, np.repeat(views[0].center[None], 100 - len(seen), axis=0)])
    config = resolve_plan(TrainConfig(), views, points).config
    assert (config.init_opacity, config.init_scale) == start
    assert config.strategy == "copies"
    assert resolve_plan(TrainConfig(init_scale=0.7), views, points).config.init_scale == 0.7


def test_few_resident_photographs_limit_only_the_default_batch():
    views = ring_of_views(40)
    assert resolve_plan(TrainConfig(), views, resident=12).config.batch == 4
    assert resolve_plan(TrainConfig(), views, resident=11).config.batch == 1
    assert resolve_plan(TrainConfig(batch=4), views, resident=11).config.batch == 4


def test_dropout_follows_splats_per_photograph_and_visits():
    assert dropout_for(12_000, 100, 300_000) == pytest.approx(0.075)
    assert dropout_for(6_000, 100, 300_000) == pytest.approx(0.075 / 2)  # 60 visits
    assert dropout_for(28_800, 240, 720_000) == pytest.approx(0.075 / 4)  # twice the sufficient number of photographs
    assert dropout_for(15_000, 43, 215_000) == pytest.approx(0.125 + 0.0119, rel=1e-2)
    assert dropout_for(30_000, 10, 10_000) == pytest.approx(0.025 + 0.05)
    assert dropout_for(30_000, 10, 10_000_000) == 0.25
    assert dropout_for(4999, 112, 10_000_000) == 0
    assert dropout_for(4000, 10, 10_000_000) == pytest.approx(6e-5 * 250)


def test_dropout_follows_the_splat_budget():
    views = ring_of_views(100)

    def dropout(**settings):
        return resolve_plan(TrainConfig(steps=12_000, **settings), views).config.dropout

    assert dropout(splat_budget=0, max_splats=300_000) == pytest.approx(0.075)
    assert dropout(max_splats=300_000) == pytest.approx(0.005)  # 20,000 splats


def test_default_losses_of_depth_need_depth_maps_grids_and_points():
    points, given = np.zeros((5, 3)), {"free_space": 0.3, "depth_weight": 0.2}
    with_maps = [dataclasses.replace(VIEWS[0], depth=DepthFile(Path("a.npy"))), *VIEWS[1:]]

    def weights(views=VIEWS, points=points, **settings):
        config = resolve_plan(TrainConfig(**settings), views, points).config
        return config.depth_weight, config.free_space

    assert weights() == (0, 0)
    assert weights(with_maps, appearance="grid") == (0.1, 0.1)
    assert weights(with_maps, None, appearance="grid") == weights(with_maps, points[:0], appearance="grid") == (0.1, 0)
    assert weights(with_maps, **given) == weights(**given) == (0.2, 0.3)


def test_background_is_random_behind_opaque_photographs_and_black_behind_others(tmp_path):
    opaque, transparent, photo = tmp_path / "a.png", tmp_path / "b.jpg", tmp_path / "c.jpg"
    Image.new("RGB", (40, 30)).save(opaque)
    Image.new("RGBA", (40, 30)).save(transparent, "PNG")  # with a wrong suffix
    Image.new("RGB", (40, 30)).save(photo)
    views = [dataclasses.replace(VIEWS[0], path=path) for path in (opaque, photo, tmp_path / "missing.png")]
    assert resolve_plan(TrainConfig(), views).config.background == "random"
    views.append(dataclasses.replace(VIEWS[0], path=transparent))
    assert resolve_plan(TrainConfig(), views).config.background == "black"
    assert resolve_plan(TrainConfig(background="random"), views).config.background == "random"
    assert resolve_plan(TrainConfig(), views).requested.background == "auto"


def test_few_photographs_are_decoded_to_choose_a_background(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(plan, "has_alpha", lambda path: seen.append(path) or path.name == "99.png")
    views = [dataclasses.replace(VIEWS[0], path=tmp_path / f"{number}.png") for number in range(100)]
    assert resolve_plan(TrainConfig(), views[:-1]).config.background == "random"
    assert len(seen) == 32
    assert resolve_plan(TrainConfig(), views).config.background == "black"


@pytest.mark.parametrize(
    ("num_views", "size", "splats"),
    [
        (100, 700_000, 339_700),
        (100, 300_000, 339_700),  # small photographs need as many
        (100, 100_000, 229_885),  # one splat for 43.5 pixels
        (100, 8 * 700_000, 4 * 339_700),
        (800, 700_000, 4 * 339_700),
        (10_000, 700_000, 2_000_000),
        (4, 100, 20_000),
    ],
)
def test_budget_follows_photographs_and_their_size(num_views, size, splats):
    config = TrainConfig(splat_budget=2, max_splats=2_000_000)
    assert apply_splat_budget(config, num_views, num_views * size).max_splats == pytest.approx(splats, abs=3)


def test_limits_of_the_budget():
    given = TrainConfig(splat_budget=2, max_splats=50)
    assert apply_splat_budget(given, 1_000, 10**9).max_splats == 50
    assert apply_splat_budget(TrainConfig(splat_budget=0), 1, 100).max_splats == 1_000_000


def test_memory_lowers_the_cap_and_leaves_the_request():
    plan = resolve_plan(TrainConfig(), VIEWS).with_max_splats(123)
    assert (plan.config.max_splats, plan.requested.max_splats) == (123, 1_000_000)


def test_dropout_is_that_of_the_splats_that_fit():
    config, views = TrainConfig(steps=30_000, splat_budget=0, max_splats=100_000), ring_of_views(40)
    plan = resolve_plan(config, views)
    fewer = plan.with_max_splats(1_000)
    assert plan.config.dropout > fewer.config.dropout == dropout_for(30_000, len(views), 1_000)
    given = resolve_plan(dataclasses.replace(config, dropout=0.2), views).with_max_splats(1_000)
    assert given.config.dropout == 0.2
