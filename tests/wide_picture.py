"""Pictures with detail at all scales, and photographs that are overlapping parts of one."""

import numpy as np
from PIL import Image

SIZE = (320, 240)


def wide_picture(width, height, seed=0):
    """Random colours whose contrast is equal at all scales, as in photographs."""
    rng = np.random.default_rng(seed)
    total = np.zeros((height, width, 3))
    for scale in (1, 2, 4, 8, 16, 32):
        noise = rng.integers(0, 256, (-(-height // scale), -(-width // scale), 3), dtype=np.uint8)
        total += np.asarray(Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC), float)
    total -= total.mean()
    return Image.fromarray(np.clip(128 + 55 * total / total.std(), 0, 255).astype(np.uint8))


def crops(folder, count, step=60):
    """`count` photographs a_00.png, ... of SIZE; each shows the wide picture `step` pixels further right."""
    width, height = SIZE
    picture = wide_picture(width + step * count, height)
    paths = [folder / f"a_{number:02d}.png" for number in range(count)]
    for number, path in enumerate(paths):
        picture.crop((step * number, 0, step * number + width, height)).save(path)
    return paths
