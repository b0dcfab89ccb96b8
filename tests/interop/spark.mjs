// Spark decodes IN, of any format that it knows, and writes what it shows as OUT.spz: node spark.mjs IN OUT.spz
import { readFileSync, writeFileSync } from "node:fs";

globalThis.self = globalThis.window = globalThis; // it was made for browsers
const { transcodeSpz } = await import("@sparkjsdev/spark");
const [source, target] = process.argv.slice(2);
const input = { fileBytes: new Uint8Array(readFileSync(source)), pathOrUrl: source };
for (let attempt = 0; ; ++attempt) {
    try {
        writeFileSync(target, (await transcodeSpz({ inputs: [input], fractionalBits: 16 })).fileBytes);
        process.exit(0);
    } catch (error) {
        if (attempt === 100) throw error;
        await new Promise((resolve) => setTimeout(resolve, 100)); // its WebAssembly may still be loading
    }
}
