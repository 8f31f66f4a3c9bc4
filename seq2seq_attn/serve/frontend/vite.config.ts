import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type Plugin } from "vite";

const SOURCES = ["index.html", "package-lock.json", "package.json", "src", "tsconfig.json", "vite.config.ts"];

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

const stamp: Plugin = {
  name: "stamp",
  transformIndexHtml: () => [
    { tag: "meta", attrs: { name: "sources", content: sourcesHash() }, injectTo: "head" },
  ],
};

export default defineConfig({
  base: "./",
  plugins: [stamp],
  build: {
    outDir: "../page",
    emptyOutDir: true,
    license: { fileName: "licences.md" }, // of the bundled packages, which ask that their notices are kept
    modulePreload: { polyfill: false },
    // Names without hashes: a change of the page is a change of the same files. The server sends ETags.
    rollupOptions: {
      output: { entryFileNames: "assets/page.js", assetFileNames: "assets/[name][extname]" },
    },
  },
  server: { proxy: { "/v1": "http://127.0.0.1:5000", "/fonts": "http://127.0.0.1:5000" } },
});
