"""Contexts: what a decoder reads from the source, one kind per file."""
