"""Scorers, one class per file."""
