"""A study's runs as files of other tools, made with each tool's own library; `live` shows a sweep while it runs."""

from oneclock.export.exporters import FORMATS, export

__all__ = ["FORMATS", "export"]
