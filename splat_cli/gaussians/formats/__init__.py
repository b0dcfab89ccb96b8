"""File formats of splats: one module per format, listed in one table."""

from splat_cli.gaussians.formats.table import FORMATS, format_for, read_splats, write_splats

__all__ = ["FORMATS", "format_for", "read_splats", "write_splats"]
