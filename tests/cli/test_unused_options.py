"""Options that change nothing in a run are named."""

import pytest

from splat_cli.cli.train_request import BELONGING
from splat_cli.config import SETTINGS


@pytest.mark.parametrize(
    ("options", "owner"),
    [
        (["--test-every", "3"], ["--eval"]),
        (["--field-appearance", "4"], ["--color", "field"]),
        (["--exposure-reg", "0.1"], ["--appearance", "grid"]),
        (["--absgrad"], ["--strategy", "adc"]),
        (["--crop-start"], ["--crop", "0,0,0,1"]),
    ],
)
def test_an_option_that_does_nothing_is_told(splat, options, owner):
    """Before the scene is read, which here there is none of."""
    warning = (
        f"{options[0]} does nothing without {' '.join(owner[:1] if owner[0] in ('--crop', '--appearance') else owner)}"
    )
    assert warning in splat("train", "nowhere", *options, "--device", "cpu").err
    assert "does nothing" not in splat("train", "nowhere", *options, *owner, "--device", "cpu").err


def test_exposure_is_short_for_an_appearance(splat):
    said = splat("train", "nowhere", "--exposure", "--exposure-reg", "0.1", "--device", "cpu").err
    assert "nowhere" in said
    assert "does nothing" not in said


def test_a_viewer_that_is_not_asked_for_is_told(splat):
    said = splat("train", "nowhere", "--port", "1234", "--device", "cpu").err
    assert "--port does nothing without --viewer" in said
    assert "--host" not in said


def test_options_that_may_do_nothing_are_settings():
    assert {name for _, names in BELONGING.values() for name in names} <= SETTINGS.keys()
