"""Several processes that train one model together, a GPU each: who owns which splats, and how they exchange data."""
