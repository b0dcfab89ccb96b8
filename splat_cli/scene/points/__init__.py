"""Points of a scene: random ones, point clouds, observations in photographs."""
