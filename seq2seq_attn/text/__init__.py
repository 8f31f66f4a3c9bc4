"""Text in, ids out: corpora, tokenisers, vocabularies, codecs and batches. No tensors here; training makes them."""
