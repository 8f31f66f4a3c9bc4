"""What a model reads and writes: corpora, tokenizers, vocabularies, codecs, token ids and batches."""
