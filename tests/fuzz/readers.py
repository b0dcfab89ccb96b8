"""All readers of untrusted files, with a small valid input of each kind."""

from tests.fuzz.run_readers import RUN_TARGETS
from tests.fuzz.scene_readers import SCENE_TARGETS

TARGETS = [*SCENE_TARGETS, *RUN_TARGETS]
