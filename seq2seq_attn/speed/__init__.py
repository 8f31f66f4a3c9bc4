"""Speed of training and decoding, compared with a lower bound for this machine and with other toolkits.

Every measurement runs in a process of its own, and the systems take turns (`sitting`): machines are noisy, and memory
that one system does not release must not affect the next.
"""
