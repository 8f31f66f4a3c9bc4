"""The package as a user of Python has it: train, load and compare, and records of what a model answers.

`seq2seq_attn` gives these names, and imports what they need when they are first used. The command line is built on
them. Errors of the user raise `UserError`. Nothing here changes the process that calls it.
"""
