"""Changed .spz files, and files like those of other programs."""

import gzip

from splat_cli.gaussians.formats import write_splats
from splat_cli.gaussians.formats.spz import to_ply_axes


def rewrite_spz(path, change):
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()))))


def forget_axes(path):
    """Removes the extension from a file of version 3."""
    rewrite_spz(path, lambda content: content[:14] + b"\0" + content[15:-12])


def write_unstated_rdf(path, splats):
    """A file in the axes of a PLY that does not state its axes, as SuperSplat's editor writes it."""
    write_splats(path, to_ply_axes(splats, "RUB"))  # the writer reverses this
    forget_axes(path)
