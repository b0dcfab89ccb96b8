"""Structure from motion of a folder of photographs by COLMAP."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from splat_cli.console import Counting, first_of
from splat_cli.errors import SceneError, UsageError
from splat_cli.files import replacing
from splat_cli.scene.dataset import sanitize_name
from splat_cli.scene.images.decode import decode_photo, image_size
from splat_cli.scene.sfm.camera_groups import camera_groups
from splat_cli.scene.sfm.colmap_process import run_colmap
from splat_cli.scene.sfm.gps import gps_locations
from splat_cli.scene.sfm.options import SfmOptions
from splat_cli.scene.sfm.pairs import choose_matcher, sequential_pairs
from splat_cli.scene.sfm.scene_folder import UNREGISTERED

_FEW_REGISTERED = 0.8
_NAMED = 5


@dataclass(frozen=True)
class Mapping:
    """Result of structure from motion: photographs registered, points, mean error in pixels, mean track length.

    unregistered: names of the photographs that were not registered, which UNREGISTERED in the folder `scene` lists.
    gps_error: median in metres, if scale and orientation are from GPS data, else None. matcher: the one used,
    "exhaustive" or "sequential".
    """

    num_photographs: int
    unregistered: list[str]
    num_points: int
    error: float
    track_length: float
    num_models: int
    gps_error: float | None = None
    matcher: str = "exhaustive"
    scene: Path = Path()

    @property
    def num_registered(self) -> int:
        """Number of photographs that were registered."""
        return self.num_photographs - len(self.unregistered)

    def summary(self) -> str:
        """The statistics in one line."""
        return (
            f"{self.num_registered} of {self.num_photographs} photographs registered, {self.num_points:,} points, "
            f"mean error {self.error:.2f} pixels, seen in {self.track_length:.1f} photographs each"
            + ("" if self.gps_error is None else f"; metres and level from GPS, within {self.gps_error:.1f} m")
        )

    def advice(self) -> list[str]:
        """Lines of text: the photographs that were not registered, and advice if these are many; empty if there are
        none.
        """
        if not self.unregistered:
            return []
        names = first_of([sanitize_name(name) for name in self.unregistered], _NAMED, ", ")
        named = f"Not registered: {names} (listed in {self.scene / UNREGISTERED})"
        if self.num_registered >= _FEW_REGISTERED * self.num_photographs:
            return [named]
        lines = [f"Only {self.num_registered} of {self.num_photographs} photographs were registered. What helps:"]
        if self.num_models > 1:
            lines.append(
                f"- the photographs fell into {self.num_models} groups: add some that show parts of two groups"
            )
        lines += ["- photographs that overlap by two thirds, taken while moving, not while turning on the spot",
                  "- sharp photographs of one exposure; little glass, water or sky"]  # fmt: skip
        if self.matcher == "sequential":
            lines.append("- splat sfm --matcher exhaustive, which takes longer, if they are in no order")
        return [*lines, named]


def map_photographs(
    scene: Path, names: list[str], options: SfmOptions, counting: Counting, is_video: bool = False
) -> Mapping:
    """Create scene/sparse/0 from scene/images; keeps scene/database.db, and continues with an existing one.

    is_video: whether the photographs are the frames of a video. UsageError if pycolmap is missing, SceneError if no two
    photographs match.
    """
    require_pycolmap()
    found_groups = [] if is_video else camera_groups(scene / "images", names)
    groups = [names] if options.one_camera else found_groups
    matcher = choose_matcher(options.matcher, names, is_video, bool(found_groups))
    job = {
        "scene": str(scene.absolute()), "names": names, "groups": groups, "camera_model": options.camera_model,
        "locations": gps_locations(scene / "images", names), "seed": options.seed,
        "pairs": sequential_pairs(names) if matcher == "sequential" else None,
    }  # fmt: skip
    found = run_colmap(job, counting)
    if not found["models"]:
        raise SceneError(
            f"no two of the {len(names)} photographs fit together: {_why_none_fit(scene / 'images', names)}"
        )
    if found["unregistered"]:
        with replacing(scene / UNREGISTERED) as temporary:
            lines = "".join(f"{sanitize_name(name)}\n" for name in found["unregistered"])
            temporary.write_text(lines, encoding="utf-8")
    return Mapping(
        len(names),
        found["unregistered"],
        found["points"],
        found["error"],
        found["track_length"],
        found["models"],
        found["gps_error"],
        matcher,
        scene,
    )


def _why_none_fit(images: Path, names: list[str]) -> str:
    """Error message if no photographs match: the damaged ones, if any, else advice on photographs."""
    damaged = []
    for name in names:
        try:
            decode_photo(images / name, image_size(images / name), background=(0, 0, 0))
        except ValueError as reason:
            damaged.append(f"{name} {reason}")
    if damaged:
        return f"{len(damaged)} are damaged: copy them again; {damaged[0]}"
    return "take more that overlap by two thirds, moving between them, and keep them sharp"


def require_pycolmap() -> None:
    """UsageError if it is not installed; it is not imported into this process (see colmap_worker.py)."""
    if find_spec("pycolmap") is None:
        raise UsageError("estimating camera poses needs pycolmap, which is not installed: pip install 'splat-cli[sfm]'")
