"""Analysis of trained models: alignments, files of attention weights, their faithfulness, traces of a beam search."""
