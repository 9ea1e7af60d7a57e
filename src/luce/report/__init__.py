"""A finished comparison as one HTML page: no server, no network, nothing to install."""

from luce.report.build import Built, build_report, write_report

__all__ = ["Built", "build_report", "write_report"]
