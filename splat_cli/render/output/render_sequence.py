"""Rendering of many views to files; files that are up to date are kept. Views of lower resolution are supersampled.

Antialiasing assumes that the splats in a pixel overlap at random, but training placed them side by side. At training
resolution they render correctly, and the image can be downscaled like a photograph.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from splat_cli import __version__
from splat_cli.device import Backend
from splat_cli.gaussians.splats import Splats
from splat_cli.processes.threads import run_in_threads
from splat_cli.render.images import png_names, refuse_foreign
from splat_cli.render.output.camera_rigs import CameraRig, SingleCamera
from splat_cli.render.output.frame_files import FrameFiles
from splat_cli.render.rasterizer import Coloring
from splat_cli.render.rendered_maps import RenderedMaps, render_maps
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.view import View

MAX_SAMPLES = 4


def samples_as_fine(views: Sequence[View], trained: Sequence[View]) -> int:
    """Samples per pixel and axis that give `views` the resolution of `trained`: 1 to MAX_SAMPLES."""
    if not views or not trained:
        return 1
    ratio = np.median([view.fy for view in trained]) / np.median([view.fy for view in views])
    return int(np.clip(round(float(ratio)), 1, MAX_SAMPLES))


def finer(view: View, samples: int) -> View:
    """The view at `samples` times the resolution."""
    return view.resized(view.width * samples, view.height * samples)


def coarser(frame: RenderedMaps, samples: int) -> RenderedMaps:
    """The frame of a view, from the frame of its `finer` view.

    Colours and alpha are resampled like photographs (scene/images/decode.py); depths and normals are means over the
    samples that have a value.
    """
    if samples == 1:
        return frame
    color = np.stack([_lanczos(channel, samples) for channel in np.moveaxis(frame.color, -1, 0)], axis=-1)
    alpha = depth = normal = None
    if frame.alpha is not None:
        alpha = np.clip(_lanczos(frame.alpha, samples), 0, 1)
    if frame.depth is not None:
        depth = _sums(frame.depth, samples) / np.maximum(_sums(frame.depth > 0, samples), 1)
    if frame.normal is not None:
        total = _sums(frame.normal, samples)
        normal = total / np.maximum(np.linalg.norm(total, axis=-1, keepdims=True), 1e-12)
    return RenderedMaps(color, alpha, depth, normal)


def _lanczos(plane: np.ndarray, samples: int) -> np.ndarray:
    """Downscale float32 [H samples, W samples] to [H, W]."""
    height, width = plane.shape
    size = width // samples, height // samples
    return np.asarray(Image.fromarray(np.ascontiguousarray(plane)).resize(size, Image.Resampling.LANCZOS))


def _sums(values: np.ndarray, samples: int) -> np.ndarray:
    """Block sums of [H samples, W samples, ...], float32 [H, W, ...]."""
    height, width, *channels = values.shape
    blocks = values.reshape(height // samples, samples, width // samples, samples, *channels)
    return blocks.sum(axis=(1, 3), dtype=np.float32)


_WRITERS = min(8, os.cpu_count() or 1)
"""Threads that compress and write files, which takes longer than rendering on a GPU."""


@dataclass(frozen=True)
class RenderSettings:
    """Rendering options and files to write."""

    background: tuple[float, float, float] = (0.0, 0.0, 0.0)
    antialias: bool = False
    rig: CameraRig = field(default_factory=SingleCamera)
    samples: int = 1
    """Samples per pixel and axis."""
    files: FrameFiles = field(default_factory=FrameFiles)
    novel_views: bool = False
    """See ViewRenderer."""


@dataclass
class SequenceResult:
    """Image files in the order of the views, number of frames kept, number of frames with clamped depths."""

    pictures: list[Path]
    num_kept: int = 0
    num_cut: int = 0


def render_sequence(
    backend: Backend,
    splats: Splats,
    views: Sequence[View],
    folder: Path,
    settings: RenderSettings,
    source: str | None = None,
    on_frame: Callable[[int], object] = lambda count: None,
    colorings: Callable[[Sequence[int]], Coloring] | None = None,
) -> SequenceResult:
    """Render each view and write the files that `settings.files` selects, named after the view, into `folder`.

    UsageError if that would overwrite an image of another program. source: digest of the splats' file; with it, frames
    are kept if all their files carry the key of the same source, view and settings. on_frame: called with the
    number of frames just done. colorings: colour models by view number, used instead of spherical harmonics; frames of
    another number are then others.
    """
    pictures = [folder / name for name in png_names([view.name for view in views], settings.files.maps)]
    paths = [settings.files.paths(picture, folder) for picture in pictures]
    kinds = [f"{source} {number}" if colorings else source or "" for number in range(len(views))]
    keys = ["" if source is None else frame_key(kind, view, settings) for kind, view in zip(kinds, views, strict=True)]
    missing = [i for i in range(len(views)) if source is None or not settings.files.are_there(paths[i], keys[i])]
    refuse_foreign(path for i in missing for path in paths[i].values())
    written = SequenceResult(pictures, num_kept=len(views) - len(missing))
    on_frame(written.num_kept)
    if missing:
        cameras = [[finer(camera, settings.samples) for camera in settings.rig.views(views[i])] for i in missing]
        numbers = [i for i, several in zip(missing, cameras, strict=True) for _ in several]
        coloring = colorings(numbers) if colorings else None
        every = [camera for several in cameras for camera in several]
        renderer = ViewRenderer(backend, splats, every, settings.antialias, coloring, settings.novel_views)

        def writes() -> Iterator[Callable[[], None]]:
            for i, frame in zip(missing, _frames(renderer, settings, len(every) // len(cameras)), strict=True):
                written.num_cut += settings.files.exceeds_range(frame)
                yield partial(settings.files.save, frame, paths[i], keys[i])

        for _ in run_in_threads(writes(), _WRITERS):
            on_frame(1)
    return written


def _frames(renderer: ViewRenderer, settings: RenderSettings, cameras_each: int) -> Iterator[RenderedMaps]:
    """Frames of all the renderer's views, each joined from consecutive cameras."""
    background = (0.0, 0.0, 0.0) if settings.files.transparent else settings.background
    maps, distances = settings.files.needed_maps, settings.rig.distances
    for first in range(0, len(renderer.cameras.views), cameras_each):
        numbers = range(first, first + cameras_each)
        frames = [render_maps(renderer, n, background, maps, distances) for n in numbers]
        yield settings.rig.join([coarser(frame, settings.samples) for frame in frames])


def frame_key(source: str, view: View, settings: RenderSettings) -> str:
    """Digest of everything that determines the contents of a frame's files, except the device and the name."""
    files = settings.files
    camera = [
        view.width,
        view.height,
        view.fx,
        view.fy,
        view.cx,
        view.cy,
        *view.radial,
        repr(view.distortion),
        repr(view.rolling_shutter),
        view.w2c.tolist(),
    ]
    shown = [settings.background, settings.antialias, repr(settings.rig), settings.samples]
    shown += [files.transparent, files.depth_levels]
    shown += ["novel"] if settings.novel_views else []
    return hashlib.sha256(json.dumps([__version__, source, camera, shown]).encode()).hexdigest()
