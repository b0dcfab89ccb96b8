// Writes the files of tests/gaussians/formats/golden by other programs: npm install --prefix tests/interop, then
// node tests/interop/make_golden.mjs. They are made from golden/splats.json without any code of this project.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import createModule from "@adobe/spz";

const here = dirname(fileURLToPath(import.meta.url));
const golden = join(here, "../gaussians/formats/golden");
const splats = JSON.parse(readFileSync(join(golden, "splats.json")));

// A binary PLY with the properties of the INRIA code: coefficients of red, then of green, then of blue.
const names = ["x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2"];
for (let i = 0; i < 45; ++i) names.push(`f_rest_${i}`);
names.push("opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3");
const rows = splats.map((s) => {
    const rest = [0, 1, 2].flatMap((channel) => s.shN.map((coefficient) => coefficient[channel]));
    return [...s.mean, 0, 0, 0, ...s.sh0, ...rest, s.logit_opacity, ...s.log_scales, ...s.quat];
});
const properties = names.map((name) => `property float ${name}\n`).join("");
const header = `ply\nformat binary_little_endian 1.0\nelement vertex ${rows.length}\n${properties}end_header\n`;
const ply = join(mkdtempSync(join(tmpdir(), "golden-")), "splats.ply");
writeFileSync(ply, Buffer.concat([Buffer.from(header), Buffer.from(new Float32Array(rows.flat()).buffer)]));

// PlayCanvas's splat-transform
const cli = join(here, "node_modules/@playcanvas/splat-transform/bin/cli.mjs");
const transform = (...options) => execFileSync(process.execPath, [cli, "--quiet", "--overwrite", ply, ...options]);
transform(join(golden, "splat_transform.compressed.ply"));
transform("--gpu", "cpu", join(golden, "splat_transform.sog"));
for (const version of [3, 4]) transform("--spz-version", version, join(golden, `splat_transform_v${version}.spz`));

// Niantic's library with Adobe's extensions; quaternions x y z w
const spz = await createModule({ print: () => {}, printErr: () => {} });
const floats = (values) => new Float32Array(splats.flatMap(values));
const cloud = {
    numPoints: splats.length,
    shDegree: 3,
    antialiased: true,
    positions: floats((s) => s.mean),
    scales: floats((s) => s.log_scales),
    rotations: floats((s) => [...s.quat.slice(1), s.quat[0]]),
    alphas: floats((s) => s.logit_opacity),
    colors: floats((s) => s.sh0),
    sh: floats((s) => s.shN.flat()),
    extensions: [],
};
const from = spz.CoordinateSystem.RDF;
for (const version of [3, 4]) {
    const packed = spz.saveSpzToBuffer(cloud, { version, from, sh1Bits: 8, shRestBits: 8 });
    writeFileSync(join(golden, `adobe_v${version}.spz`), packed);
}

// Spark
execFileSync(process.execPath, [join(here, "spark.mjs"), ply, join(golden, "spark.spz")]);
