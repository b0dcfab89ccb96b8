"""Upload of a run's schedule to the device: learning rates, SH degrees, backgrounds.

The kernel `begin_step` (cuda_src/optim/begin_step.cu) evaluates it for each step, including the decay of the rates.
"""

from __future__ import annotations

import numpy as np

from splat_cli.config import ResolvedConfig
from splat_cli.device import Backend, DeviceArray
from splat_cli.render.images import background_color

# Mirrors `struct Schedule` in cuda_src/optim/begin_step.cu.
SCHEDULE_DTYPE = np.dtype([
    ("lr_means", np.float32), ("lr_means_final", np.float32), ("reference_size", np.float32),
    ("lr_log_scales", np.float32), ("lr_quats", np.float32),
    ("lr_opacities", np.float32), ("lr_sh0", np.float32), ("lr_shN", np.float32),
    ("lr_field", np.float32), ("lr_field_features", np.float32),
    ("lr_decay", np.float32), ("lr_decay_start", np.int32),
    ("max_steps", np.int32), ("sh_degree", np.int32), ("sh_degree_interval", np.int32),
    ("random_background", np.int32), ("background", np.float32, 3), ("seed", np.uint32), ("order_length", np.int32),
])  # fmt: skip

REFERENCE_SPLAT = 0.004  # lr_means is given for this size of a splat, relative to the scene's size


def upload_schedule(backend: Backend, config: ResolvedConfig) -> DeviceArray:
    """`struct Schedule` on the device; `set_position_rates` adds the rates that depend on the scene's size."""
    row = np.zeros((), SCHEDULE_DTYPE)
    row["lr_log_scales"], row["lr_quats"] = config.lr_scales, config.lr_quats
    row["lr_opacities"] = config.lr_opacities
    row["lr_sh0"], row["lr_shN"] = config.lr_sh0, config.lr_shN
    row["lr_field"], row["lr_field_features"] = config.lr_field, config.lr_field_features
    row["lr_decay"], row["lr_decay_start"] = config.lr_decay, config.lr_decay_start
    row["max_steps"], row["sh_degree"] = config.steps, config.trained_sh_degree
    row["sh_degree_interval"] = config.sh_degree_interval
    row["random_background"], row["background"] = config.background == "random", background_color(config.background)
    row["seed"], row["order_length"] = config.seed, config.steps
    return backend.upload(np.frombuffer(row.tobytes(), np.uint8).copy())


def set_position_rates(backend: Backend, schedule: DeviceArray, config: ResolvedConfig, size: float) -> None:
    """Set learning rates of positions, and the splat size they refer to, from the scene's size in world units."""
    row = [config.lr_means, config.lr_means_final, REFERENCE_SPLAT if config.local_frame_adam else 0.0]
    _part(schedule, "lr_means", 3)[...] = backend.upload((size * np.array(row)).astype(np.float32))


def background_of(schedule: DeviceArray) -> DeviceArray:
    """Field of a schedule: background colour of the next step, float32 [3] on the device."""
    return _part(schedule, "background", 3)


def _part(schedule: DeviceArray, first: str, count: int) -> DeviceArray:
    fields = SCHEDULE_DTYPE.fields
    assert fields is not None
    offset = fields[first][1]
    return schedule[offset : offset + 4 * count].view("float32")
