"""Link of kernel libraries on Windows, without the C library's start-up code, which zig would compile for a minute."""

import sys
from pathlib import Path

_IMPORTS = {
    "ucrtbase": "__acrt_iob_func __stdio_common_vfprintf abort fflush free malloc memcmp memcpy memmove memset "
    "acos acosf asin asinf atan atan2 atan2f atanf cbrt cbrtf ceil ceilf cos cosf cosh coshf erf erff exp exp2 exp2f "
    "expf expm1 expm1f floor floorf fma fmaf fmod fmodf log log10 log10f log1p log1pf log2 log2f logf pow powf "
    "rint rintf round roundf sin sinf sinh sinhf sqrt sqrtf tan tanf tanh tanhf trunc truncf",
    "kernel32": "AcquireSRWLockExclusive CloseHandle CreateSemaphoreA CreateThread ReleaseSRWLockExclusive "
    "ReleaseSemaphore VirtualAlloc WaitForSingleObject",
}
"""Functions that kernels and the runtime take from libraries of Windows 10 and later."""


def link_commands(built: Path, library: Path, has_entry: bool) -> list[list[str]]:
    """The commands that make a library of an object file, in whose folder they write.

    has_entry: its DllMain is called when it is loaded.
    """
    zig = [sys.executable, "-m", "ziglang"]
    commands, imports = [], []
    for name, functions in _IMPORTS.items():
        definition, archive = built.with_name(f"{name}.def"), built.with_name(f"{name}.lib")
        definition.write_text("\n".join([f"LIBRARY {name}.dll", "EXPORTS", *functions.split()]), encoding="utf-8")
        commands.append([*zig, "dlltool", "-m", "i386:x86-64", "-d", str(definition), "-l", str(archive)])
        imports.append(str(archive))
    entry = "/entry:DllMain" if has_entry else "/noentry"
    return [*commands, [*zig, "lld-link", "/dll", entry, f"/out:{library}", str(built), *imports]]
