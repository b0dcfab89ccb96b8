"""Jobs: commands in separate processes, on this machine or on the workers of a Dask cluster."""
