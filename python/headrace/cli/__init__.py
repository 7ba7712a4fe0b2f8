"""What a person types: ``headrace serve``, ``config``, ``predict``, ``demo``, ``docs``."""

from headrace.cli.command import main

__all__ = ["main"]
