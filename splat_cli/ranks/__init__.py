"""Several processes that train one model together, each on its GPU: who owns which splats, how they exchange data."""
