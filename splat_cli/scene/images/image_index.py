"""Lookup of photographs whose names in a dataset differ from those of the files: in case, folders or suffix."""

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

from splat_cli.io.image_files import PHOTOGRAPH_SUFFIXES
from splat_cli.scene.dataset import Unusable, path_ends
from splat_cli.scene.images.decode import image_size


class ImageIndex:
    """The files below `folder`, at any depth, listed on first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_path(self, name: str) -> Path | None:
        """The only file with this path below the folder, ignoring case; None if no file or several files match.

        The path may start with the folder's name or `images`.
        """
        ends = path_ends(name)
        heads = [end.partition("/")[0].casefold() for end in ends]
        inside = [ends[i + 1] for i, head in enumerate(heads[:-1]) if head in ("images", self.folder.name.casefold())]
        for key in (*ends[:1], *inside):
            found = self._by_path.get(key.casefold(), [])
            if len(found) == 1:
                return self.folder / found[0]
        return None

    def find_label(self, label: str) -> str:
        """The photograph, relative to the folder, for a camera's label: a name or path, with or without suffix.

        The label's own suffix counts before others, then equal case, then the longest matching end of the path, then
        the fewest folders. Unusable if there is no match or more than one, such as equal names in two folders, or 1.jpg
        and 1.png for the label 1.
        """
        ends = path_ends(label)
        stems = [str(Path(end).with_suffix("")) for end in ends]
        for key, files in (match for keys in (ends, stems) for match in self._matches(keys)):
            name = PurePosixPath(key).name.casefold()
            files = [file for file in files if file.name.casefold() == name] or files  # a.jpg before a.jpg.png
            best = [file for file in files if len(file.parts) == min(len(other.parts) for other in files)]
            if len(best) > 1:
                raise Unusable(f"several photographs have this name: {best[0]}, {best[1]}; keep one of them")
            if best:
                return str(best[0])
        raise Unusable(f"there is no such photograph in {self.folder}")

    def _matches(self, keys: Sequence[str]) -> Iterator[tuple[str, list[Path]]]:
        """Ends of paths and photographs with them, those with equal case first."""
        yield from ((key, self._by_end.get(key, [])) for key in keys)
        yield from ((key, self._by_end_any_case.get(key.casefold(), [])) for key in keys)

    def size(self, file: str) -> tuple[int, int]:
        """(width, height) of a file in the folder, px. Unusable if it is not an image."""
        try:
            return image_size(self.folder / file)
        except ValueError as error:
            raise Unusable(str(error)) from error

    @cached_property
    def _files(self) -> list[Path]:
        """All files, relative to the folder."""
        found = (Path(folder, name) for folder, _, names in os.walk(self.folder) for name in names)
        return sorted(path.relative_to(self.folder) for path in found)

    @cached_property
    def _by_path(self) -> dict[str, list[Path]]:
        """Files by casefolded path."""
        files = defaultdict(list)
        for file in self._files:
            files[file.as_posix().casefold()].append(file)
        return files

    @cached_property
    def _by_end(self) -> dict[str, list[Path]]:
        """Photographs by each end of their paths, with and without suffix."""
        files = defaultdict(list)
        for file in self._files:
            if file.suffix.lower() in PHOTOGRAPH_SUFFIXES:
                for end in (*path_ends(str(file)), *path_ends(str(file.with_suffix("")))):
                    files[end].append(file)
        return files

    @cached_property
    def _by_end_any_case(self) -> dict[str, list[Path]]:
        """Photographs by each casefolded end of their paths, with and without suffix."""
        files: dict[str, list[Path]] = defaultdict(list)
        for end, found in self._by_end.items():
            files[end.casefold()] += found
        return files
