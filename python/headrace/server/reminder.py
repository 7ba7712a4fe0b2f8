"""How often a lasting trouble is put into the log: when it changes, then ever more rarely."""

from __future__ import annotations

__all__ = ["Reminder"]

_FIRST_S = 60.0
_LIMIT_S = 3600.0


class Reminder:
    """Decides whether a text is due. Time is passed in."""

    def __init__(self) -> None:
        self._text = ""
        self._due_s = 0.0
        self._pause_s = _FIRST_S

    def is_due(self, text: str, now_s: float) -> bool:
        """Whether to log the text now: it is new, or its pause is over, which doubles each time.

        An empty text says that the trouble is over, and is never due.
        """
        if text != self._text:
            self._text, self._pause_s = text, _FIRST_S
        elif now_s < self._due_s:
            return False
        else:
            self._pause_s = min(self._pause_s * 2, _LIMIT_S)
        self._due_s = now_s + self._pause_s
        return bool(text)
