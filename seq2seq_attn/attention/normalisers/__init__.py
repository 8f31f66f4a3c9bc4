"""Normalisers, one class per file."""
