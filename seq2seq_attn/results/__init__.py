"""The records of an experiment's results, which comparison and analysis write and the report reads.

`results` defines those of results.json, `observations` those of the files beside it; `records` reads and writes them.
"""
