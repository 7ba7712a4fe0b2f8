"""What a person types: ``headrace serve``, ``predict``, ``demo``, ``docs`` and ``version``."""

from headrace.cli.command import main

__all__ = ["main"]
