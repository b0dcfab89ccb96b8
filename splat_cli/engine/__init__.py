"""Jobs: commands in processes of their own, on this machine or on the workers of a Dask cluster."""
