"""Run a Python program whose kernels are checked by AddressSanitizer and UBSan:

python scripts/checks/sanitized.py -m pytest tests/render --sanitize
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from splat_cli.device.compilation.host_compiler import find_compiler, sanitizer_environment

if __name__ == "__main__":
    environment = sanitizer_environment(find_compiler(sanitize=True))
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], os.environ | environment)
