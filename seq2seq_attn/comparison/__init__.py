"""Arms x seeds: the experiment file, what is missing of it, where it runs, and the statistics put together."""
