"""Three ways to sort splat-tile pairs: a sort per tile (ours), CuPy's sort, and cuda.compute of the package cuda-cccl.

The two global sorts get keys of tile and depth, and the splat as value. In ours, each pair is already in the range
of its tile, because `project` has counted pairs. Lists are as uneven as in a picture (log-normal). Example:

  python scripts/bench/bench_sorts.py --pairs 500000,1500000
"""

from __future__ import annotations

from collections.abc import Callable

import click
import numpy as np
from timing import median_ms

from splat_cli.device import Backend, DeviceArray, ceil_div, open_backend
from splat_cli.render.camera import TILE, CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.tiles import SORT_DEFINES, SORT_THREADS, TileLists
from splat_cli.scene.view import View

REPEATS = 30


def tile_lengths(num_pairs: int, num_tiles: int, rng: np.random.Generator) -> np.ndarray:
    """Lengths of the tiles' lists, int64 [num_tiles], with the sum num_pairs."""
    weights = rng.lognormal(0.0, 1.0, num_tiles)
    return rng.multinomial(num_pairs, weights / weights.sum())


def sort_per_tile(backend: Backend, view: View, lengths: np.ndarray, depths: np.ndarray) -> Callable[[], None]:
    cameras, state = CameraTable(backend, [view]), IterState(backend, num_splats=len(depths))
    lists = TileLists(backend, len(depths), len(lengths))
    lists.tile_begins[...] = backend.upload(np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32))
    lists.tile_order[...] = backend.upload(np.argsort(-lengths).astype(np.uint32))
    splats = np.arange(len(depths), dtype=np.uint64)
    unsorted = backend.upload(depths.view(np.uint32).astype(np.uint64) << np.uint64(32) | splats)

    def sort() -> None:
        lists.keys[...] = unsorted
        backend.kernel("raster/sort_tiles", "sort_tiles", **SORT_DEFINES[backend.name])(
            (len(lengths),),
            (SORT_THREADS[backend.name],),
            cameras.array,
            state.array,
            lists.tile_order,
            lists.tile_begins,
            lists.keys,
            lists.splat_from_pair,
        )

    return sort


def sort_with_cccl(backend: Backend, keys: DeviceArray, values: DeviceArray, num_bits: int) -> Callable[[], None]:
    """Raises ImportError if cuda-cccl is missing."""
    from cuda.compute import SortOrder, radix_sort

    out_keys, out_values = backend.xp.empty_like(keys), backend.xp.empty_like(values)
    return lambda: radix_sort(
        d_in_keys=keys,
        d_out_keys=out_keys,
        d_in_values=values,
        d_out_values=out_values,
        num_items=len(keys),
        order=SortOrder.ASCENDING,
        begin_bit=0,
        end_bit=num_bits,
    )


def bench(backend: Backend, num_pairs: int, width: int, height: int) -> dict[str, float]:
    """Milliseconds of each sort."""
    rng = np.random.default_rng(0)
    view = View("bench", None, width, height, 800.0, 800.0, width / 2, height / 2, np.eye(4))
    lengths = tile_lengths(num_pairs, ceil_div(width, TILE) * ceil_div(height, TILE), rng)
    depths = rng.uniform(1, 20, num_pairs).astype(np.float32)
    tiles = np.repeat(np.arange(len(lengths), dtype=np.uint64), lengths)
    shuffled = rng.permutation(num_pairs)
    keys = backend.upload((tiles << np.uint64(32) | depths.view(np.uint32))[shuffled])
    values = backend.upload(shuffled.astype(np.uint32))
    times = {"sort_tiles": median_ms(backend, sort_per_tile(backend, view, lengths, depths), REPEATS)}
    times["argsort of CuPy"] = median_ms(backend, lambda: values[backend.xp.argsort(keys)], REPEATS)
    try:
        num_bits = 32 + int(len(lengths) - 1).bit_length()
        times["cuda.compute"] = median_ms(backend, sort_with_cccl(backend, keys, values, num_bits), REPEATS)
    except ImportError as error:
        print(f"cuda.compute not measured: {error}")
    return times


@click.command()
@click.option("--pairs", default="500000,1500000")
@click.option("--size", default="800x533", help="Size of the picture, WxH.")
@click.option("--device", default="auto")
def main(pairs: str, size: str, device: str) -> None:
    backend = open_backend(device)
    width, height = map(int, size.split("x"))
    for num_pairs in map(int, pairs.split(",")):
        times = bench(backend, num_pairs, width, height)
        print(f"{num_pairs} pairs {size}: " + ", ".join(f"{name} {ms:.3f} ms" for name, ms in times.items()))


if __name__ == "__main__":
    main()
