"""Models for tests of density control."""

from types import SimpleNamespace

import numpy as np

from splat_cli.model.model import Model
from tests.gaussians.some_splats import some_splats

NUM = 400


def some_model(backend, dead=0, scale=0.03, num=NUM, capacity=NUM):
    """Splats of degree 1, identified by sh0: all opaque except the last `dead` ones; moments equal parameters."""
    arrays = some_splats(num, degree=1)
    arrays.log_scales = (np.log(scale) + 0.2 * arrays.log_scales).astype(np.float32)
    arrays.logit_opacities = np.where(np.arange(num) < num - dead, arrays.logit_opacities + 2, -9).astype(np.float32)
    model = Model(backend, arrays, capacity)
    model.moments[...] = model.splats.params[: len(model.moments)]
    return model


def host(model, rows="params"):
    """One of the model's planes as a NumPy array [rows, num]."""
    return model.backend.download(model.planes()[rows])[:, : model.num]


def index(backend, values):
    return backend.upload(np.asarray(values, np.int64))


def blames(model, blamed):
    """A scorer that spreads all error evenly over the splats `blamed`."""

    def scores(num_views):
        error = np.zeros(model.num, np.float32)
        error[list(blamed)] = 50
        return model.backend.upload(np.ones_like(error)), model.backend.upload(error)

    return SimpleNamespace(scores=scores)
