"""Normalizers, one class per file; to add one, place a file in this folder."""
