"""A trained model: splats, and everything else that a render depends on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from splat_cli.field.color_field import ColorField
from splat_cli.gaussians.splats import Splats
from splat_cli.joint.appearance.camera_response import CameraResponse


@dataclass(frozen=True)
class TrainedModel:
    """Input of an evaluation. field: colours the splats, or None. background: RGB, 0 to 1; None: from the settings.

    responses: vignetting and response by camera id, with --appearance camera; applied only by evaluation.
    """

    splats: Splats
    field: ColorField | None = None
    background: tuple[float, float, float] | None = None
    responses: Mapping[int, CameraResponse] = dataclasses.field(default_factory=dict)
