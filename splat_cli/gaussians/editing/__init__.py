"""Selection, motion and decimation of splats."""
