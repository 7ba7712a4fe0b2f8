"""What a person types: ``headrace serve``, ``config``, ``predict``, ``bench``, ``demo``, ..."""

from headrace.cli.command import main

__all__ = ["main"]
