"""`splat doctor`."""

import click

from splat_cli.cli.output import Output


@click.command(epilog="\b\nExample:\n  splat doctor")
def command() -> Output:
    """Check what is installed, and say what to install.

    Looks at Python, CuPy, the GPU and its driver, the C++ compiler and the extras, and runs a kernel on every device
    that is there. The exit code is 1 where nothing here can train.
    """
    from splat_cli.train.checkup import check_up

    findings = check_up()
    width = max(len(finding.part) for finding in findings)
    lines = [f"{'ok' if found.ok else '--'}  {found.part:<{width}}  {found.text}" for found in findings]
    facts = {found.part: {"ok": found.ok, "text": found.text} for found in findings}
    return Output(lines, facts, exit_code=int(any(found.needed and not found.ok for found in findings)))
