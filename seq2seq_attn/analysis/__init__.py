"""What a trained model does: its alignments, its attention weights as files, their faithfulness, its beam search."""
