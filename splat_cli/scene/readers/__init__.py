"""Exports of photogrammetry programs and of phone apps: camera poses and lenses beside photographs."""
