"""Comparisons: the experiment file, the runs that are missing, where they run, and the statistics over all of them."""
