/** The graphs of a model, run by onnxruntime; the sizes of their first axis are sentences or hypotheses. */

import { env, InferenceSession, Tensor } from "onnxruntime-web/wasm";
import { bytes, type GraphInfo, type ModelFile, type Port } from "./file.ts";

export type Tensors = Record<string, Tensor>;

let runtime: Promise<void> | null = null;

async function loadRuntime(): Promise<void> {
  env.wasm.numThreads = 1; // several would need a server that isolates the page
  env.wasm.wasmBinary = await bytes("runtime");
}

let last: Promise<unknown> = Promise.resolve();

/** Runs the work after all that was asked for before: the runtime fails if two of its calls overlap. */
function inTurn<T>(work: () => Promise<T>): Promise<T> {
  const done = last.then(work);
  last = done.catch(() => undefined);
  return done;
}

class Graph {
  private constructor(
    private readonly session: InferenceSession,
    private readonly info: GraphInfo,
  ) {}

  static async load(info: GraphInfo): Promise<Graph> {
    await (runtime ??= loadRuntime());
    const file = new Uint8Array(await bytes(info.file));
    const options = { executionProviders: ["wasm"], logSeverityLevel: 3 } as const; // errors: it warns of unused weights
    return new Graph(await inTurn(() => InferenceSession.create(file, options)), info);
  }

  run(given: Tensors): Promise<Tensors> {
    const feeds = Object.fromEntries(this.info.inputs.map(({ name }) => [name, given[name]!]));
    return inTurn(() => this.session.run(feeds));
  }
}

/** A model's encoder and step. */
export class Graphs {
  private constructor(
    readonly encoder: Graph,
    readonly step: Graph,
    readonly state: readonly string[], // the names of the tensors that a step replaces
    readonly memory: readonly string[], // and of those that it keeps
    readonly further: readonly Port[], // inputs for interventions
  ) {}

  static async load({ graphs: { encoder, step } }: ModelFile): Promise<Graphs> {
    const after = new Set(step.outputs.map(({ name }) => name));
    const carried = encoder.outputs.map(({ name }) => name);
    const known = new Set([...carried, "tokens"]);
    return new Graphs(
      await Graph.load(encoder),
      await Graph.load(step),
      carried.filter((name) => after.has(`next_${name}`)),
      carried.filter((name) => !after.has(`next_${name}`)),
      step.inputs.filter(({ name }) => !known.has(name)),
    );
  }
}

export const integers = (values: readonly number[], dims: number[]): Tensor =>
  new Tensor("int64", BigInt64Array.from(values, BigInt), dims);

/** The tensor with only these rows, in this order; a row may repeat. */
function selected(tensor: Tensor, rows: readonly number[]): Tensor {
  const { type, dims } = tensor;
  const data = tensor.data as Float32Array;
  const size = dims.slice(1).reduce((product, each) => product * each, 1);
  const found = new (data.constructor as Float32ArrayConstructor)(size * rows.length);
  rows.forEach((row, place) => found.set(data.subarray(row * size, (row + 1) * size), place * size));
  return new Tensor(type as "float32", found, [rows.length, ...dims.slice(1)]);
}

/** These tensors with these rows; unchanged if they are all rows in their order. */
export function select(tensors: Tensors, names: readonly string[], rows: readonly number[]): Tensors {
  const isAll = (tensor: Tensor): boolean => tensor.dims[0] === rows.length && rows.every((row, i) => row === i);
  return Object.fromEntries(
    names.map((name) => [name, isAll(tensors[name]!) ? tensors[name]! : selected(tensors[name]!, rows)]),
  );
}

/** Row `row` of a tensor of two dimensions or more, as a view. */
export function row(tensor: Tensor, number: number): Float32Array {
  const data = tensor.data as Float32Array;
  const size = data.length / tensor.dims[0]!;
  return data.subarray(number * size, (number + 1) * size);
}
