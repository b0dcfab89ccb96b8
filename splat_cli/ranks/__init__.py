"""Several processes that train one model together, each on its own GPU: ownership of splats, and data exchange."""
