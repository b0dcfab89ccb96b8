"""The entry point: `splat`, and `python -m splat_cli`."""

import signal


def main() -> None:
    """Runs `splat`. Ctrl-C ends the program without a traceback also while its modules are imported."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from splat_cli.cli.main import main as run

    signal.signal(signal.SIGINT, handler)
    run()


if __name__ == "__main__":
    main()
