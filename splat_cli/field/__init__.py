"""Neural fields: encodings of positions and directions, a small network, and the colour field."""
