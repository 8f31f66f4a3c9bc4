"""Training of a translator, with checkpoints from which it continues exactly."""

LAST, PREVIOUS = "checkpoints/last.ckpt", "checkpoints/previous.ckpt"  # in a run folder
