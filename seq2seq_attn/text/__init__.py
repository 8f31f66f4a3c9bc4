"""Text to token ids: corpora, tokenizers, vocabularies, codecs and batches. No tensors yet, except for word vectors."""
