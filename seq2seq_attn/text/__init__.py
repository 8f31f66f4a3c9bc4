"""Text to token ids: corpora, tokenisers, vocabularies, codecs and batches. No tensors yet, except for word vectors."""
