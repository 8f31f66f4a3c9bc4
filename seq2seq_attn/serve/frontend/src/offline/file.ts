/** What the writer of the file put into it; seq2seq_attn/export/live.py is the other side. */

import type { ModelInfo } from "../api.ts";
import { unpacked } from "../packed.ts";

export interface Codec {
  kind: "word" | "character";
  lowercase: boolean;
  match_known_forms: boolean;
  tokens: string[]; // the vocabulary, by id
}

/** An input or output of a graph; a size that varies has its name. */
export interface Port {
  name: string;
  type: "float32" | "int64" | "bool";
  shape: (number | string)[];
}

export interface GraphInfo {
  file: string; // the id of the element that holds the graph
  inputs: Port[];
  outputs: Port[];
}

interface SearchOptions {
  beam_size: number;
  length_penalty: number;
  length_reward: number;
  min_length: number;
  max_length: number;
  max_length_ratio: number | null;
  max_length_margin: number;
}

export interface ModelFile {
  about: ModelInfo & { search: SearchOptions };
  codecs: { source: Codec; target: Codec };
  graphs: { encoder: GraphInfo; step: GraphInfo };
  start_token: number;
}

export const models = (): ModelFile[] => JSON.parse(content("models")) as ModelFile[];

/** The bytes of an element. */
export const bytes = (id: string): Promise<ArrayBuffer> => unpacked(content(id), "gzip");

function content(id: string): string {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the file is incomplete: it has no part ${id}`);
  return element.textContent!;
}
