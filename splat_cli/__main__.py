"""`python -m splat_cli` is `splat`."""

from splat_cli.cli.main import main

main()
