"""Training of a translator, with checkpoints from which it continues exactly."""

# In a run folder:
LAST, PREVIOUS = "checkpoints/last.safetensors", "checkpoints/previous.safetensors"
CURVES = "log/metrics.csv"
