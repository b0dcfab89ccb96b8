"""3D Gaussian Splatting: photographs in, splats out."""

__version__ = "0.1.0"
