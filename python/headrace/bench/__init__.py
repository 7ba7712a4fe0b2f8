"""The load generator behind ``headrace bench``.

A `Plan` says what to send and when; processes of their own carry it out (`process`, `drive`) and
report what they `record`; `report` and `plot` show it. Needs the extra ``bench``.
"""
