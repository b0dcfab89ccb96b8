"""Settings: dataset."""

from dataclasses import dataclass
from typing import ClassVar

from splat_cli.config.setting import setting


@dataclass(frozen=True)
class DatasetSettings:
    """Format and folders of a dataset, size of the photographs, selection of points."""

    GROUP: ClassVar[str] = "Dataset"

    format: str = setting(
        "auto",
        "Dataset format; auto uses the first one found, in this order.",
        choices=(
            "auto",
            "colmap",
            "blender",
            "transforms",
            "metashape",
            "realityscan",
            "bundler",
            "opensfm",
            "polycam",
            "scanner-app",
            "record3d",
        ),
    )
    images: str | None = setting(
        None,
        "Folder of the photographs, relative to SCENE or to the current folder; by default SCENE/images.",
        metavar="DIR",
    )
    max_size: int | None = setting(
        None,
        "Maximum length of a photograph's longer side, in pixels; larger photographs are downscaled.",
        low=16,
        common=True,
    )
    downscale: int = setting(
        1, "Downscale photographs by this factor; uses SCENE/images_N if it exists.", low=1, high=64
    )
    lens: str = setting(
        "undistort",
        "Undistort photographs to pinhole cameras, or train with the lens that took them (keep): nothing is cropped, "
        "and photographs of fisheye and 360-degree cameras work.",
        choices=("undistort", "keep"),
        fixed=True,
        single_gpu=("keep",),
        batches=True,
        not_in_city=("keep",),
    )
    masks: str | None = setting(
        None,
        "Folder of masks (NAME.png or NAME.jpg.png; black pixels are ignored); by default SCENE/masks; none: no masks.",
        metavar="DIR",
    )
    invert_masks: bool = setting(False, "Ignore the white pixels of masks instead of the black ones.")
    allow_implausible: bool = setting(
        False,
        "Also train on scenes whose camera poses look wrong: panoramas, focal lengths that disagree, a point cloud "
        "that is a dot, photographs of two places, ...",
    )
    depths: str | None = setting(
        None,
        "Folder of depth maps (NAME.png, .npy, .exr, .tif; confidences in a folder `confidence` next to it); by "
        "default the maps that the dataset names, otherwise SCENE/depths or SCENE/depth; none: no depth maps.",
        metavar="DIR",
        fixed=True,
        idle_with="--depth-weight 0",
    )
    depth_maps: str = setting(
        "auto",
        "Values of depth maps: depths in world units (metric), or depths or inverse depths up to scale and shift "
        "(relative); auto: whichever agrees with the dataset's points, metric without points.",
        choices=("auto", "metric", "relative"),
        fixed=True,
        idle_with="--depth-weight 0",
    )
    depth_unit: float = setting(
        0.001,
        "World units per level of integer depth maps (nerfstudio: depth_unit_scale_factor).",
        low=1e-12,
        fixed=True,
        idle_with="--depth-weight 0 or --depth-maps relative",
    )
    image_memory: float | None = setting(
        None,
        "Memory for decoded photographs, in GiB; by default half of the free memory. The rest are decoded on demand.",
        low=1e-6,
    )
    points: str | None = setting(
        None,
        "PLY, LAS or LAZ file of points (x y z, red green blue) in the dataset's coordinates, instead of the dataset's "
        "points.",
        metavar="FILE",
        fixed=True,
    )
    min_track_length: int = setting(
        0, "Ignore COLMAP points that are seen in fewer photographs than this.", low=0, fixed=True
    )
    max_point_error: float | None = setting(
        None, "Ignore COLMAP points with a reprojection error larger than this, in pixels.", low=0, fixed=True
    )
    crop: str | None = setting(
        None,
        "Region to export: sphere x,y,z,radius or box x0,y0,z0,x1,y1,z1, in world units; training is not cropped.",
        metavar="X,Y,...",
        common=True,
        not_in_city=True,
    )
    crop_start: bool = setting(False, "Initialise splats inside the region only.", fixed=True, needs="--crop")
