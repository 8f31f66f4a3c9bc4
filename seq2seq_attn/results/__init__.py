"""The records of an experiment's results; comparison and analysis write them, the report reads them.

`results` defines those of results.json, `observations` those of the other files; `metrics` what a run is scored by.
"""
