"""Jobs of the coarse run, for one GPU or several."""

from __future__ import annotations

import dataclasses

from splat_cli.commands.city.city import City
from splat_cli.config import TrainConfig
from splat_cli.engine.job import Job, resumed_on, train_job
from splat_cli.run.ranks import rank_counts


def coarse_jobs(city: City) -> dict[int, Job]:
    """The job for each number of GPUs with which the result is that of one; resumes what any of them has begun.

    One GPU only in cities without a record of the coarse run's batch.
    """
    config = city.coarse_config()
    sizes = [1, *(rank_counts(config) if city.coarse_batch else [])]
    return {size: _job(city, dataclasses.replace(config, gpus=size)) for size in sizes}


def _job(city: City, config: TrainConfig) -> Job:
    return resumed_on(train_job("coarse", city.scene, city.coarse.path, config, city.device), config.gpus)
