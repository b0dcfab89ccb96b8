"""Large scenes in blocks: a coarse run, cells that are trained one by one within it, and their union."""
