"""Photographs whose names in a dataset differ in case from those of the files, or have a folder more before them."""

import os
from collections import defaultdict
from functools import cached_property
from pathlib import Path

from splat_cli.scene.dataset import path_ends


class SimilarNames:
    """The files in `folder`, as deep as they lie, which are listed when they are first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, name: str) -> Path | None:
        """The one file that a name means: of any case, also with the image folder's name or `images` before it.

        None where there is none or several.
        """
        ends = path_ends(name)
        heads = [end.partition("/")[0].casefold() for end in ends]
        inside = [ends[i + 1] for i, head in enumerate(heads[:-1]) if head in ("images", self.folder.name.casefold())]
        for key in (*ends[:1], *inside):
            found = self._files.get(key.casefold(), [])
            if len(found) == 1:
                return found[0]
        return None

    @cached_property
    def _files(self) -> dict[str, list[Path]]:
        """Files by their paths in the folder, casefolded."""
        files = defaultdict(list)
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = Path(folder, name)
                files[path.relative_to(self.folder).as_posix().casefold()].append(path)
        return files
