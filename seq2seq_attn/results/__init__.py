"""The records of an experiment's results; comparison and analysis write them, the report reads them.

Each file of a results folder has its records in one module; `metrics` is what a run is scored by.
"""
