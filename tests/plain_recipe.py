"""A recipe for models that learn a toy task by heart within seconds: a constant rate, and nothing that regularizes.

The process that distributes the tests reads this file too, and needs no torch.
"""

NO_DROPOUT = {"embedding": 0.0, "state": 0.0, "readout": 0.0}


def constant(learning_rate):
    """Values of `training` for this learning rate."""
    optimizer = {"learning_rate": learning_rate, "schedule": "constant", "warmup_steps": 0}
    return {"optimizer": optimizer, "label_smoothing": 0.0, "ema_decay": None}
