"""report.html: summary of a run in one file."""

from splat_cli.report.write import try_report, write_report

__all__ = ["try_report", "write_report"]
