"""Photographs of an export, found by the names that its cameras have, with or without folders and suffix."""

from collections import defaultdict
from pathlib import Path

from splat_cli.image_files import PHOTOGRAPH_SUFFIXES
from splat_cli.scene.dataset import Unusable, path_ends
from splat_cli.scene.images.decode import image_size
from splat_cli.scene.images.locate import image_folder
from splat_cli.scene.options import SceneOptions


class Photographs:
    """The photographs in `folder`, as deep as they lie: that of --images, else ROOT/images, else ROOT itself."""

    def __init__(self, root: Path, options: SceneOptions) -> None:
        has_folder = options.images is not None or (root / "images").is_dir()
        self.folder = image_folder(root, root, options) if has_folder else root
        self._files: dict[str, list[Path]] = defaultdict(list)  # by ends of paths, with and without suffix
        self._files_of_any_case: dict[str, list[Path]] = defaultdict(list)
        for path in sorted(self.folder.rglob("*")):
            if path.suffix.lower() in PHOTOGRAPH_SUFFIXES:
                relative = path.relative_to(self.folder)
                for key in (*path_ends(str(relative)), *path_ends(str(relative.with_suffix("")))):
                    self._files[key].append(relative)
                    self._files_of_any_case[key.casefold()].append(relative)

    def find(self, label: str) -> str:
        """The file, relative to the folder, with most of the end of a label: a name, or a path of any system.

        Of several, the one in the fewest folders. Unusable where there is none, or where that is not unique, as in the
        folders of a camera that gives names again.
        """
        ends = path_ends(label)
        keys = (*ends, *(str(Path(end).with_suffix("")) for end in ends))
        for files in (*map(self._files.get, keys), *(self._files_of_any_case.get(key.casefold()) for key in keys)):
            files = files or []
            best = [file for file in files if len(file.parts) == min(len(other.parts) for other in files)]
            if len({file.parent for file in best}) > 1:
                raise Unusable(f"photographs in several folders have this name: {best[0]}, {best[1]}; keep one of them")
            if best:
                return str(best[0])
        raise Unusable(f"there is no such photograph in {self.folder}")

    def size(self, file: str) -> tuple[int, int]:
        """(width, height) of a found file. Unusable where it is no image."""
        try:
            return image_size(self.folder / file)
        except ValueError as error:
            raise Unusable(str(error)) from error
