"""Stand-ins for viser: a panel and its controls, the camera of a browser."""

from types import SimpleNamespace

import pytest

from splat_cli.viewer.server import field_of_view, pose_of


def browser_camera(view):
    """The camera of a browser as viser describes it, at `view`."""
    position, wxyz = pose_of(view)
    return SimpleNamespace(
        position=position, wxyz=wxyz, fov=field_of_view(view), image_width=view.width + 1, image_height=view.height
    )


class Panel:
    """Stand-in for viser's panel and scene: records buttons, texts and added objects."""

    def __init__(self, clients=()):
        self.buttons = {}
        self.gui = self.scene = self
        self.get_clients = lambda: clients

    def __getattr__(self, name):
        return lambda *args, **options: Control(self, args)

    def add_folder(self, *args, **options):
        return pytest.MonkeyPatch.context()


class Control:
    def __init__(self, panel, args):
        self._panel, self._args, self.content = panel, args, args[0] if args else None

    def on_click(self, function):
        self._panel.buttons[self._args[0]] = function

    def remove(self):
        """Remove the object."""
