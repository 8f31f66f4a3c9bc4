/** The scripts of a report, which is complete without them: tooltips, sorting, downloads, and attention step by step. */

import { startCharts } from "./report/charts.ts";
import { Corpus } from "./report/corpus.ts";
import { byId, startPage } from "./report/page.ts";
import "./report/panel.ts";
import { startTables } from "./report/tables.ts";
import { AttentionViewer } from "./report/viewer.ts";

async function showAttention(): Promise<void> {
  const corpus = await Corpus.read();
  if (corpus.pairs.length === 0) return;
  await Promise.all([...document.fonts].map((face) => face.load())); // text measured earlier would use a fallback font
  const viewer = new AttentionViewer(corpus);
  await viewer.restore();
  document.documentElement.classList.add("scripted");
  byId("viewer").hidden = false;
  byId("viewer").append(viewer);
  await viewer.updateComplete;
  document.documentElement.dataset["shown"] = ""; // for tests: the sentence is drawn
}

startPage();
startCharts();
startTables();
void showAttention();
