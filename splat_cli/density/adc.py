"""Adaptive density control of 3DGS (Kerbl et al. 2023, sec. 5.2), with a hard cap."""

from __future__ import annotations

from typing import Any

import numpy as np

from splat_cli.config import ResolvedConfig
from splat_cli.density.operations import logit, sigmoid, split_random
from splat_cli.density.strategy import ErrorScorer
from splat_cli.gaussians.splats import LOG_SCALES, OPACITY
from splat_cli.optim.model import Model

DENSE_SCALE = 0.01  # of the scene's extent: smaller splats are cloned, larger ones split
HUGE_SCALE = 0.1  # of the scene's extent: removed, once opacities have been reset
RESET_OPACITY = 0.01


class ADCStrategy:
    """Clone or split where screen-space gradients are high, remove the transparent, reset opacities now and then."""

    collects_stats = True
    noise_scale = 0.0

    def __init__(self, config: ResolvedConfig, extent: float) -> None:
        self.config, self.extent = config, extent

    def due(self, step: int) -> bool:
        c = self.config
        inside = c.densify_start < step < c.densify_stop
        return inside and (step % c.densify_interval == 0 or step % c.opacity_reset_interval == 0)

    def refine(self, step: int, model: Model, scorer: ErrorScorer, random: np.random.Generator) -> None:
        if step % self.config.densify_interval == 0:
            self._grow(model, random)
            self._prune(model, after_reset=step > self.config.opacity_reset_interval)
            model.clear_stats()
        if step % self.config.opacity_reset_interval == 0:
            self._reset_opacities(model)

    def _grow(self, model: Model, random: np.random.Generator) -> None:
        xp, num = model.backend.xp, model.num
        mean_gradient = model.stats[0, :num] / xp.maximum(model.stats[1, :num], 1)
        chosen = xp.nonzero(mean_gradient >= self.config.grad_threshold)[0]
        room = max(self.config.max_splats - num, 0)
        if len(chosen) > room:
            chosen = chosen[xp.argsort(-mean_gradient[chosen])[:room]]
        if len(chosen) == 0:
            return
        columns = model.splats.params[:, chosen]
        small = xp.exp(columns[LOG_SCALES].max(axis=0)) <= DENSE_SCALE * self.extent
        children = split_random(xp, columns[:, ~small], random)
        parents = chosen[~small]
        clones = columns[:, small]
        model.reserve(num + len(chosen), self.config.max_splats)
        half = len(parents)
        model.replace(parents, children[:, :half])
        model.append(xp.concatenate([clones, children[:, half:]], axis=1))

    def _prune(self, model: Model, after_reset: bool) -> None:
        xp = model.backend.xp
        params: Any = model.splats.params[:, : model.num]
        prune_mask = sigmoid(xp, params[OPACITY]) < self.config.prune_opacity
        if after_reset:
            prune_mask |= xp.exp(params[LOG_SCALES].max(axis=0)) > HUGE_SCALE * self.extent
        model.remove(prune_mask)

    def _reset_opacities(self, model: Model) -> None:
        xp = model.backend.xp
        row = model.splats.params[OPACITY]
        row[...] = xp.minimum(row, np.float32(logit(np, np.float32(RESET_OPACITY))))
        model.moments.first[OPACITY] = 0
        model.moments.second[OPACITY] = 0
