"""A camera of every perspective model of COLMAP, with a visible distortion."""

from splat_cli.scene.colmap.model import Camera

_PARAMETERS = {
    "SIMPLE_RADIAL": (130, 82, 58, -0.12),
    "RADIAL": (130, 82, 58, -0.15, 0.05),
    "OPENCV": (130, 127, 82, 58, -0.15, 0.05, 0.004, -0.003),
    "FULL_OPENCV": (130, 127, 82, 58, 0.2, 0.05, 0.004, -0.003, 0.01, 0.3, 0.02, 0.01),
    "OPENCV_FISHEYE": (110, 108, 82, 58, -0.04, 0.02, -0.01, 0.002),
    "SIMPLE_RADIAL_FISHEYE": (110, 82, 58, -0.05),
    "RADIAL_FISHEYE": (110, 82, 58, -0.05, 0.01),
    "SIMPLE_FISHEYE": (110, 82, 58),
    "FISHEYE": (110, 108, 82, 58),
    "THIN_PRISM_FISHEYE": (110, 108, 82, 58, -0.04, 0.02, 0.003, -0.002, -0.01, 0.002, 0.004, -0.003),
    "RAD_TAN_THIN_PRISM_FISHEYE": (
        110,
        108,
        82,
        58,
        -0.04,
        0.02,
        -0.01,
        0.002,
        0.001,
        -0.001,
        0.003,
        -0.002,
        0.004,
        -0.001,
        -0.003,
        0.002,
    ),
    "FOV": (110, 108, 82, 58, 0.9),
    "SIMPLE_DIVISION": (130, 82, 58, -0.15),
    "DIVISION": (130, 127, 82, 58, -0.15),
    "EUCM": (130, 127, 82, 58, 0.55, 1.1),
}


def distorted_cameras(width=160, height=120):
    """Cameras of 160x120 pixels, or of another size with scaled parameters."""
    return [
        Camera(number, name, width, height, _scaled(name, params, width / 160))
        for number, (name, params) in enumerate(_PARAMETERS.items(), 1)
    ]


def _scaled(name, params, scale):
    num_pixels = 3 if name.startswith("SIMPLE") or name in ("RADIAL", "RADIAL_FISHEYE") else 4
    return tuple(float(p) * (scale if i < num_pixels else 1) for i, p in enumerate(params))
