"""docs/method.md: ellipse, covariance, projection, colour and filter of a splat are derivatives of the forward pass."""

import re
from types import SimpleNamespace

import pytest
import sympy
from sympy import Matrix, Symbol, diff, exp, symbols

from tests import kernel_formulas as kernel
from tests.kernel_formulas import dot, evaluate, function_body, mat, quotation, rows, vanishes, vec

SUMS = SimpleNamespace(**{name: Symbol(name, real=True) for name in ("g", "gx", "gy", "gxx", "gxy", "gyy")})


def ellipse():
    """Rows of V as symbols, the 2D covariance, and the kernel's results for them."""
    p = SimpleNamespace(v0=vec("v0"), v1=vec("v1"), dilation=Symbol("e", positive=True))
    p.a, p.b, p.c = dot(p.v0, p.v0) + p.dilation, dot(p.v0, p.v1), dot(p.v1, p.v1) + p.dilation
    p.det0 = (p.a - p.dilation) * (p.c - p.dilation) - p.b**2
    p.det = p.a * p.c - p.b**2
    return p, evaluate(quotation("Ellipse"), p=p, s=SUMS, out=SimpleNamespace())


def test_ellipse():
    p, of = ellipse()
    loss = -(p.c * SUMS.gxx - 2 * p.b * SUMS.gxy + p.a * SUMS.gyy) / (2 * p.det)  # -1/2 tr(Q S2)
    for v, d_v in ((p.v0, of.d_v0), (p.v1, of.d_v1)):
        assert vanishes(d_v.x - diff(loss, v.x))
        assert vanishes(d_v.z - diff(loss, v.z))
    by_scale = p.v0.y * diff(loss, p.v0.y) + p.v1.y * diff(loss, p.v1.y)
    assert vanishes(of.out.log_scale.y - by_scale)


def test_compensated_opacity():
    p, of = ellipse()
    names = {name: getattr(of, name) for name in ("x0", "x1", "w0", "w1")}
    extra = evaluate(quotation("Ellipse", "antialias"), p=p, s=SUMS, **names)
    for v, e in ((p.v0, extra.e0), (p.v1, extra.e1)):
        by_log = (diff(p.det0, v.y) / p.det0 - diff(p.det, v.y) / p.det) / 2  # derivative of ln sqrt(det0 / det)
        assert vanishes(e.y - SUMS.g * by_log)


def test_scales_and_rotation():
    p = SimpleNamespace(u0=vec("u0"), u1=vec("u1"))
    r, gaussian, d_v0, d_v1 = mat("r"), SimpleNamespace(scale=vec("s")), vec("d0"), vec("d1")
    rotation_scale = rows(r) * sympy.diag(*gaussian.scale.list())
    p.m = SimpleNamespace(**{f"r{i}": kernel.make_vec(*rotation_scale.row(i)) for i in range(3)})
    of = evaluate(
        quotation("Scales and rotation"),
        p=p,
        g=gaussian,
        d_v0=d_v0,
        d_v1=d_v1,
        d_m=SimpleNamespace(),
        d_r=SimpleNamespace(),
    )
    upstream = Matrix([d_v0.list(), d_v1.list()])
    loss = sum(upstream.multiply_elementwise(Matrix([p.u0.list(), p.u1.list()]) * rotation_scale))
    assert (rows(of.d_r) - rows(r).applyfunc(lambda entry: diff(loss, entry))).expand().is_zero_matrix
    assert all(vanishes(a - diff(loss, b)) for a, b in zip(of.d_u0.list(), p.u0.list(), strict=True))
    assert all(vanishes(a - diff(loss, b)) for a, b in zip(of.d_u1.list(), p.u1.list(), strict=True))


def test_quaternion():
    raw, d = vec("q", 4), mat("d")
    w, x, y, z = raw.list()
    norm2 = dot(raw, raw)
    rotation = Matrix([
        [norm2 - 2 * (y**2 + z**2), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), norm2 - 2 * (x**2 + z**2), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), norm2 - 2 * (x**2 + y**2)],
    ]) / norm2  # fmt: skip
    loss = sum(rows(d).multiply_elementwise(rotation))
    inverse = Symbol("inverse")
    g = evaluate(quotation("Quaternion"), raw=raw, inv_norm=inverse, d=d, g=SimpleNamespace()).g
    for q, ours in zip(raw.list(), (g.x, g.y, g.z, g.w), strict=True):
        even = sympy.expand(ours).subs({inverse**4: norm2**-2, inverse**2: 1 / norm2})
        assert vanishes(even - diff(loss, q))


def camera_loss(t, w, k, tx, ty, upstream):
    """A linear function of the rows of U = J W and of mean2d."""
    j = Matrix([[k.fx / t[2], 0, -k.fx / t[2] * tx], [0, k.fy / t[2], -k.fy / t[2] * ty]])
    u0, u1, d_x, d_y = upstream
    mean2d = k.fx * t[0] / t[2] * d_x + k.fy * t[1] / t[2] * d_y
    return sum(Matrix([u0.list(), u1.list()]).multiply_elementwise(j * w)) + mean2d


