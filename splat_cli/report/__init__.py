"""report.html: how a run went, in one file for people."""

from splat_cli.report.write import try_report, write_report

__all__ = ["try_report", "write_report"]
