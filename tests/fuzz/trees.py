"""Valid JSON and TOML documents with unexpected contents."""

import copy
import json

import numpy as np

MAX_CHANGES = 4
_DEEP = ("[" * 50_000, "[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900)


def odd_value(rng, value=None):
    """A value of another kind, size or sign than `value`."""
    if isinstance(value, bool) or value is None or rng.random() < 0.6:
        return copy.deepcopy(_ODD[rng.integers(len(_ODD))])
    if isinstance(value, int | float):
        return _FACTORS[rng.integers(len(_FACTORS))] * min(max(value, -(10**300)), 10**300)
    if isinstance(value, str):
        return value * int(rng.integers(0, 4)) + _ENDINGS[rng.integers(len(_ENDINGS))]
    return list(value)[: int(rng.integers(0, 3))] if isinstance(value, dict) else dict(enumerate(value[:3]))


_FACTORS = (-1, 0, 1e-300, 0.5, 2, 3, 10**9, 1e300)
_ENDINGS = ("", "\0", "/..", "\u2028", "\ud800", "é", "\x1b[2J")
_ODD = [
    *(None, True, False, -1, 0, 1, 2, 3, 15, 99, 255, 256, 65536, -(2**31), 2**31, 2**32, 2**53, 2**63, 2**64, 10**30),
    *(10**400, 0.5, -0.0, 1e-320, 1e38, 1e39, 1e300, float("nan"), float("inf"), -float("inf"), "", "0", "nan"),
    *("a\0b", "../../x", "/etc/passwd", "\udcff", "\ud800", "x" * 70_000, "🜁", "a\nb", "\x1b[2J"),
    *([], {}, [[]], [{}], {"": {}}, [None], [1, "a"], [[1, 0, 0, 0]] * 4, [float("nan")] * 16, list(range(300))),
    *([0] * 5000, {str(i): i for i in range(2000)}),
]


def changed_tree(tree, rng):
    """A copy of a JSON document with a few nodes replaced, dropped, repeated or renamed."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.integers(1, MAX_CHANGES)):
        places = list(_places(tree))
        if not places or rng.random() < 0.02:
            tree = odd_value(rng, tree)
            continue
        holder, key = places[rng.integers(len(places))]
        kind = rng.random()
        if kind < 0.6:
            holder[key] = odd_value(rng, holder[key])
        elif kind < 0.75:
            del holder[key]
        elif kind < 0.9:
            other, name = places[rng.integers(len(places))]
            holder[key] = copy.deepcopy(other.get(name) if isinstance(other, dict) else next(iter(other), None))
        elif isinstance(holder, list):
            holder[:] = (holder * int(rng.choice([2, 3, 300])))[:3000]
        else:
            holder[str(rng.choice(["", "a", "\0", f"{key}x"]))] = holder.pop(key)
    return tree


def _places(tree):
    """(holder, key) of every node below the root."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from _places(value)


def json_bytes(tree):
    """JSON text of a tree; allows NaN, infinity and lone surrogates, which strict JSON forbids."""
    return json.dumps(tree, default=str).encode("utf-8", "surrogatepass")


def forge_json(whole, rng):
    if rng.random() < 0.02:
        return _DEEP[rng.integers(len(_DEEP))].encode()
    return json_bytes(changed_tree(json.loads(whole), rng))


def forge_json_lines(whole, rng):
    lines = [json.loads(line) for line in whole.splitlines()]
    return b"\n".join(forge_json(json.dumps(lines[rng.integers(len(lines))]), rng) for _ in range(rng.integers(1, 30)))


def forge_toml(whole, rng):
    """Tables, dates, nested arrays and keys of any depth instead of settings."""
    lines = whole.decode().splitlines()
    for _ in range(rng.integers(1, MAX_CHANGES)):
        place = int(rng.integers(len(lines)))
        key = lines[place].partition(" = ")[0] if " = " in lines[place] else "steps"
        lines[place] = _TOML_LINES[rng.integers(len(_TOML_LINES))].format(key=key, value=_toml(odd_value(rng)))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


_TOML_LINES = (
    *["{key} = {value}"] * 3,
    "[{key}]",
    "[[{key}]]",
    "[[scene]]\n{key} = {value}",
    "[[scene]]\npath = {value}",
    '[[scene]]\npath = "a"\nname = {value}',
    "{key} = 1979-05-27T07:32:00Z",
    "{key} = {{a = 1}}",
    "{key}.a.b = 1",
    ".".join(["a"] * 3000) + " = 1",
    "{key} = " + "[" * 2000,
    "[" + "a." * 4000 + "a]",
    "[run]\nscene = {value}",
    "# {key}",
    "{key} = 0x7fffffffffffffffffff",
    "{key} = nan",
    "{key} = -inf",
    "{key}{key} = 1",
    '"{key}" = {value}',
    "{key} = '''a\nb'''",
    '{key} = "\\u0000"',
)


def _toml(value):
    """A value in TOML syntax; values that TOML does not support become strings."""
    text = json.dumps(value, default=str)
    return '"none"' if value is None else text.replace("NaN", "nan").replace("Infinity", "inf")


def odd_bytes(size, rng):
    """A number of bytes: zeros, ones or random."""
    kind = rng.random()
    if kind < 0.3:
        return bytes(size)
    return b"\xff" * size if kind < 0.4 else rng.integers(0, 256, size, np.uint8).tobytes()
