"""Exports of photogrammetry programs and phone apps: camera poses and lenses of photographs."""
