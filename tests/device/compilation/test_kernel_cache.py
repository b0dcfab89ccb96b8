"""The cache of CPU kernels is never stale, never damaged, and belongs only to the user."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from splat_cli.device.compilation.host_compiler import HostCompiler
from splat_cli.device.compilation.kernel_cache import cache_dir, is_intact, load_library
from splat_cli.errors import DeviceError
from tests.device.compilation.small_kernel import KERNEL, value


def test_cache_is_used_and_never_stale(sources):
    assert value(sources) == 1
    files = sorted(cache_dir().glob("k-*.so"))
    times = [f.stat().st_mtime_ns for f in files]
    assert value(sources) == 1
    assert [f.stat().st_mtime_ns for f in sorted(cache_dir().glob("k-*.so"))] == times
    (sources / "deeper.cuh").write_text("#define VALUE 2\n")
    assert value(sources) == 2
    (sources / "k.cu").write_text(KERNEL.replace("VALUE", "10 * VALUE"))
    assert value(sources) == 20
    assert value(sources, EXTRA=5) == 25
    assert not [p for p in cache_dir().iterdir() if p.suffix != ".so"]


def test_copies_of_the_sources_share_libraries(sources, tmp_path):
    assert value(sources) == 1
    libraries = set(cache_dir().iterdir())
    assert value(shutil.copytree(sources, tmp_path / "copy")) == 1
    assert set(cache_dir().iterdir()) == libraries


def test_concurrent_users_compile_a_library_once(sources, monkeypatch):
    compiled, compile = [], HostCompiler._compile

    def counted(self, path, name, *arguments):
        compiled.append(name)
        compile(self, path, name, *arguments)

    monkeypatch.setattr(HostCompiler, "_compile", counted)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: value(sources), range(4))) == [1] * 4
    assert compiled.count("k") == 1


@pytest.mark.parametrize("damage", ["empty", "half", "flip"])
def test_a_damaged_library_is_compiled_again(sources, damage):
    assert value(sources) == 1
    for path in cache_dir().glob("*.so"):
        content = bytearray(path.read_bytes())
        if damage == "flip":
            content[len(content) // 2] ^= 1
        path.unlink()  # this process has mapped it
        path.write_bytes(content if damage == "flip" else content[: len(content) // 2] if damage == "half" else b"")
    assert value(sources) == 1
    assert all(is_intact(path) for path in cache_dir().glob("*.so"))


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_cache_belongs_to_the_user_alone(sources, mask):
    before = os.umask(mask)
    try:
        assert value(sources) == 1
    finally:
        os.umask(before)
    assert cache_dir().stat().st_mode & 0o777 == 0o700
    assert all(is_intact(path) for path in cache_dir().glob("*.so"))


def test_a_cache_that_others_may_write_is_refused(sources, tmp_path, monkeypatch):
    """The command that removes it must not remove a folder `my`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    assert value(sources) == 1
    cache_dir().chmod(0o775)
    with pytest.raises(DeviceError, match=rf"mode 775.*`rm -r '{cache_dir()}'`, or set XDG_CACHE_HOME") as caught:
        value(sources)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to change the owner of files")
def test_cache_or_library_of_another_user_is_not_used(sources):
    assert value(sources) == 1
    (library,) = cache_dir().glob("k-*.so")
    os.chown(library, 12345, 12345)
    assert not is_intact(library)
    assert value(sources) == 1
    assert is_intact(library)
    os.chown(cache_dir(), 12345, 12345)
    with pytest.raises(DeviceError, match="owner 12345"):
        value(sources)


def test_folders_of_killed_compilations_are_removed(sources):
    assert value(sources) == 1
    old, new = cache_dir() / "tmp_old", cache_dir() / "tmp_new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "library.so").touch()
    os.utime(old, (0, 0))
    assert value(sources, EXTRA=2) == 3
    assert (old.exists(), new.exists()) == (False, True)


def test_cache_that_cannot_be_written(sources, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DeviceError, match=r"cannot keep compiled kernels in .*: set XDG_CACHE_HOME"):
        value(sources)


def test_a_library_that_the_system_refuses(tmp_path):
    """As on a disk mounted noexec."""
    (tmp_path / "k.so").write_text("no library")
    with pytest.raises(DeviceError, match=r"cannot be loaded \(.*k\.so: .*\): set XDG_CACHE_HOME to a folder on"):
        load_library(tmp_path / "k.so")


def test_no_home(sources, monkeypatch):
    """HOME is not set, and the system does not know the user, as in a container."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    with pytest.raises(DeviceError, match="set HOME or XDG_CACHE_HOME"):
        value(sources)
