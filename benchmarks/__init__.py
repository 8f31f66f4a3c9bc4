"""Speed of training and decoding, compared with the floor of this machine and with other toolkits.

Every measurement runs in a process of its own, and the systems take turns (`sitting`): machines are noisy, and memory
that one system does not release must not affect the next. `python -m benchmarks --help` lists the options.
"""
