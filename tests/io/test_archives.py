"""Zip archives on failing disks."""

import errno
import io
import os
import zipfile

import pytest

from splat_cli.io import archives
from splat_cli.io.archives import open_zip


class FailingFile(io.FileIO):
    """A file on a disk that cannot be read now."""

    def readinto(self, buffer, /):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def readall(self):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_read_error_does_not_make_a_file_another_one(tmp_path, monkeypatch):
    """Checkpoints that are not zip files are set aside; those that cannot be read now are kept."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a", "text")
    monkeypatch.setattr(archives.io, "FileIO", FailingFile)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)), open_zip(path):
        pass


def test_a_file_that_is_not_a_zip(tmp_path):
    (tmp_path / "a.zip").write_text("text")
    with pytest.raises(zipfile.BadZipFile), open_zip(tmp_path / "a.zip"):
        pass
