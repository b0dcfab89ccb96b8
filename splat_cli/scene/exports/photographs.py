"""Photographs of an export, found by the names that its cameras have, with or without a suffix."""

from pathlib import Path, PurePosixPath, PureWindowsPath

from splat_cli.image_files import PHOTOGRAPH_SUFFIXES
from splat_cli.scene.dataset import Unusable
from splat_cli.scene.images.decode import image_size
from splat_cli.scene.images.locate import image_folder
from splat_cli.scene.options import SceneOptions


class Photographs:
    """The photographs in `folder`, as deep as they lie: that of --images, else ROOT/images, else ROOT itself."""

    def __init__(self, root: Path, options: SceneOptions) -> None:
        has_folder = options.images is not None or (root / "images").is_dir()
        self.folder = image_folder(root, root, options) if has_folder else root
        self._files: dict[str, str] = {}
        for path in sorted(self.folder.rglob("*"), reverse=True):
            if path.suffix.lower() in PHOTOGRAPH_SUFFIXES:
                relative = path.relative_to(self.folder)
                for key in (relative.stem, relative.name, str(relative.with_suffix("")), str(relative)):
                    self._files[key] = str(relative)

    def find(self, label: str) -> str:
        """The file, relative to the folder, of a name or a path of any system. Unusable where there is none."""
        path = PureWindowsPath(label) if "\\" in label else PurePosixPath(label)
        for key in (path.as_posix(), path.name, path.stem):
            if key in self._files:
                return self._files[key]
        raise Unusable(f"there is no such photograph in {self.folder}")

    def size(self, file: str) -> tuple[int, int]:
        """(width, height) of a found file. Unusable where it is no image."""
        try:
            return image_size(self.folder / file)
        except ValueError as error:
            raise Unusable(str(error)) from error
