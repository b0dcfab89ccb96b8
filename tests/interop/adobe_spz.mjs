// Niantic's library with Adobe's extensions: node adobe_spz.mjs IN.spz OUT.spz AXES
// Reads splats in the axes of a PLY and writes them in AXES ("LDB", ...), which OUT states as IN does; prints what it read.
import { readFileSync, writeFileSync } from "node:fs";
import createModule from "@adobe/spz";

const [source, target, axes] = process.argv.slice(2);
const log = () => {};
const spz = await createModule({ print: log, printErr: log });
const cloud = spz.loadSpzFromBuffer(new Uint8Array(readFileSync(source)), { to: spz.CoordinateSystem.RDF });
console.log(JSON.stringify({ positions: [...cloud.positions], rotations: [...cloud.rotations], sh: [...cloud.sh] }));
if (cloud.extensions.length) cloud.extensions[0].coordinateSystem = spz.CoordinateSystem[axes];
const options = { version: spz.LATEST_SPZ_HEADER_VERSION, from: spz.CoordinateSystem.RDF, sh1Bits: 8, shRestBits: 8 };
writeFileSync(target, spz.saveSpzToBuffer(cloud, options));
