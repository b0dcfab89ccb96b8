"""Pairs of photographs to match: all, or for frames of a video neighbours in time and key frames."""

import math
import re
from collections.abc import Sequence
from itertools import combinations, pairwise

from splat_cli.scene.view import evenly_spread

EXHAUSTIVE_LIMIT = 200
"""Photographs up to which all pairs are matched by default."""
_MIN_SEQUENCE = 60
"""Numbered files from which a folder may be the frames of a video; of fewer, all pairs take little time."""
_MIN_FRAMES = 25
_OVERLAP = 10
_FARTHEST = 512  # frames
_KEY_FRAMES = 5.0
_NUMBERED = re.compile(r"(.*?)(\d+)(\.\w+)")


def choose_matcher(matcher: str, names: Sequence[str], is_video: bool, have_camera: bool) -> str:
    """ "exhaustive" or "sequential" for `matcher`, one of these or "auto".

    "auto": sequential for videos and folders of their frames, and above EXHAUSTIVE_LIMIT photographs. have_camera:
    whether photographs name a camera in their EXIF data, which frames of a video do not.
    """
    if matcher != "auto":
        return matcher
    is_sequence = is_video or (len(names) >= _MIN_SEQUENCE and not have_camera and are_frames(names))
    return "sequential" if (is_sequence and len(names) > _MIN_FRAMES) or len(names) > EXHAUSTIVE_LIMIT else "exhaustive"


def are_frames(names: Sequence[str]) -> bool:
    """Whether files are numbered without gaps, in even steps, and otherwise called the same."""
    found = [_NUMBERED.fullmatch(name) for name in names]
    parts = [match.groups() for match in found if match]
    if len(parts) < len(names) or len({(head, end.lower()) for head, _, end in parts}) > 1:
        return False
    numbers = sorted(int(number) for _, number, _ in parts)
    return len({after - before for before, after in pairwise(numbers)} - {0}) == 1


def sequential_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of each frame with the next 10 and with those 16, 32, ... 512 later, and all pairs of key frames.

    The former are those of COLMAP's sequential matcher. Key frames, evenly spread, close loops where a camera
    returns to an earlier place, for which COLMAP needs a vocabulary tree. Frames are in the order of their numbers,
    padded or not.
    """
    ordered = sorted(names, key=_natural)
    offsets = [*range(1, _OVERLAP + 1), *(2**k for k in range(4, _FARTHEST.bit_length()))]
    near = {(i, i + offset) for offset in offsets for i in range(len(ordered) - offset)}
    keys = evenly_spread(range(len(ordered)), math.isqrt(int(_KEY_FRAMES * len(ordered))))
    return [(ordered[i], ordered[j]) for i, j in sorted(near.union(combinations(keys, 2)))]


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key in which a2 comes before a10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part]
