"""The Python interface: corpora, training, comparisons, models and scores, and the records that they return.

`seq2seq_attn` exports these names, beside those of the instruments (`check`, `scorers`, `walk`, `bench`), and imports
their modules on first use. The command line is built on them. Mistakes of the user raise `UserError`. Nothing here
changes global state of the calling process.
"""
