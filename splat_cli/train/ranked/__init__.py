"""Training by several ranks: shares of splats, views of a batch, and exchanges in a step."""
