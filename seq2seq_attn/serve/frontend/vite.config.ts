import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { type BuildEnvironmentOptions, defineConfig, type Plugin, type UserConfig } from "vite";

const SOURCES = ["index.html", "onnxruntime.LICENSE", "package-lock.json", "package.json", "src", "tsconfig.json", "vite.config.ts"];

/** The files below a path of this folder, with / between the parts of their paths. */
function files(path: string): string[] {
  if (!statSync(join(import.meta.dirname, path)).isDirectory()) return [path];
  return readdirSync(join(import.meta.dirname, path)).flatMap((name) => files(`${path}/${name}`));
}

/** SHA-256 of all sources; tests/serve/test_live_page.py computes the same to see that the bundle is up to date. */
function sourcesHash(): string {
  const hash = createHash("sha256");
  for (const path of SOURCES.flatMap(files).sort()) {
    hash.update(`${path}\0`);
    hash.update(readFileSync(join(import.meta.dirname, path)));
  }
  return hash.digest("hex");
}

const banner = (): string => `/* sources: ${sourcesHash()} */`;

const stamp: Plugin = {
  name: "stamp",
  transformIndexHtml: () => [
    { tag: "meta", attrs: { name: "sources", content: sourcesHash() }, injectTo: "head" },
  ],
};

/** onnxruntime finds its parts beside its own address. In one file there is none, and the parts are given to it. */
const withoutAddress: Plugin = {
  name: "without-address",
  enforce: "pre",
  transform: (code, id) =>
    id.includes("onnxruntime-web") ? code.replaceAll("import.meta.url", '"https://onnxruntime.invalid/"') : null,
};

/** The runtime, compressed: seq2seq_attn/export/live.py writes it into the file. */
const runtime: Plugin = {
  name: "runtime",
  generateBundle() {
    const file = join(import.meta.dirname, "node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm");
    const source = gzipSync(readFileSync(file), { level: 9 });
    this.emitFile({ type: "asset", fileName: "onnxruntime.wasm.gz", source });
    // Its package has no file with the license, so licenses.md lacks the text.
    const license = readFileSync(join(import.meta.dirname, "onnxruntime.LICENSE"));
    this.emitFile({ type: "asset", fileName: "onnxruntime.LICENSE", source: license });
  },
};

/** What all three builds have. The licenses of the bundled packages ask that their notices are kept: also in a file of its own. */
const into = (outDir: string): BuildEnvironmentOptions => ({
  outDir,
  emptyOutDir: true,
  license: { fileName: "licenses.md" },
  modulePreload: { polyfill: false },
});

/** The server's page, in an address of its own. */
const page: UserConfig = {
  base: "./",
  plugins: [stamp],
  build: {
    ...into("../page"),
    // Names without hashes: a change of the page is a change of the same files. The server sends ETags.
    rollupOptions: {
      output: { entryFileNames: "assets/page.js", assetFileNames: "assets/[name][extname]" },
    },
  },
  server: { proxy: { "/v1": "http://127.0.0.1:5000", "/fonts": "http://127.0.0.1:5000" } },
};

/** The parts of a file that decodes in the page itself: one script, one style sheet with its font, the runtime. */
const live: UserConfig = {
  plugins: [withoutAddress, runtime],
  resolve: { alias: { "/fonts": join(import.meta.dirname, "../../report/fonts") } },
  build: {
    ...into("../../export/page"),
    assetsInlineLimit: 1 << 20,
    rollupOptions: {
      input: "src/live.ts",
      output: {
        entryFileNames: "live.js",
        assetFileNames: "[name][extname]",
        postBanner: banner(),
      },
    },
  },
};

/** The scripts of a report, and the styles of the parts that it shares with the page: report/html_page.py inlines them. */
const report: UserConfig = {
  build: {
    ...into("../../report/page"),
    rollupOptions: {
      input: "src/report.ts",
      output: { entryFileNames: "report.js", assetFileNames: "[name][extname]", postBanner: banner() },
    },
  },
};

export default defineConfig(({ mode }) => ({ live, report })[mode] ?? page);
