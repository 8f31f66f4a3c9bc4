"""The records of an experiment's results, which comparison and analysis write and the report reads."""
