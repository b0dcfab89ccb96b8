"""Allocation of the splats and the rasterizer of a training run, and the device memory of training."""

from __future__ import annotations

import math

from splat_cli.config import ResolvedConfig
from splat_cli.device import Backend, MemoryCost
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.editing.edits import merged
from splat_cli.joint.loss import PhotometricLoss
from splat_cli.model.model import Model, RowsOnDevice
from splat_cli.render.camera import CameraTable
from splat_cli.render.project import RasterizationSettings
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.train.joint_models import JointModels, enabled_models, joint_memory, joint_models_move
from splat_cli.train.multi_gpu.sharded_views import Exchange
from splat_cli.train.multi_gpu.shares import Geometry, SharedSplats
from splat_cli.train.view_scores import ViewScorer

PAIRS_PER_SPLAT = 12  # initial size of the buffers of (splat, tile) pairs
FEW_PAIRS_PER_SPLAT = 4  # instead, where memory is short: about twice what late steps of a run need
MAX_INITIAL_PAIRS = 1 << 24  # among very many splats, few are visible and most are small
ROOM_ON_GPU = 1 << 19  # splats with room from the start: whenever arrays grow, graphs are captured again, in 0.05 s
MAX_AHEAD = 4_000_000  # splats; projecting more is limited by memory bandwidth and slows down concurrent kernels
# views of a batch at the same time, up to these numbers of pixels and splats: larger ones occupy a GPU alone
BRANCHES, BRANCH_PIXELS, BRANCH_SPLATS = 4, 2_500_000, 1_000_000
SMALL_BRANCHES, SMALL_PIXELS = 8, 200_000  # of smaller photographs


def pairs_per_splat(on_device: RowsOnDevice | None) -> int:
    """Planned number of pairs per splat; fewer if some memory of the splats may be on the host."""
    return FEW_PAIRS_PER_SPLAT if on_device else PAIRS_PER_SPLAT


def initial_pairs(num_splats: int, per_splat: int) -> int:
    """Initial capacity of the buffers of (splat, tile) pairs."""
    return min(per_splat * num_splats, MAX_INITIAL_PAIRS)


def never_grows(config: ResolvedConfig) -> bool:
    """Whether density control has no round."""
    return config.densify_stop <= config.densify_start + 1 or config.steps <= config.densify_start


def initial_capacity(config: ResolvedConfig, num: int, least: int = 0) -> int:
    """Number of splats for which there is room at the start, from `num` splats; up to `least`, for all of them."""
    return max(num, min(max(2 * num, least), config.max_splats))


def make_model(
    backend: Backend,
    config: ResolvedConfig,
    splats: SplatArrays,
    frozen: SplatArrays | None,
    on_device: RowsOnDevice | None,
) -> Model:
    """The splats to train, after the frozen ones, with room to grow.

    With frozen splats or `on_device`, it has room for all splats from the start: no larger arrays would fit.
    """
    num_frozen = 0 if frozen is None else len(frozen)
    shown = splats if frozen is None else merged([frozen, splats])
    has_all_room = num_frozen or on_device
    least = ROOM_ON_GPU if backend.name == "cuda" and config.gpus == 1 and not never_grows(config) else 0
    capacity = num_frozen + (config.max_splats if has_all_room else initial_capacity(config, len(splats), least))
    return Model(
        backend,
        shown,
        capacity,
        smooth_3d=config.smooth_3d > 0,
        num_frozen=num_frozen,
        sh_degree=config.trained_sh_degree,
        num_features=config.num_features,
        on_device=on_device,
    )


def make_rasterizer(
    config: ResolvedConfig, cameras: CameraTable, model: Model, joint: JointModels, branches: int | None = None
) -> Rasterizer:
    """The rasterizer of training, with the capacity of the model. branches: as planned; default `num_branches`."""
    backend, capacity, coloring = model.backend, model.splats.capacity, joint.coloring
    is_deterministic = config.deterministic and backend.name == "cuda"
    if branches is None:
        fetches = cameras.fetch_photograph is not None
        branches = num_branches(config, backend, cameras.max_pixels, model.on_device, fetches)
    settings = _rasterization_settings(config, is_deterministic, joint.move_splats, model.on_device, branches)
    pairs = initial_pairs(capacity, pairs_per_splat(model.on_device))
    return Rasterizer(backend, cameras, capacity, settings, coloring=coloring, pair_capacity=pairs)


def num_branches(
    config: ResolvedConfig, backend: Backend, pixels: int, on_device: RowsOnDevice | None, fetches: bool
) -> int:
    """Number of views of a batch that are rendered at the same time: several if they are small.

    pixels: of the largest photograph. fetches: photographs are in host memory, and only one has a place on the device.
    """
    is_small = backend.name == "cuda" and pixels <= BRANCH_PIXELS and config.max_splats <= BRANCH_SPLATS
    has_buffers = config.gpus == 1 and on_device is None and not fetches and not config.deterministic
    is_independent = all(model.PROJECTS_AHEAD for model in enabled_models(config))
    most = SMALL_BRANCHES if pixels <= SMALL_PIXELS else BRANCHES
    return math.gcd(most, config.batch_size) if is_small and has_buffers and is_independent else 1


def training_memory(
    config: ResolvedConfig,
    num_views: int,
    deterministic: bool = False,
    on_device: RowsOnDevice | None = None,
    branches: int = 1,
) -> MemoryCost:
    """Device memory of training, without the images. deterministic: sums in a fixed order on a GPU.

    branches: see `num_branches`.
    """
    rows = config.trained_sh_degree, config.smooth_3d > 0, config.num_features
    splats = Model.memory_cost(*rows, on_device, grows=on_device is None and config.frozen is None)
    settings = _rasterization_settings(config, deterministic, joint_models_move(config), on_device, branches)
    scratch = Rasterizer.memory_cost(settings)
    if config.gpus > 1:
        splats = MemoryCost(per_splat=splats.per_splat / config.gpus)
        splats += Geometry.round_cost(config.smooth_3d > 0) + SharedSplats.transfer_cost()
        scratch += Exchange.memory_cost(config.batch_size, config.gpus)
    scores = ViewScorer.memory_cost(config, deterministic)
    return splats + scratch + scores + PhotometricLoss.buffer_cost(branches) + joint_memory(config, num_views)


def _rasterization_settings(
    config: ResolvedConfig, deterministic: bool, joint_moves: bool, on_device: RowsOnDevice | None, branches: int
) -> RasterizationSettings:
    """With several GPUs, Exchange has buffers for all views of a batch, and these are only for rendering."""
    views = config.batch_size // config.gpus
    ahead = views > 1 and (config.gpus > 1 or (config.max_splats <= MAX_AHEAD and on_device is None))
    return RasterizationSettings(
        training=True,
        antialias=config.antialias,
        deterministic=deterministic,
        batch=views if config.gpus == 1 else min(views, 2),
        ahead=ahead,
        branches=branches,
        position_gradients=joint_moves,
        matrix_sums=True,
    )
