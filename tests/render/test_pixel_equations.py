"""docs/method.md: quoted lines are in the kernels; compositing, moments and opacity are derivatives of the blend."""

from types import SimpleNamespace

import pytest
import sympy
from sympy import Matrix, Symbol, diff, exp, symbols

from tests import kernel_formulas as kernel
from tests.kernel_formulas import dot, evaluate, function_body, quotation, vanishes, vec

NUM = 3  # splats of a pixel


@pytest.mark.parametrize(("file", "function", "lines"), [(f, n, lines) for f, n, _, lines in kernel.blocks()])
def test_quoted_lines_are_those_of_the_kernel(file, function, lines):
    body = {line.strip() for line in function_body(file, function).splitlines()}
    assert [line for line in lines if line not in body] == []


def composite(alphas, values, background):
    """d . pixel and the final transmittance; values: d . colour."""
    total, T = 0, 1
    for alpha, value in zip(alphas, values, strict=True):
        total, T = total + T * alpha * value, T * (1 - alpha)
    return total + T * background, T


def walk(alphas, colors, d, background, group):
    """g and weight of each splat: the kernel's loops over `group` splats at a time."""
    forwards, division, backwards = (quotation("Compositing", part) for part in ("forwards", "division", "backwards"))
    lists = {name: [[0] for _ in alphas] for name in ("weight", "radiance")} | {"alpha": [[alpha] for alpha in alphas]}
    behind = composite(alphas, [dot(c, d) for c in colors], background)[0]
    lists |= {"T": [1], "behind": [behind], "backdrop": [0], "d_red": [d.x], "d_green": [d.y], "d_blue": [d.z]}
    found = {}
    for first in range(0, NUM, group):
        for i in range(first, first + group):
            hit = SimpleNamespace(red=colors[i].x, green=colors[i].y, blue=colors[i].z)
            evaluate(forwards, h=hit, i=i, k=0, **lists)
        evaluate(division, k=0, **lists)
        for i in reversed(range(first, first + group)):
            found[i] = evaluate(backwards, g=[0], i=i, k=0, **lists).g[0], lists["weight"][i][0]
    return [found[i] for i in range(NUM)]


@pytest.mark.parametrize("group", [1, NUM])
def test_compositing(group):
    powers, opacities = symbols("p:3", real=True), symbols("o:3", positive=True)
    alphas, background, d = symbols("a:3", real=True), Symbol("b"), vec("d")
    colors = [vec(f"c{i}") for i in range(NUM)]
    loss, _ = composite(alphas, [dot(c, d) for c in colors], background)
    chain = dict(zip(alphas, (o * exp(p) for o, p in zip(opacities, powers, strict=True)), strict=True))
    for i, (g, weight) in enumerate(walk(alphas, colors, d, background, group)):
        assert vanishes(g.subs(chain) - diff(loss.subs(chain), powers[i]))
        assert vanishes(weight * d.x - diff(loss, colors[i].x))


def test_background_factor_does_not_apply_to_colors():
    """A published formula applies T_final / (1 - alpha) to both. This is right only for the last splat."""
    alphas, values, background = symbols("a:3", real=True), symbols("v:3", real=True), Symbol("b")
    loss, final = composite(alphas, values, background)
    differences = []
    for i, alpha in enumerate(alphas):
        behind = composite(alphas[i + 1 :], values[i + 1 :], 0)[0]
        stated = final / (1 - alpha) * (values[i] - behind) - final / (1 - alpha) * background
        differences.append(vanishes(stated - diff(loss, alpha)))
    assert differences == [False, False, True]


def power(delta, conic):
    return -(Matrix(delta).T * Matrix([[conic[0], conic[1]], [conic[1], conic[2]]]) * Matrix(delta))[0] / 2


def test_moments_of_a_pixel():
    g, dx, dy, color = *symbols("g dx dy"), symbols("red green blue")
    sums = evaluate(
        quotation("Moments", "blend_backward"), g=[g], dx=dx, dy=[dy], red=color[0], green=color[1], blue=color[2]
    ).sums
    assert sums[:6] == [g, g * dx, g * dy, g * dx**2, g * dx * dy, g * dy**2]


def test_ellipse_from_moments():
    """With L = sum of g * power, gradients are linear in the moments for any g."""
    conic, mean, pixels = symbols("A B C"), symbols("u v"), [symbols("x0 y0"), symbols("x1 y1")]
    g = symbols("g0 g1")
    deltas = [(x - mean[0], y - mean[1]) for x, y in pixels]
    loss = sum(w * power(delta, conic) for w, delta in zip(g, deltas, strict=True))
    moments = SimpleNamespace(
        gx=sum(w * x for w, (x, _) in zip(g, deltas, strict=True)),
        gy=sum(w * y for w, (_, y) in zip(g, deltas, strict=True)),
    )
    out = evaluate(
        quotation("Moments", "geometry_backward"),
        s=moments,
        out=SimpleNamespace(),
        **dict(zip("ABC", conic, strict=True)),
    ).out
    assert vanishes(out.d_x - diff(loss, mean[0]))
    assert vanishes(out.d_y - diff(loss, mean[1]))
    second = [
        sum(w * p for w, p in zip(g, products, strict=True))
        for products in zip(*((x * x, 2 * x * y, y * y) for x, y in deltas), strict=True)
    ]
    assert all(vanishes(diff(loss, q) + s / 2) for q, s in zip(conic, second, strict=True))  # dL/dQ = -S2 / 2


def test_opacity():
    logit, ratio, p = symbols("logit ratio p")
    sigmoid = 1 / (1 + exp(-logit))
    gaussian, alpha = SimpleNamespace(opacity=sigmoid), sigmoid * ratio * exp(p)
    d_alpha = Symbol("d_alpha")
    sums = SimpleNamespace(g=alpha * d_alpha)
    out = evaluate(
        quotation("Moments", "opacity"), s=sums, g=gaussian, ratio=ratio, opacity=sigmoid * ratio, out=SimpleNamespace()
    ).out
    assert sympy.simplify(out.logit_opacity - d_alpha * diff(alpha, logit)) == 0
