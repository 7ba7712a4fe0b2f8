"""Protocols: each module turns one protocol's bytes into the core's requests and back. Sans-IO."""
