"""The Transformer: layers of self-attention, encoder, decoder, and the translator that combines them."""
