"""The process that runs one model version, and its supervision."""
