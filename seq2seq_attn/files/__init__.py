"""Reading and writing files: what their bytes are, typed records, whole files or none, locks, and the manifest."""
