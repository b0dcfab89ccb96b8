"""Large scenes in blocks: a coarse run, cells trained within it, and their union."""
