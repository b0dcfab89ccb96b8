"""For test_settings_take_effect.py: for each setting, a value that changes the result of a tiny run."""

BASE = {
    "deterministic": True, "steps": 12, "save_at": (), "densify_start": 2, "densify_stop": 11, "densify_interval": 3,
    "checkpoint_every": 0, "keep": 1, "report": False, "init": "points", "dropout": 0.0, "noise_scale": 0.0,
    "opacity_reset_interval": 100, "depths": "none",
}  # fmt: skip
ADC = {"strategy": "adc", "grad_threshold": 1e-4}
FIELD = {"color": "field", "field_table_size": 2**10}
EXPOSURE = {"appearance": "exposure"}
GRID = {"appearance": "grid"}
CAMERA = {"appearance": "camera"}

ELSEWHERE = {
    "allow_implausible",  # no effect on plausible scenes: test_plausibility
    "lens",  # the photographs of this scene have no distortion: tests/run/test_lens.py
    "offload",  # changes where splats lie, not the result: test_memory_plan
    "report",  # concerns the command, not the run: test_reports
    "report_size",  # likewise: tests/cli/test_report.py
    "ensemble",  # its members have thousands of steps: tests/run/setup/test_ensemble.py
    "trials",  # without --steps only: tests/run/setup/test_trials.py
    "sky",  # at most two photographs of this scene show the same direction: test_initialization
}

# Setting -> its changed value, and the settings besides BASE without which it has no effect.
CHANGES = {
    "steps": (13, {}),
    "batch": (2, {}),
    "gpus": (2, {}),
    "seed": (1, {}),
    "save_at": ((6,), {}),
    "eval": (True, {}),
    "test_every": (3, {"eval": True}),
    "split": ("SCENE/split.txt", {"eval": True}),
    "split_by": ("sector", {"eval": True}),
    "deterministic": (False, {}),
    "keep": (3, {"checkpoint_every": 4}),
    "checkpoint_every": (5, {"keep": 9}),
    "checkpoint_minutes": (1e-9, {"keep": 9}),
    "tensorboard": (True, {}),
    "format": ("blender", {}),
    "images": ("SCENE/others", {}),
    "max_size": (32, {}),
    "downscale": (2, {}),
    "masks": ("none", {}),
    "invert_masks": (True, {}),
    "depths": (None, {}),
    "depth_maps": ("relative", {"depths": "depths", "depth_maps": "metric"}),
    "depth_unit": (0.002, {"depths": "depths", "depth_maps": "metric"}),
    "image_memory": (1e-5, {}),  # too little memory: a warning
    "points": ("SCENE/points.ply", {}),
    "min_track_length": (3, {}),
    "max_point_error": (0.5, {}),
    "crop": ("0,0,0,0.3", {"crop": "0,0,0,0.6", "crop_start": True}),
    "crop_start": (True, {"crop": "0,0,0,0.6"}),
    "sh_degree": (2, {}),
    "color": ("field", {"field_table_size": 2**10}),
    "field_table_size": (2**11, FIELD),
    "field_direction_degree": (4, FIELD),
    "field_sh_degree": (2, FIELD | {"sh_degree_interval": 1}),
    "field_features": (4, FIELD),
    "field_appearance": (2, FIELD),
    "field_moves": (True, FIELD),
    "sh_degree_interval": (5, {}),
    "init": ("random", {"init_points": 300}),
    "init_points": (200, {"init": "random", "init_points": 300}),
    "init_from": ("SCENE/splats.ply", {}),
    "frozen": ("SCENE/splats.ply", {}),
    "spz_axes": ("rdf", {"init_from": "SCENE/splats.spz"}),
    "init_opacity": (0.3, {}),
    "init_scale": (0.5, {}),
    "antialias": (False, {}),
    "smooth_3d": (0.2, {}),
    "background": ("white", {}),
    "lr_background": (0.1, {"background": "learned"}),
    "ssim_weight": (0.5, {}),
    "coarse_until": (0.5, {}),
    "coarse_levels": (2, {"coarse_until": 0.9}),
    "robust": (True, {"robust_threshold": 1.0}),
    "robust_threshold": (1.0, {"robust": True}),
    "visible_adam": (True, {"init": "random", "init_points": 300}),
    "lr_means": (1e-3, {}),
    "lr_means_final": (1e-4, {}),
    "local_frame_adam": (False, {}),
    "lr_sh0": (1e-2, {}),
    "lr_shN": (1e-2, {"sh_degree_interval": 1}),
    "lr_field": (1e-2, FIELD),
    "lr_field_features": (0.5, FIELD | {"field_features": 4}),
    "lr_opacities": (0.1, {}),
    "lr_scales": (0.1, {}),
    "lr_quats": (0.1, {}),
    "lr_decay": (0.5, {}),
    "lr_decay_start": (2, {}),
    "depth_weight": (1.0, {}),
    "free_space": (10.0, {}),
    "opacity_reg": (1.0, {}),
    "scale_reg": (1.0, {}),
    "dropout": (0.3, {}),
    "noise_scale": (1e6, {}),
    "pose_opt": (True, {}),
    "pose_travel": (5.0, {"pose_opt": True}),
    "refine_intrinsics": (True, {"pose_opt": True}),
    "refine_distortion": (True, {"pose_opt": True, "refine_intrinsics": True}),
    "intrinsics_reg": (1000.0, {"pose_opt": True, "refine_intrinsics": True}),
    "appearance": ("grid", EXPOSURE),
    "lr_exposure": (0.1, EXPOSURE),
    "lr_exposure_final": (0.1, EXPOSURE),
    "exposure_reg": (1.0, EXPOSURE),
    "lr_grid": (0.1, GRID),
    "grid_smoothness": (1e4, GRID),
    "lr_camera": (0.1, CAMERA),
    "camera_reg": (10.0, CAMERA),
    "strategy": ("mcmc", {}),
    "max_splats": (100, {}),
    "max_memory": (0.01, {}),
    "splat_budget": (0.0, {"init": "random", "init_points": 20_500, "steps": 1}),
    "densify_start": (5, {}),
    "densify_stop": (5, {}),
    "densify_interval": (4, {}),
    "grad_threshold": (1.0, ADC),
    "absgrad": (True, ADC),
    "relocate_unseen": (False, {"noise_scale": 1e6, "steps": 40, "densify_stop": 39}),
    "prune_opacity": (0.15, ADC | {"init_opacity": 0.15}),
    "opacity_reset_interval": (3, ADC),
    "score_views": (1, {}),
    "growth_rate": (0.5, {}),
}
