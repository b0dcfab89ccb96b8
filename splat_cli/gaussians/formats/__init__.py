"""File formats of splats: one module per format, listed in table.py. To add one: docs/extending.md."""

from splat_cli.gaussians.formats.table import FORMATS, format_for, read_splats, with_ending, write_splats

__all__ = ["FORMATS", "format_for", "read_splats", "with_ending", "write_splats"]
