"""Training by several ranks: shares of splats, views of a batch, and what the ranks exchange in a step."""