@pytest.mark.parametrize("clamped", [False, True])
def test_projection(clamped):
    t, w, k = vec("t"), mat("w"), SimpleNamespace(fx=Symbol("fx"), fy=Symbol("fy"))
    tx, ty = symbols("cx cy") if clamped else (t.x / t.z, t.y / t.z)
    p, upstream = SimpleNamespace(t=t, tx=tx, ty=ty), (vec("d0"), vec("d1"), *symbols("dx dy"))
    out = SimpleNamespace(d_x=upstream[2], d_y=upstream[3])
    names = {"p": p, "k": k, "w": w, "d_u0": upstream[0], "d_u1": upstream[1], "out": out}
    of = evaluate(quotation("Projection"), d_t=kernel.make_vec(0, 0, 0), **names)
    loss = camera_loss(t.list(), rows(w), k, tx, ty, upstream)
    d_t = of.d_t
    assert all(vanishes(ours - diff(loss, by)) for ours, by in zip(d_t.list(), t.list(), strict=True))
    assert all(vanishes(ours - by) for ours, by in zip(out.mean.list(), rows(w).T * Matrix(d_t.list()), strict=True))

    if clamped:
        return
    turn = evaluate(quotation("Projection", "camera"), sx=of.sx, sy=of.sy, **{**names, "d_t": d_t}).out.rotation
    omega = Matrix(symbols("omega:3"))
    moved = Matrix(t.list()) + omega.cross(Matrix(t.list()))
    turned = Matrix.hstack(*(rows(w).col(i) + omega.cross(rows(w).col(i)) for i in range(3)))
    loss = camera_loss(moved, turned, k, moved[0] / moved[2], moved[1] / moved[2], upstream)
    still = dict.fromkeys(omega, 0)
    assert all(vanishes(ours - diff(loss, by).subs(still)) for ours, by in zip(turn.list(), omega, strict=True))


def test_direction_of_color():
    ray, coefficient, d_color, slopes = vec("r"), vec("s"), vec("d"), vec("slope")  # slopes: gradient of one Y_k
    length = sympy.sqrt(dot(ray, ray))
    names = {"inv_length": 1 / length, "d_direction": kernel.make_vec(0, 0, 0), "d_y": slopes}
    d_ray = evaluate(quotation("Colour"), ray=ray, coefficient=coefficient, d_color=d_color, **names).result
    for ours, by in zip(d_ray.list(), ray.list(), strict=True):
        d_basis = sum(slope * diff(r / length, by) for slope, r in zip(slopes.list(), ray.list(), strict=True))
        assert sympy.simplify(ours - dot(coefficient, d_color) * d_basis) == 0


def harmonics():
    """(k, Y_k, its gradient) of sh_visit, and Y_k of sh_basis."""
    body, d = function_body("raster/sh.cuh", "sh_visit"), vec("d")
    square = {"xx": d.x**2, "yy": d.y**2, "zz": d.z**2}
    constants = {name: sympy.Rational(value) for name, value in re.findall(r"(c\d\w*) = (\d\.\d+)f", body)}
    names = {**kernel.FUNCTIONS, **constants, **square, "x": d.x, "y": d.y, "z": d.z}
    visited = re.findall(r"\bf\((\d+),(.*?)\);", body, re.DOTALL)
    cases = dict(re.findall(r"(?:case (\d+)|default): return (.*?);", function_body("raster/sh.cuh", "sh_basis")))
    for k, arguments in visited:
        value, gradient = eval(kernel.to_python(" ".join(arguments.split())), names)
        yield int(k), d, value, gradient, eval(kernel.to_python(cases[k if k in cases else ""]), names)


def test_spherical_harmonics():
    seen = []
    for k, d, value, gradient, again in harmonics():
        seen.append(k)
        assert vanishes(value - again)
        assert all(vanishes(g - diff(value, by)) for g, by in zip(gradient.list(), d.list(), strict=True))
    assert seen == list(range(1, 16))


def test_smooth_3d():
    logs, log_opacity, variance = symbols("l:3", real=True), Symbol("lo"), Symbol("f", positive=True)
    sums = [exp(2 * l) + variance for l in logs]
    shares = [exp(2 * l) / s for l, s in zip(logs, sums, strict=True)]
    by_scale, by_opacity = vec("d"), Symbol("d_opacity")
    d = SimpleNamespace(log_scale=by_scale)
    opacity = exp(log_opacity)
    s = SimpleNamespace(share=kernel.make_vec(*shares), rest=1 - opacity)
    d = evaluate(quotation("3D smoothing filter"), s=s, d=d, d_log_opacity=by_opacity).d
    loss = sum(g * sympy.log(s) / 2 for g, s in zip(by_scale.list(), sums, strict=True))
    loss += by_opacity * (log_opacity + sum(2 * l - sympy.log(s) for l, s in zip(logs, sums, strict=True)) / 2)
    assert all(sympy.simplify(ours - diff(loss, l)) == 0 for ours, l in zip(d.log_scale.list(), logs, strict=True))
    logit = Symbol("logit")
    slope = diff(sympy.log(1 / (1 + exp(-logit))), logit)
    rest = 1 - 1 / (1 + exp(-logit))
    assert sympy.simplify(d.logit_opacity.subs(opacity, 1 - rest) - by_opacity * slope) == 0
