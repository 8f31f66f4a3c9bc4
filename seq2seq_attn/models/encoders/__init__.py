"""Encoders of sources that are not text, one class per file. Importing this package registers their kinds."""
