"""The Python interface: train, load and compare, and the records that a model returns.

`seq2seq_attn` exports these names and imports their modules on first use. The command line is built on them. Mistakes
of the user raise `UserError`. Nothing here changes global state of the calling process.
"""
