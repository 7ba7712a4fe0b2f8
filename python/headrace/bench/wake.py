"""A timer of the kernel: event loops count milliseconds, arrivals need microseconds."""

from __future__ import annotations

import ctypes
import math
import os
import time

__all__ = ["WakeUp"]

_ABSOLUTE = 1  # TFD_TIMER_ABSTIME


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class WakeUp:
    """A descriptor that becomes readable at a time: timerfd(2), which Python has from 3.13 on."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor: int = self._checked(
            self._libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        )

    def set(self, at: float) -> None:
        """Become readable at this time of `time.monotonic`, at once where it has passed.

        Until then it is not, whatever was set before: there is no need to read it.
        """
        fraction, seconds = math.modf(max(at, 1e-9))  # 0 would disarm it
        value = _Timespec(int(seconds), int(fraction * 1e9))
        setting = _Itimerspec(_Timespec(0, 0), value)
        self._checked(
            self._libc.timerfd_settime(self.descriptor, _ABSOLUTE, ctypes.byref(setting), None)
        )

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.descriptor)

    @staticmethod
    def _checked(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
