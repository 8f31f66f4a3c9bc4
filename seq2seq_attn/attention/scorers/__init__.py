"""Scorers, one class per file; a file in this folder is all that a new one needs."""
