"""`splat doctor`."""

import click

from splat_cli.cli.display import Output


@click.command(epilog="\b\nExample:\n  splat doctor")
@click.option("--all", "with_developers", is_flag=True, help="Check the extras for developers, too.")
def command(with_developers: bool) -> Output:
    """Check the installation and say what is missing.

    Checks Python, CuPy, the GPU and its driver, the C++ compiler and the extras, and runs a kernel on every device.
    The exit code is 1 if no device can train.
    """
    from splat_cli.commands.doctor import run_checks

    checks = run_checks(with_developers)
    width = max(len(check.part) for check in checks)
    lines = [f"{'ok' if found.ok else '--'}  {found.part:<{width}}  {found.text}" for found in checks]
    data = {found.part: {"ok": found.ok, "text": found.text} for found in checks}
    return Output(lines, data, exit_code=int(any(found.needed and not found.ok for found in checks)))
