"""Windows, one class per file."""
