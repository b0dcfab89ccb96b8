"""Every kernel compiles for every architecture, on machines without a GPU too, and keeps its values in registers."""

import pytest

from splat_cli.device.nvrtc import ARCHITECTURES, kernel_resources, variants, why_no_nvrtc
from splat_cli.device.signature import parse_kernels
from splat_cli.errors import DeviceError
from splat_cli.paths import resource_dir

FILES = sorted(resource_dir("cuda_src").rglob("*.cu"))
CASES = [(path, defines) for path in FILES for defines in variants(path)]
# Known bytes on sm_90: of the rare run that repeats to the bit and asks for the sums of AbsGS as well.
# RADIX is the sort of the CPU, whose buckets lie on the stack.
SPILLS = {
    ("blend_backward", "MATRIX_SUMS ABSGRAD FIXED_SUMS"): 16,
    ("blend_backward", "ABSGRAD FIXED_SUMS"): 16,
    ("sort_tiles", "RADIX"): 128,
}

pytestmark = pytest.mark.skipif(bool(why_no_nvrtc()), reason=f"no NVRTC: {why_no_nvrtc()}")


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(("path", "defines"), CASES, ids=["-".join([p.stem, *d]) for p, d in CASES])
def test_every_kernel_compiles(path, defines, arch):
    kernels = kernel_resources(path, arch, **defines)
    assert {k.kernel for k in kernels} == set(parse_kernels(path.read_text()))
    for k in kernels:
        print(f"{k.file}:{k.kernel} sm_{arch}: {k.registers} registers, {k.shared} bytes shared, {k.spills} spilled")
        assert k.shared <= 48 * 1024
        if arch == 90:
            assert k.spills <= SPILLS.get((k.kernel, k.defines), 0), f"{k.kernel} spills {k.spills} bytes"


def test_an_error_names_the_line(tmp_path):
    path = tmp_path / "broken.cu"
    path.write_text('extern "C" __global__ void k(int* x)\n{\n    x[0] = unknown;\n}\n')
    with pytest.raises(DeviceError, match=r"(?s)NVRTC cannot compile broken.cu for sm_90:\n.*broken.cu\(3\).*unknown"):
        kernel_resources(path, 90)
