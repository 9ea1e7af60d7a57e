"""Trained models in the formats of search engines and other libraries."""

from luce.export.run import Export, export_model, targets

__all__ = ["Export", "export_model", "targets"]
