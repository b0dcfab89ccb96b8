"""Folders of kernel sources and presets: in the installed package, or at the top of a checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def resource_dir(name: str) -> Path:
    """Folder `name` ("cuda_src" or "configs"): the wheel's copy if there is one, otherwise the checkout's."""
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name
