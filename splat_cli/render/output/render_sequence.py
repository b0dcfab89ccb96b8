"""Rendering of many views to files; files that are up to date are kept."""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from splat_cli import __version__
from splat_cli.device import Backend
from splat_cli.gaussians.splats import Splats
from splat_cli.render.frame import RenderOutput, render_frame
from splat_cli.render.output.camera_rigs import CameraRig, SingleCamera
from splat_cli.render.output.frame_files import FrameFiles
from splat_cli.render.output.supersampling import coarser, finer
from splat_cli.render.pictures import png_names, refuse_foreign
from splat_cli.render.rasterizer import Coloring
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.view import View

_WRITERS = min(8, os.cpu_count() or 1)
"""Threads that compress and write files: on a GPU that takes many times longer than rendering."""


@dataclass(frozen=True)
class RenderSettings:
    """How views are shown, and what is written of them."""

    background: tuple[float, float, float] = (0.0, 0.0, 0.0)
    antialias: bool = False
    rig: CameraRig = field(default_factory=SingleCamera)
    samples: int = 1
    """across a pixel, and as many down"""
    files: FrameFiles = field(default_factory=FrameFiles)


@dataclass
class SequenceResult:
    """The pictures in the order of the views; how many frames were there before, how many depths a file cuts."""

    pictures: list[Path]
    num_kept: int = 0
    num_cut: int = 0


def render_sequence(
    backend: Backend,
    splats: Splats,
    views: Sequence[View],
    folder: Path,
    look: RenderSettings,
    source: str | None = None,
    on_frame: Callable[[int], object] = lambda count: None,
    colorings: Callable[[Sequence[int]], Coloring] | None = None,
) -> SequenceResult:
    """Writes what `look.files` says for each view, named after the view, into `folder`.

    Raises UsageError where that would replace a picture that somebody else made.
    source: what the splats are, a digest of their file. With it, frames are kept whose files all carry the key of the
    same source, view and look. on_frame: called with the number of frames just done. colorings: for the number of each
    camera's view, what colours the splats in place of their harmonics.
    """
    pictures = [folder / name for name in png_names([view.name for view in views])]
    paths = [look.files.paths(picture, folder) for picture in pictures]
    keys = ["" if source is None else frame_key(source, view, look) for view in views]
    missing = [i for i in range(len(views)) if source is None or not look.files.are_there(paths[i], keys[i])]
    refuse_foreign(path for i in missing for path in paths[i].values())
    written = SequenceResult(pictures, num_kept=len(views) - len(missing))
    on_frame(written.num_kept)
    if missing:
        cameras = [[finer(camera, look.samples) for camera in look.rig.views(views[i])] for i in missing]
        numbers = [i for i, several in zip(missing, cameras, strict=True) for _ in several]
        coloring = colorings(numbers) if colorings else None
        every = [camera for several in cameras for camera in several]
        renderer = ViewRenderer(backend, splats, every, look.antialias, coloring)
        with ThreadPoolExecutor(_WRITERS) as pool:
            writing: deque[Future[None]] = deque()
            for i, frame in zip(missing, _frames(renderer, look, len(every) // len(cameras)), strict=True):
                written.num_cut += look.files.cuts(frame)
                writing.append(pool.submit(look.files.save, frame, paths[i], keys[i]))
                while len(writing) > (_WRITERS if i != missing[-1] else 0):
                    writing.popleft().result()
                    on_frame(1)
    return written


def _frames(renderer: ViewRenderer, look: RenderSettings, cameras_each: int) -> Iterator[RenderOutput]:
    """The frames of all the renderer's views, each taken by so many of them in a row."""
    background = (0.0, 0.0, 0.0) if look.files.transparent else look.background
    maps, distances = look.files.needed_maps, look.rig.distances
    for first in range(0, len(renderer.cameras.views), cameras_each):
        numbers = range(first, first + cameras_each)
        frames = [render_frame(renderer, n, background, maps, distances) for n in numbers]
        yield look.rig.join([coarser(frame, look.samples) for frame in frames])


def frame_key(source: str, view: View, look: RenderSettings) -> str:
    """A digest of all that decides what a frame's files show, but for the device and the name."""
    files = look.files
    camera = [view.width, view.height, view.fx, view.fy, view.cx, view.cy, view.w2c.tolist()]
    shown = [look.background, look.antialias, repr(look.rig), look.samples, files.transparent, files.depth_levels]
    return hashlib.sha256(json.dumps([__version__, source, camera, shown]).encode()).hexdigest()
