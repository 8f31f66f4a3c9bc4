"""Text in, ids out: corpora, tokenisers, vocabularies, codecs and batches. Tensors are made in training."""
