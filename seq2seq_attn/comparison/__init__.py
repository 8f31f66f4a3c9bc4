"""Comparisons: the experiment file, the scheduling of missing runs, and the statistics over all runs."""
