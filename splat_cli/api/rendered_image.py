"""The image type of the Python API."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from splat_cli.errors import UsageError
from splat_cli.io.files import replacing


@dataclass(frozen=True, eq=False)
class RenderedImage:
    """A picture: `pixels` is uint8 [H, W, 3]. NumPy takes it as an array, and a notebook shows it.

    image = result.render(0)
    image.pixels.shape                  # (144, 192, 3)
    image.save("view.png")
    """

    pixels: np.ndarray

    def save(self, path: str | Path) -> None:
        """Write the picture to a file; its suffix chooses the format: .png, .jpg, .webp, ...

        UsageError for an unknown suffix.
        """
        path = Path(path)
        kind = Image.registered_extensions().get(path.suffix.lower())
        if kind is None:
            raise UsageError(f"{path} has no suffix of a picture: expected a name that ends in .png, .jpg or .webp")
        with replacing(path) as temporary:
            Image.fromarray(self.pixels).save(temporary, format=kind)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.pixels, dtype) if copy else np.asarray(self.pixels, dtype)

    def __repr__(self) -> str:
        height, width = self.pixels.shape[:2]
        return f"RenderedImage({width}x{height})"

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        Image.fromarray(self.pixels).save(file, format="PNG")
        return file.getvalue()
