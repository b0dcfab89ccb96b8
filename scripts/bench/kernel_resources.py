"""Print the resources of every kernel on each GPU: registers, shared memory, stack and spills, and a hash of its PTX.

Needs NVRTC (pip install 'splat-cli[nvrtc]') and no GPU:

    python scripts/bench/kernel_resources.py --arch 90 --arch 120 raster/blend raster/blend_backward stage0_original

To see which kernels a change affects, print this table before and after the change and compare both with diff.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from splat_cli.device.compilation.nvrtc import ARCHITECTURES, kernel_resources, variants, why_no_nvrtc
from splat_cli.device.compilation.sources import read_source, source_folders


def main() -> None:
    """Compile every variant of the kernels and print a table; ends with status 1 if a kernel spills."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "files", nargs="*", help="files of cuda_src or scripts/bench/kernels, without .cu; by default all of cuda_src"
    )
    parser.add_argument("--arch", type=int, action="append", help="such as 90; all supported ones by default")
    options = parser.parse_args()
    if reason := why_no_nvrtc():
        sys.exit(reason)
    folders = source_folders(Path(__file__).parent / "kernels")
    paths = [read_source(folders, name).path for name in options.files] or sorted(folders[-1].rglob("*.cu"))
    print(f"{'kernel':56} {'sm':>4} {'registers':>9} {'shared':>7} {'stack':>6} {'spills':>6} ptx")
    spills = 0
    for path in paths:
        for arch in options.arch or ARCHITECTURES:
            for r in (r for defines in variants(path) for r in kernel_resources(path, arch, **defines)):
                name = f"{r.file}:{r.kernel} {r.defines}"
                print(f"{name:56} {r.arch:4} {r.registers:9} {r.shared:7} {r.stack:6} {r.spills:6} {r.ptx[:16]}")
                spills += r.spills
    sys.exit(1 if spills else 0)


if __name__ == "__main__":
    main()
