"""Contexts: what a decoder sees of the source, one kind per file."""
