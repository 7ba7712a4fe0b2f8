"""Requests, admission, batch policy, lifecycle and the registry of what is served. No I/O."""
