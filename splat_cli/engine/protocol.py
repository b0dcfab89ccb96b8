"""The interface of all engines."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from splat_cli.engine.job import Job, JobResult


class Engine(Protocol):
    """Runs jobs, as many at a time as there are devices or workers, by priority and then in the order of submission."""

    def submit(self, job: Job) -> None:
        """Queue a job; it may start at once."""

    def results(self) -> Iterator[JobResult]:
        """Results of the submitted jobs as they finish, until none is left; further jobs may be submitted meanwhile.

        KeyboardInterrupt after Ctrl-C. UsageError if the jobs cannot be run here at all.
        """

    def run_ranks(self, jobs: Mapping[int, Job]) -> JobResult | None:
        """The result of the job for the largest number of GPUs that are free now, of which each runs a rank.

        jobs: the same job for each possible number, from 2. None where too few are free, or a result with an error
        where ranks cannot start or one is lost; all have ended then. To be called while no other job is submitted.
        KeyboardInterrupt after Ctrl-C.
        """

    def close(self) -> None:
        """Drop the jobs that wait, interrupt those that run, and wait until they have saved."""
