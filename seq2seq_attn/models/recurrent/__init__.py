"""The recurrent encoder-decoder: cells, encoder, three decoders, and the translator made of them."""
