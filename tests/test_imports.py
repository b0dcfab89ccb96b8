"""Every module can be imported without POSIX; the test hides POSIX modules and functions of Linux."""

import sys

from tests.subprocesses import finished

# Imports twice: the second time, other packages are loaded already, so that only our own imports are tested.
IMPORT_ALL = """
import importlib, os, pkgutil, signal, sys
import splat_cli

def import_all():
    for module in pkgutil.walk_packages(splat_cli.__path__, "splat_cli."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
                yield module.name
            except ImportError as error:  # of an extra that is not installed
                assert error.name in optional, error

optional = ("cupy", "dask", "distributed", "flip_evaluator", "imageio_ffmpeg", "pycolmap", "tensorboard", "viser")
there = list(import_all())
for name in [name for name in sys.modules if name.startswith("splat_cli.")]:
    del sys.modules[name]
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix"):
    sys.modules[name] = None
for name in ("fork", "geteuid", "getuid", "killpg", "getpgid", "setsid", "sched_getaffinity", "sysconf", "O_DIRECTORY",
             "uname", "register_at_fork", "WNOHANG"):
    delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGCHLD"):
    delattr(signal, name)
assert list(import_all()) == there
print(len(there))
"""


def test_every_module_is_imported_without_posix():
    done = finished([sys.executable, "-c", IMPORT_ALL])
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200
