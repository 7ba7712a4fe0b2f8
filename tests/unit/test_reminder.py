from __future__ import annotations

import itertools

from headrace.server.reminder import Reminder


def due(reminder: Reminder, text: str, seconds: range) -> list[int]:
    return [second for second in seconds if reminder.is_due(text, second)]


def test_lasting_trouble_is_told_ever_more_rarely() -> None:
    minute = 60
    told = due(Reminder(), "missing", range(24 * 60 * minute))
    assert [second // minute for second in told[:8]] == [0, 1, 3, 7, 15, 31, 63, 123]
    assert {later - earlier for earlier, later in itertools.pairwise(told[8:])} == {3600}


def test_change_is_told_at_once() -> None:
    reminder = Reminder()
    assert [reminder.is_due(text, 0) for text in "aabba"] == [True, False, True, False, True]


def test_end_of_trouble_is_silence_and_its_return_is_news() -> None:
    reminder = Reminder()
    assert [reminder.is_due(text, 0) for text in ("a", "", "", "a")] == [True, False, False, True]
    assert not reminder.is_due("", 1e9)
