"""Contexts: what a decoder sees of the source."""
