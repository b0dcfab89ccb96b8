"""Masks of photographs, in the form that COLMAP and training read."""

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from splat_cli.errors import UsageError
from splat_cli.io.files import replacing
from splat_cli.scene.images.decode import decode_mask, image_size
from splat_cli.scene.options import NO_MASKS


def find_masks(roots: Sequence[Path], masks: str | Path | None) -> Path | None:
    """The folder of --masks, in one of `roots` or from the current folder.

    By default, ROOT/masks if it holds PNG files. None: no masks, as with "none". UsageError if the folder is missing.
    """
    if masks == NO_MASKS:
        return None
    if masks is None:
        return next((root / "masks" for root in roots if mask_files(root / "masks")), None)
    found = next(filter(Path.is_dir, [*(root / masks for root in roots), Path(masks)]), None)
    if found is None:
        raise UsageError(f"there is no folder {masks}; name the folder of the masks with --masks DIR")
    return found


def mask_files(masks: Path) -> list[Path]:
    """The files of a folder of masks, sorted."""
    return sorted(masks.rglob("*.png"))


def collect_masks(masks: Path, inverted: bool, scene: Path, names: Sequence[str]) -> int:
    """Write the masks of the photographs `names` in scene/images to scene/masks/NAME.png; returns their number.

    White counts; inverted: black does in `masks`. UsageError if no photograph has one, or a mask is damaged.
    """
    num = 0
    for name in names:
        candidates = (masks / f"{name}.png", (masks / name).with_suffix(".png"))
        path = next(filter(Path.is_file, candidates), None)
        if path is None:
            continue
        photograph = scene / "images" / name
        try:
            mask = decode_mask(path, photograph, image_size(photograph), inverted)
        except ValueError as error:
            raise UsageError(f"{name}: {error}; correct it, or give --masks none") from error
        target = scene / "masks" / f"{name}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as temporary:
            Image.fromarray(mask).save(temporary, "PNG")
        num += 1
    if not num:
        raise UsageError(
            f"{masks} has no mask for any of the {len(names)} photographs: name them like these, such as "
            f"{names[0]}.png, or give --masks none"
        )
    return num
