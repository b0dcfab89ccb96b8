"""Splats in a browser: live from a server while they train, or packed into a page that needs no server."""
