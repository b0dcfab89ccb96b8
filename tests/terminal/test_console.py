"""Progress and messages on terminals and in log files."""

import fcntl
import io
import os
import pty
import select
import signal
import struct
import sys
import termios
import threading
import time

import pytest

from splat_cli.terminal.console import Display, Level, Progress
from splat_cli.terminal.interrupt import deferred_interrupt
from tests.subprocesses import HANG


class _Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """`clock[0]`: the time that the program reads, in seconds."""
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    return now


def test_log_file_gets_plain_lines(clock):
    stream = io.StringIO()
    with Display(stream).training(100) as show:
        for seconds, progress in (
            (0.0, Progress(1, 0.5, 2000, 12.0)),
            (9.9, Progress(12, 0.4, 2000, 13.0)),
            (10.0, Progress(21, 0.3, 2500)),
            (11.0, Progress(100, 0.1, 3000, 23.456)),
        ):
            clock[0] = seconds
            show(progress)
    assert stream.getvalue().splitlines() == [
        "step 1/100, loss 0.5000, train PSNR 12.00, 2,000 splats",  # the speed is not known yet
        "step 21/100, loss 0.3000, 2,500 splats, 2.0 step/s, 00:39 left",
        "step 100/100, loss 0.1000, train PSNR 23.46, 3,000 splats, 9.0 step/s",
    ]


def test_long_work_is_explained():
    stream = io.StringIO()
    said, display = threading.Event(), Display(stream)
    display.say = lambda line: (stream.write(line), said.set())
    with display.explaining("Compiling", 0.01):
        assert said.wait(HANG)
    assert stream.getvalue() == "Compiling"
    with display.explaining("Reading", 0.05):
        pass
    time.sleep(0.1)
    assert stream.getvalue() == "Compiling"


def test_terminal_gets_a_bar():
    stream = _Terminal()
    with Display(stream).training(100) as show:
        show(Progress(100, 0.1, 3000, 23.456))
    assert "100/100" in stream.getvalue()
    assert "train PSNR 23.46, 3,000 splats, loss 0.1000" in stream.getvalue()


def test_terminal_gets_plain_lines_on_request():
    stream = _Terminal()
    display = Display(stream, bar=False)
    with display.training(100) as show, display.counting("views", 3) as count:
        show(Progress(100, 0.1, 3000))
        count(3)
    assert stream.getvalue().startswith("step 100/100, ")
    assert "\r" not in stream.getvalue()


def test_long_work_is_counted_in_log_files(clock):
    stream = io.StringIO()
    with Display(stream).counting("pictures", 4000) as count:
        for clock[0] in (4.0, 11.0, 12.0, 30.0):
            count(500)
        clock[0] = 60.0
        count(2000)
    assert stream.getvalue().splitlines() == [
        "pictures: 1,000 of 4,000, 00:33 left",
        "pictures: 2,000 of 4,000, 00:30 left",
        "pictures: 4,000 of 4,000",
    ]


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
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    try:
        with deferred_interrupt():
            os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


SET_CLOCK = "import time; seconds = [0.0]; time.time = lambda: seconds[0]"  # before tqdm is imported


def drawn(columns, *calls, term="xterm"):
    """Lines on a terminal with `columns` after a program that calls methods of a Display."""
    pyte = pytest.importorskip("pyte", reason="extra test")
    imports = (SET_CLOCK, "from splat_cli.terminal.console import Display, Progress")
    program = "\n".join(("input()", *imports, "display = Display()", *calls))
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = term
        os.execv(sys.executable, [sys.executable, "-c", program])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    os.write(terminal, b"\n")
    screen = pyte.Screen(columns, 30)
    stream = pyte.ByteStream(screen)
    try:
        while select.select([terminal], [], [], HANG)[0] and (content := os.read(terminal, 4096)):
            stream.feed(content)
    except OSError:
        pass  # the program has ended
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    return [line.rstrip() for line in screen.display if line.strip()]


TRAIN = """
with display.training(30000) as show:
    show(Progress(29999, 0.0312, 1230000, 27.31))
    show(Progress(30000, 0.0312, 1230000, 27.31))
"""


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (100, ["30000/30000", "took 00:00", "train PSNR 27.31", "1,230,000 splats", "loss 0.0312"]),
        (80, ["30000/30000", "took 00:00", "train PSNR 27.31", "1,230,000 splats"]),
        (40, ["30000/30000", "took 00:00"]),
        (20, ["100%", "30000/30000"]),
    ],
)
def test_bar_fits_every_terminal(columns, shown):
    (line,) = drawn(columns, TRAIN)
    assert all(fact in line for fact in shown), line
    assert line.count("█") >= (6 if columns >= 40 else 0)
    assert len(line) < columns


@pytest.mark.parametrize("columns", [80, 40])
def test_messages_break_between_words(columns):
    message = "Memory: 1.2 GiB for 396,000 splats, 400.0 MiB for photographs, 200.0 MiB for rendering, of 22.0 GiB"
    lines = drawn(columns, f"display.say({message!r})")
    assert " ".join(lines) == message
    assert max(map(len, lines)) < columns


def test_rows_break_between_words_below_their_text():
    row = "--  GPU                CuPy sees no GPU; check the driver with nvidia-smi, or use the CPU"
    lines = drawn(60, "from splat_cli.cli.display import Output", f"Output([{row!r}], {{}}).show(as_json=False)")
    assert len(lines) == 2
    assert lines[1].startswith(23 * " " + "with")


def test_dumb_terminal_gets_plain_lines():
    lines = drawn(80, TRAIN, term="dumb")
    assert lines[0] == "step 29999/30000, loss 0.0312, train PSNR 27.31, 1,230,000 splats"
    assert "█" not in "".join(lines)


def test_counts_at_40_columns():
    count = """
with display.counting("pairs of photographs", 1200) as advance:
    advance(600)
    seconds[0] = 1.0
    advance(1)
    print(flush=True)
"""
    assert drawn(40, count)[0].startswith("pairs of photographs  50% 601/1200")


def test_errors_break_between_words():
    lines = drawn(40, "from splat_cli.cli.main import run", "run(['export', 'nowhere', 'a.obj'])")
    assert lines[0].startswith("Error: ")
    assert len(lines) > 1
    assert " ".join(lines).endswith(".html, .usdc, .usda")
