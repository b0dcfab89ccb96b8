"""Image files of odd sizes, modes and formats."""

import io

import numpy as np
from PIL import Image

from tests.fuzz.trees import odd_bytes


def picture(rng, formats=("WEBP", "PNG", "JPEG", "TIFF", "GIF", "BMP", "PPM")):
    """An image file of any format, mode and size; some have far more pixels than bytes."""
    size = [(1, 1), (4, 4), (40, 30), (30, 40), (64, 2), (1, 300), (400, 300), (3000, 2000), (12_000, 9000)][
        rng.choice(9, p=[0.1, 0.1, 0.3, 0.1, 0.1, 0.1, 0.14, 0.04, 0.02])
    ]
    kind = str(rng.choice(formats))
    mode = str(rng.choice(["RGB", "RGBA", "L", "LA", "P", "1", "CMYK", "I", "F", "I;16", "YCbCr"]))
    if size[0] * size[1] < 1_000_000 and rng.random() < 0.8:
        image = Image.fromarray(
            np.frombuffer(odd_bytes(size[0] * size[1] * 3, rng), np.uint8).reshape(size[1], size[0], 3)
        )
    else:
        image, mode = Image.new("RGB", size), "RGB" if size[0] > 5000 else mode
    if mode in ("I", "F", "I;16"):
        image = Image.fromarray(_numbers(size, mode, rng))
    elif mode != "RGB":
        image = image.convert(mode)
    stream = io.BytesIO()
    more = (
        {"save_all": True, "append_images": [image] * 3}
        if kind in ("GIF", "TIFF", "WEBP") and rng.random() < 0.2
        else {}
    )
    try:
        image.save(stream, kind, **more)
    except (OSError, KeyError, ValueError):  # the format does not support this mode
        image.convert("RGB").save(stream, kind)
    return stream.getvalue()


def _numbers(size, mode, rng):
    shape = (size[1], size[0])
    if mode == "F":
        return rng.choice(np.array([0, 0.5, 1, np.nan, np.inf, -np.inf, 1e38, -1], np.float32), shape)
    high = {"I": [0, 255, 65535, 2**31 - 1, -(2**31)], "I;16": [0, 255, 65535]}[mode]
    return rng.choice(np.array(high, np.int32 if mode == "I" else np.uint16), shape)


def forge_photograph(whole, rng):
    if rng.random() < 0.03:
        return b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 40 30\n%%EndComments\nshowpage\n"
    return picture(rng)
