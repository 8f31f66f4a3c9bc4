"""What a trained model does: scores on a test set, alignment, faithfulness, interventions, weights in files."""
