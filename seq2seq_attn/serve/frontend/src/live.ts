/** The page in a file of its own: the models are in the file and run in the browser. */

import { AttentionPage } from "./app.ts";
import { OfflineAnswers } from "./offline/answers.ts";
import { models } from "./offline/file.ts";
import { defaults, writeState } from "./state.ts";
import "./style.css";

const COMPARED = 2; // models that are shown side by side at first

if (!location.hash) {
  const first = models().slice(0, COMPARED).map(({ about }) => about.name);
  history.replaceState(null, "", `#${writeState({ ...defaults(), models: first })}`);
}
void document.fonts.load("1em Subset", "汤"); // before the first translation needs it
AttentionPage.answers = new OfflineAnswers();
document.body.prepend(document.createElement("attention-page"));
