/** The story: seven screens, from one vector to the heads of a Transformer. */

import { html, nothing, type TemplateResult } from "lit";
import type { Answers, ModelInfo } from "../api.ts";
import { Part } from "../part.ts";
import { answerTo, inWords } from "../retry.ts";
import { readsText } from "../sent-files.ts";
import { wordsIn } from "../sentences.ts";
import "../walk-plane.ts";
import { castOf, type Language, LANGUAGES, languageOf } from "./math.ts";
import { type Choice, FIRST_CHOICE, type Screen, SCREENS, type Story } from "./screens.ts";
import "./story.css";

const FIRST = ["Tom chases Jerry .", "Jerry chases Tom ."]; // sentences of the models in the package
const SHORT = 7; // words of a sentence that fits a figure

export class StoryPage extends Part {
  static override properties = {
    answers: { attribute: false },
    models: { attribute: false },
    sentence: {},
    language: {},
    choice: { state: true },
    screen: { state: true },
    version: { state: true },
  };
  declare answers: Answers;
  declare models: readonly ModelInfo[];
  declare sentence: string; // of the page, which is told of models without a test set
  declare language: Language | null; // null: the reader's
  declare choice: Choice;
  declare screen: number; // that is in view
  declare version: number; // counts answers
  private readonly asked = new Map<string, { answer: unknown }>();
  private readonly leaving = new AbortController();
  private observer: IntersectionObserver | null = null;

  constructor() {
    super();
    this.choice = FIRST_CHOICE;
    this.screen = 0;
    this.version = 0;
  }

  override connectedCallback(): void {
    super.connectedCallback();
    document.addEventListener("keydown", this.turn); // wherever the focus is
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    document.removeEventListener("keydown", this.turn);
    this.leaving.abort();
    this.observer?.disconnect();
  }

  protected override firstUpdated(): void {
    // The screen that crosses the middle of the window is the one that is read.
    this.observer = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) if (isIntersecting) this.screen = this.sections.indexOf(target as HTMLElement);
      },
      { rootMargin: "-50% 0px -50% 0px" },
    );
    for (const section of this.sections) this.observer.observe(section);
  }

  private get sections(): HTMLElement[] {
    return [...this.querySelectorAll<HTMLElement>("section.screen")];
  }

  protected override render(): TemplateResult {
    const language = this.language ?? languageOf(navigator.languages);
    const texts = LANGUAGES[language];
    const story: Story = {
      texts,
      cast: castOf(this.readers),
      sentences: this.sentences,
      choice: this.choice,
      change: (patch) => (this.choice = { ...this.choice, ...patch }),
      decoded: (model, source) => this.answer(["steps", model.name, source], (signal) => this.answers.steps({ model: model.name, source, beam_size: 1 }, signal)),
      plane: (model, source) => this.answer(["plane", model.name, source], (signal) => this.answers.plane({ model: model.name, source, layer: 0, head: 0 }, signal)),
      selfAttention: (model, source) => this.answer(["self", model.name, source], (signal) => this.answers.selfAttention(model.name, source, signal)),
    };
    return html`<article class="story" lang=${language}>
      <div class="opening"><h2>${texts.title}</h2>
        <div class="line" role="group" aria-label=${texts.language}>${Object.entries(LANGUAGES).map(([name, own]) => html`
          <button type="button" lang=${name} aria-pressed=${name === language} @click=${() => this.ask("change-state", { language: name as Language })}>${own.name}</button>`)}</div>
        <p>${texts.lead}</p></div>
      <nav class="dots" aria-label=${texts.screens}>${SCREENS.map(({ name }, place) => html`<button type="button"
        aria-label="${place + 1}: ${texts[`${name}Title`]}" aria-current=${place === this.screen ? "step" : "false"} @click=${() => this.show(place)}>${place + 1}</button>`)}</nav>
      ${SCREENS.map((screen, place) => this.drawn(screen, place, story))}
    </article>`;
  }

  private drawn({ name, figure, link }: Screen, place: number, story: Story): TemplateResult {
    const { texts } = story;
    const address = link(story);
    return html`<section class="screen" data-screen=${name} aria-labelledby="story-${name}">
      <div class="told"><p class="place" aria-hidden="true">${place + 1}</p>
        <h3 id="story-${name}" tabindex="-1">${texts[`${name}Title`]}</h3>
        <p>${texts[`${name}Text`]}</p>
        <p class="try"><strong>${texts.try}</strong> ${texts[`${name}Try`]}</p>
        ${address === null ? nothing : html`<p><a href="#${address}">${texts[`${name}Link`]} →</a></p>`}</div>
      <figure>${figure(story)}</figure>
    </section>`;
  }

  /** The models that read sentences. */
  private get readers(): readonly ModelInfo[] {
    return this.models.filter(readsText);
  }

  /** Short sentences: of the test set, before them two of the package's corpus if that is what the first model read. */
  private get sentences(): readonly string[] {
    const examples = this.readers[0]?.examples.map((each) => each.source) ?? [];
    if (examples.length === 0) return [this.sentence];
    const known = examples.some((source) => wordsIn(source).includes("Tom")) ? FIRST : [];
    const short = examples.filter((source) => wordsIn(source).length <= SHORT);
    return [...known, ...(short.length > 0 ? short : examples)].slice(0, 3);
  }

  /** An answer, or what became of it so far. */
  private answer<T>(key: readonly string[], work: (signal: AbortSignal) => Promise<T>): T | Error | null {
    const name = JSON.stringify(key);
    const known = this.asked.get(name);
    if (known) return known.answer as T | Error | null;
    const place: { answer: unknown } = { answer: null };
    this.asked.set(name, place);
    const show = (answer: T | Error | null): void => {
      place.answer = answer;
      this.version += 1;
    };
    const { signal } = this.leaving;
    void answerTo(() => work(signal), signal, ({ error, pause }) => show(new Error(inWords(error, pause))))
      .then((answer) => answer !== null && show(answer));
    return null;
  }

  private show(place: number): void {
    const section = this.sections[place];
    if (!section) return;
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    section.scrollIntoView({ behavior: isStill ? "auto" : "smooth" });
    section.querySelector<HTMLElement>("h3")!.focus({ preventScroll: true });
  }

  /** Page keys go from screen to screen: down to the present one, if it is below the opening. */
  private readonly turn = (event: KeyboardEvent): void => {
    const by = { PageDown: 1, PageUp: -1 }[event.key];
    if (by === undefined || (event.target as Element).matches("input, textarea, select")) return;
    const isBelow = this.sections[this.screen]!.getBoundingClientRect().top > innerHeight / 6;
    const next = by === 1 && isBelow ? this.screen : this.screen + by;
    if (next < 0 || next >= SCREENS.length) return;
    event.preventDefault();
    this.show(next);
  };
}

customElements.define("story-page", StoryPage);
