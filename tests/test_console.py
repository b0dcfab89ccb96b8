"""What is shown while training."""

import io
import os
import signal

import pytest

from splat_cli.console import Display, Level, Progress
from splat_cli.interrupt import deferred_interrupt


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_log_file_gets_plain_lines():
    stream = io.StringIO()
    with Display(stream).training(100) as show:
        show(Progress(1, 0.5, 2000, 12.0))
        show(Progress(2, 0.4, 2000, 13.0))
        show(Progress(100, 0.1, 3000, 23.456))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0] == "step 1/100, loss 0.5000, PSNR 12.00, 2,000 splats"  # how fast it goes, nobody knows yet
    assert lines[1].startswith("step 100/100, loss 0.1000, PSNR 23.46, 3,000 splats, ")
    assert lines[1].endswith(" step/s, 00:00 left")
    assert "\r" not in stream.getvalue()


def test_terminal_gets_a_bar():
    stream = _Terminal()
    with Display(stream).training(100) as show:
        show(Progress(100, 0.1, 3000, 23.456))
    assert "100/100" in stream.getvalue()
    assert "loss 0.1000, PSNR 23.46, 3,000 splats" in stream.getvalue()


def test_a_terminal_gets_plain_lines_where_they_are_asked_for():
    stream = _Terminal()
    display = Display(stream, bar=False)
    with display.training(100) as show, display.counting("views", 3) as count:
        show(Progress(100, 0.1, 3000))
        count(3)
    assert stream.getvalue().startswith("step 100/100, ")
    assert "\r" not in stream.getvalue()


def test_what_takes_long_is_counted_in_a_log_file_too(monkeypatch):
    stream, now = io.StringIO(), iter((0.0, 4.0, 11.0, 12.0, 30.0))
    monkeypatch.setattr("time.perf_counter", lambda: next(now))
    with Display(stream).counting("pictures", 4000) as count:
        for _ in range(4):
            count(500)
    assert stream.getvalue() == "pictures: 1,000 of 4,000\npictures: 2,000 of 4,000\n"


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        (Level.QUIET, "Warning: b\n"),
        (Level.NORMAL, "a\nWarning: b\n"),
        (Level.VERBOSE, "a\nWarning: b\nc\n"),
    ],
)
def test_levels(level, shown):
    stream = io.StringIO()
    display = Display(stream, level)
    display.say("a")
    display.warn("b")
    display.detail("c")
    assert stream.getvalue() == shown
    assert display.warnings == ["b"]


def test_quiet_shows_no_progress():
    stream = _Terminal()
    display = Display(stream, Level.QUIET)
    with display.training(100) as show, display.counting("views", 3) as count:
        show(Progress(100, 0.1, 3000))
        count(3)
    assert stream.getvalue() == ""


def test_first_interrupt_waits_for_the_check():
    with deferred_interrupt() as check:
        check()
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            check()


def test_second_interrupt_acts_at_once():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with deferred_interrupt():
            os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
