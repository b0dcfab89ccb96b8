"""Settings: splats and rendering."""

from dataclasses import dataclass
from typing import ClassVar

from splat_cli.config.setting import setting


@dataclass(frozen=True)
class SplatSettings:
    """Colour model, initialization and rasterization of the splats."""

    GROUP: ClassVar[str] = "Splats and rendering"

    sh_degree: int = setting(
        3, "Degree of the spherical harmonics of view-dependent colour.", low=0, high=3, common=True, fixed=True
    )
    color: str = setting(
        "sh",
        "Colour model: spherical harmonics per splat (sh), or these modified by a network shared by all (field).",
        choices=("sh", "field"),
        fixed=True,
        single_gpu=("field",),
        batches=True,  # docs/experiments/field.md
        not_in_city=("field",),
    )
    field_table_size: int = setting(
        2**17,
        "Number of entries of each of the 8 hash tables.",
        low=2**10,
        high=2**24,
        fixed=True,
        needs="--color field",
    )
    field_direction_degree: int = setting(
        3,
        "SH degree of the encoded view direction; 4 sharpens reflections, but not in PLY files.",
        low=1,
        high=4,
        fixed=True,
        needs="--color field",
    )
    field_sh_degree: int = setting(
        3,
        "SH degree of the splats' own colours, which the field modifies; 0: one constant colour, for smaller files.",
        low=0,
        high=3,
        fixed=True,
        needs="--color field",
    )
    field_features: int = setting(
        8,
        "Size of the feature vector that each splat learns as input of the network; 0 disables it.",
        low=0,
        high=16,
        fixed=True,
        needs="--color field",
    )
    field_appearance: int = setting(
        0,
        "Size of each photograph's appearance embedding (exposure, weather); 0 disables it.",
        low=0,
        high=64,
        fixed=True,
        needs="--color field",
    )
    sh_degree_interval: int | None = setting(
        None,
        "Steps between increments of the SH degree, starting at 0; by default 1/30 of the run.",
        low=1,
        needs="--sh-degree",
        idle_with="--init-from or --frozen or --lr-shN 0",
    )
    init: str = setting(
        "auto",
        "Initial points: the dataset's (points), from plane-sweep stereo (sweep) or random; auto: points and sweep.",
        choices=("auto", "points", "sweep", "random"),
        fixed=True,
        idle_with="--init-from",
    )
    sky: bool = setting(
        False,
        "With --init auto and a random background, also start from far points, in directions where several "
        "photographs show the same uniform colour. Improves short runs outdoors.",
        fixed=True,
    )
    init_points: int = setting(
        100_000,
        "Number of pixels whose depth the plane sweep estimates, or number of random points.",
        low=1,
        fixed=True,
        idle_with="--init-from or --init points",
    )
    init_from: str | None = setting(
        None,
        "File of splats to start from instead of points; a random subset if they are more than --max-splats. A file "
        "of points (PLY, LAS, LAZ) means --points FILE --init points.",
        metavar="FILE",
        fixed=True,
    )
    frozen: str | None = setting(
        None,
        "File of splats that are rendered with the trained ones and stay unchanged: not trained, not counted by "
        "--max-splats, first in the saved PLY. SH degrees start at the maximum.",
        metavar="FILE",
        fixed=True,
        single_gpu=True,
        not_in_city=True,
    )
    spz_axes: str = setting(
        "rub",
        "Axes of an .spz file that does not state them: rub (right, up, back: Niantic) or rdf (right, down, forward: "
        "SuperSplat, splat-transform).",
        choices=("rub", "rdf"),
        fixed=True,
        needs="--init-from or --frozen",
    )
    init_opacity: float | None = setting(
        None,
        "Initial opacity of splats made from points; by default 0.5, in runs under 5,000 steps, or if few photographs "
        "show much of each other, 0.1.",
        low=0.005,
        high=0.99,
        fixed=True,
        idle_with="--init-from",
    )
    init_scale: float | None = setting(
        None,
        "Initial size of splats made from points, relative to the distance to their neighbours; by default 0.1, in "
        "runs under 5,000 steps, or if few photographs show much of each other, 1.",
        low=0.01,
        high=10,
        fixed=True,
        idle_with="--init-from",
    )
    antialias: bool = setting(
        True,
        "Dilate splats by 0.1 px^2 and compensate their opacity (Mip-Splatting); off: dilate by 0.3 px^2, as in most "
        "viewers.",
    )
    smooth_3d: float = setting(
        0.0,
        "Variance of the 3D smoothing filter (Mip-Splatting: 0.2), in squared pixel widths of the nearest photograph; "
        "0 disables it.",
        low=0,
        high=10,
        fixed=True,
        not_in_city=True,
    )
    background: str = setting(
        "auto",
        "Background in training; auto: random, which discourages transparent surfaces (pictures then have the "
        "photographs' mean colour), or black if they are transparent in places.",
        choices=("auto", "black", "white", "random", "learned"),
        common=True,
        fixed=True,
        single_gpu=("learned",),
        not_in_city=("learned",),
    )
