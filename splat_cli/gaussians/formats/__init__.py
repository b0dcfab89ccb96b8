"""Files of splats: each format in a file of its own, all of them in one table."""

from splat_cli.gaussians.formats.table import FORMATS, format_for, read_splats, write_splats

__all__ = ["FORMATS", "format_for", "read_splats", "write_splats"]
