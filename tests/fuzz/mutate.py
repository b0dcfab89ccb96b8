"""Small, seeded damage to files, as caused by disks, networks, editors and attackers."""

import re

import numpy as np

_EXTREME_BYTES = (
    b"\0" * 8,
    b"\xff" * 8,
    b"\x7f" + b"\xff" * 7,
    (1 << 40).to_bytes(8, "little"),
    np.float64("nan").tobytes(),
    np.float64("inf").tobytes(),
    b"\x01\0\0\0",
    b"../",
    b"\r\n",
)
_EXTREME_TEXTS = (
    b"nan",
    b"inf",
    b"-inf",
    b"1e999",
    b"-1",
    b"0",
    b"99999999999999999999",
    b"1e308",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b'"x"',
    b"-0.0",
    b"9" * 6000,
    b"\xff\xfe",
    b"[[[[",
)
_NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?")


def mutate(content: bytes, rng: np.random.Generator) -> bytes:
    """One to three random changes."""
    for _ in range(rng.integers(1, 4)):
        content = _KINDS[rng.integers(len(_KINDS))](content, rng)
    return content


def _place(content: bytes, rng: np.random.Generator) -> int:
    return int(rng.integers(len(content) + 1))


def _flip_bits(content: bytes, rng: np.random.Generator) -> bytes:
    damaged = bytearray(content)
    for place in rng.integers(len(damaged), size=rng.integers(1, 5)) if damaged else ():
        damaged[place] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def _cut_end(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: _place(content, rng)]


def _cut_middle(content: bytes, rng: np.random.Generator) -> bytes:
    begin, end = sorted((_place(content, rng), _place(content, rng)))
    return content[:begin] + content[end:]


def _repeat(content: bytes, rng: np.random.Generator) -> bytes:
    begin = _place(content, rng)
    part = content[begin : begin + int(rng.integers(1, 200))]
    return content[:begin] + part * int(rng.integers(2, 5)) + content[begin:]


def _extreme_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    value, place = _EXTREME_BYTES[rng.integers(len(_EXTREME_BYTES))], _place(content, rng)
    return content[:place] + value + content[place + len(value) :]


def _extreme_number(content: bytes, rng: np.random.Generator) -> bytes:
    numbers = list(_NUMBER.finditer(content))
    if not numbers:
        return _extreme_bytes(content, rng)
    chosen = numbers[rng.integers(len(numbers))]
    value = _EXTREME_TEXTS[rng.integers(len(_EXTREME_TEXTS))]
    return content[: chosen.start()] + value + content[chosen.end() :]


_KINDS = (_flip_bits, _cut_end, _cut_middle, _repeat, _extreme_bytes, _extreme_number)
