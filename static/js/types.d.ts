// What passes between the page's modules, and between the page and the server. The server's side is named with each.

// --- elements

/** A class of elements, to look one up and check it. */
export interface Kind<T extends Element> {
  readonly name: string;
  readonly prototype: T;
  new (): T;
}
/** What `h("input.field")` makes: the tag stands before the first dot. */
export type ElementOf<K extends string> = Tag<K> extends keyof HTMLElementTagNameMap
  ? HTMLElementTagNameMap[Tag<K>]
  : HTMLElement;
type Tag<K extends string> = K extends `${infer Name}.${string}` ? Name : K;

export type Attributes = Record<string, string | number>;
export type Child = Node | string | null | undefined;
export type Children = Child | Child[];
/** Children of a drawing: a row of it may be a list, and a list of those one child. */
export type Drawn = Child | Child[] | Child[][];

// --- what the reader has chosen

export type Sizes = Record<string, number>;
export type Options = Record<string, string | number | boolean>;
/** What to choose for kernels, by kernel and decision: `SpMM_0.chunk`. */
export type Schedule = Record<string, string | number | boolean>;

/** Texts of stages in the place of the compiler's. */
export type Edited = Record<string, string>;

export interface Pane {
  stage: string;
  /** The number of a pass; null is the stage's end. */
  at: number | null;
  diff: boolean;
  passes: boolean;
  drawn: boolean;
  /** Whether the table of decisions is shown, where the stage has one. */
  decisions: boolean;
  /** Whether the stage's text is being edited, where that has been unlocked. */
  editing: boolean;
  /** What a difference is to, where not to what the pass was given; -1 is what the first pass was given. */
  versus: { stage: string; at: number | null } | null;
}

/** What a compilation is made of. */
export interface Input {
  text: string;
  sizes: Sizes;
  defaultSizes: Sizes;
  options: Options;
  schedule: Schedule;
  edited: Edited;
  data: string;
}

/** One side of a comparison. */
export interface Choices {
  sizes: Sizes;
  options: Options;
  schedule: Schedule;
}

export interface Kept extends Input {
  panes: Pane[];
  against: Choices | null;
  /** The operation whose story is told. */
  story: number | null;
  example: string;
  /** Widths of columns and heights of rows of the panes, in pixels as they were: `columns3`. */
  layout: Record<string, number[]>;
  /** Whether each line has the time of its operation beside it. */
  heat: boolean;
}

export interface State extends Kept {
  edit: number;
  good: number;
  goodInput: Input | null;
  goodFacts: GoodFacts | null;
  scheduleBefore: Schedule;
  active: number;
  facts: Facts | null;
}

// --- what helps a reader: web/guide

/** By option the stages that its other value would change: runtime/runs/flips.py. */
export type Flips = Record<string, string[]>;
/** A stop of the tour: web/guide/tour.py. */
export interface Stop {
  example: string;
  look: string;
  panes: { stage: string; at: number | null; diff: boolean }[];
  options: Options;
}
/** What names mean: web/guide/words.py. */
export type Meanings = Record<"passes" | "options" | "controls" | "words", Record<string, string>>;

// --- a compilation: web/pages.py (_facts), compiler/to_json.py

/** Of an operation, as `web/heat/view.py` has it; `share` is of the time of all. */
export interface Figure {
  short: string;
  share: number;
  words: string;
}
/** Where time goes, by the number of an operation, and what that rests on, or why nobody knows. */
export interface Heat {
  operations?: Record<number, Figure>;
  /** Of lines of the machine code, where samples of it were recorded. */
  lines?: Record<number, Figure>;
  basis?: string;
  reason?: string;
}

export interface Place {
  line: number;
  column: number;
  end_line: number;
  end_column: number;
}
export type Nowhere = Record<keyof Place, null>;

export interface Fix extends Place {
  label: string;
  replacement: string;
}
export type Diagnostic = (Place | Nowhere) & {
  message: string;
  detail: string;
  source: string;
  fixes: Fix[];
  severity: string;
};
export type PlacedDiagnostic = Diagnostic & Place;

export interface Operation extends Place {
  id: number;
  label: string;
  op: string;
  extent: Place;
}

/** What was found of an edited text: compiler/edited/verdict.py. */
export interface EditedFact {
  stage: string;
  status: "same" | "matches" | "wrong" | "refused";
  message: string;
  line: number;
  column: number;
  /** By line of the text its operation. */
  lines: (number | null)[];
}

interface AnyFacts {
  edit: number;
  lists: string;
  /** By target the digest of the program that it runs. */
  programs: Partial<Record<Target, string>>;
  diagnostics: Diagnostic[];
  /** Of a text that was not compiled at all there are none. */
  sizes?: Sizes;
  sizes_from: Record<string, string>;
}
export interface GoodFacts extends AnyFacts {
  ok: true;
  name: string;
  family: Family;
  sizes: Sizes;
  /** Empty where nothing depends on data. */
  data: string;
  options: Options;
  schedule: Schedule;
  edited: EditedFact[];
  operations: Operation[];
  effects: Record<string, string>;
  refused: Record<string, number>; // by option, the operation that its pass refused first
  heeded: string[];
  /** Side A of a comparison, where it compiles. */
  against: Pick<GoodFacts, "sizes" | "options" | "schedule" | "programs"> | null;
}
export interface BadFacts extends AnyFacts {
  ok: false;
}
export type Facts = GoodFacts | BadFacts;

/** `POST /api/compile`, as far as the page reads it. */
export interface Compiled {
  name: string;
  stages: { text: string; passes: { after: { text: string }[] }[] }[];
}

/** A graph that is drawn: web/panes/drawing.py. */
export interface Drawing {
  nodes: DrawnNode[];
  edges: [string, string][];
  /** What is fused, the edges between, and why they are. */
  kernels?: { id: string; nodes: string[]; backward: boolean }[];
  barriers?: { from: string; to: string; why: string }[];
  too_many?: number;
}
export interface DrawnNode {
  id: string;
  label: string;
  about: string;
  hue: string;
  kind: string;
  operations: number[];
}

// --- data: runtime/data

export type Family = "score" | "layer" | "op";
export interface OfferedTriples {
  entities: number;
  relations: number;
  triples: number;
}
export interface OfferedGraph {
  nodes: number;
  edges: number;
  ntypes: number;
  etypes: number;
}
/** A graph that a layer ran on. */
export type RanGraph = OfferedGraph & {
  /** Where its edges lead from one set to another: how many elements both have, by name. */
  ends?: Record<string, number>;
};
export interface OfferedLists {
  /** The kind of op that it is for. */
  for: string;
}
/** An entry of `GET /api/data`. */
export type Offered = { name: string; label: string; generated: boolean } & (OfferedTriples | OfferedGraph | OfferedLists);

/** `POST /api/data`: a file that was dropped, by family what the list of data has of it. */
export interface Dropped {
  name: string;
  label: string;
  offers: { [F in Family]?: Offered };
}

/** `GET /api/locality`. */
export interface Reuse {
  accesses: number;
  distinct: number;
  within_1000: number;
  x: number[];
  share: number[];
}

// --- a run while it goes: runtime/runs/events.py

export type Target = "cpu" | "dae" | "gpu";

export interface Labels {
  run?: number;
  edit?: number;
  /** Where the page has got to in a run that a queue keeps, with which it can go on over another connection. */
  at?: string;
}
export type RunEvent = Labels & (Queued | Started | Repeated | Progress | Sample | Space | Trial | Result | Failed);

export interface Queued {
  event: "queued";
  position: number;
  message: string;
}
/** The run begins anew: what it said before counts no more. */
export interface Repeated {
  event: "repeated";
  message: string;
}
export interface Started {
  event: "started";
  target: Target;
  device: string;
  source: string;
}
export interface Progress {
  event: "progress";
  what: string;
  done: number;
  total: number;
}
export type Sample = TimedSample | MachineSample;
export interface TimedSample {
  event: "sample";
  index: number;
  ms: number;
  /** The peer that it is of; ours has none. */
  of?: string;
}
export interface MachineState {
  cycle: number;
  triples: number;
  queue_bytes: number;
  control_tokens: number;
  access_busy: number;
  execute_busy: number;
  access_stalls: Record<string, number | undefined>;
  execute_stalls: Record<string, number | undefined>;
}
export interface MachineSample extends MachineState {
  event: "sample";
}

/** A value that is chosen: of an option, a decision or a parameter of the machine. */
export type Chosen = string | number | boolean;
/** What is tuned: the points to choose from, and how they are compared. */
export interface Space {
  event: "space";
  points: number;
  genes: Gene[];
  metric: "cycles" | "ms";
  source: string;
  predicted: boolean;
  /** What predicts, or why nothing does. */
  by: string;
  budget: number;
  /** What trials are on, where that is not all of the data. */
  part: string;
  /** What random search is expected to have after each trial, by what is known, as shares of the usual point. */
  expected: number[] | null;
  /** What is known of all points before they are tried. */
  known: "the predictions" | "the recorded times";
}
/** Something that is chosen at each point: an option, a decision (`SpMM_0.chunk`), a parameter of the machine. */
export interface Gene {
  key: string;
  values: Chosen[];
  usual?: Chosen | null;
}
export type TrialStatus = "timed" | "same" | "stopped" | "invalid" | "wrong" | "faulted";
/** A point that was tried; the first is the usual one. `predicted` is in the unit of `value`. */
export interface Trial {
  event: "trial";
  number: number;
  choices: Record<string, Chosen>;
  value: number | null;
  predicted: number | null;
  status: TrialStatus;
  note: string;
  /** Whether the search asked for it, and not what is said of the best. */
  searched: boolean;
  best: number | null;
}
/** What a tuning has found. */
export interface Tuned {
  usual: number;
  best: number;
  gain: number;
  metric: "cycles" | "ms";
  choices: Record<string, Chosen>;
  options: Options;
  schedule: Schedule;
  machine: Record<string, number>;
  why: string[];
  trials: number;
  points: number;
  kept: boolean;
  /** What the gain was found on, where that is not all of the data. */
  part: string;
}
export interface Failed {
  event: "failed";
  kind: string;
  title?: string;
  message: string;
  hint: string;
  /** Of a result only. */
  source?: undefined;
}

// --- a run's result: runtime/runs/request.py (Setup.description) and on_cpu.py, on_dae.py, on_gpu.py

export type Result = Right | Wrong | Replayed;
export type Right = CpuResult | GpuResult | DaeResult;

export interface Checked {
  event: "result";
  /** Whether it was begun anew, since the worker that did it first died. */
  repeated?: boolean;
  error_over_bound: number | null;
  max_relative_error: number | null;
  /** Of several results each; the figures above are those of the worst. */
  results?: { error_over_bound: number | null }[];
  rows_checked: number;
  rounding: { tensors: Record<string, string>; root_mean_square: number | null } | null;
  /** Where the float64 reference was computed. */
  reference_on: "cpu" | "gpu";
  gradients: Record<string, { error_over_bound: number | null }>;
  name: string;
  family: Family;
  device: string;
  source: string;
  date: string;
  sizes: Sizes;
  sizes_from: Record<string, string>;
  options: Options;
  data: { name: string; source: string } & (OfferedTriples | RanGraph | RanLists);
  limits: Limits;
  batch?: number;
  negatives?: string;
  /** Of a layer. */
  encodings?: Encodings;
  /** Of a score with gradients. */
  inverses?: Preparation;
  /** Of one without: by setting of the inspector the bytes that a GPU's kernels ask for (runs/score.py). */
  inspected?: { triples: number; bytes: Record<string, number> };
  /** Of a score without negatives: what chunks of its edges share (limits/chunks.py). */
  chunks?: { edges: number; group: number; entities: number; relations: number; relations_sorted: number };
  /** Of an op. */
  preprocessing?: Step[];
  /** Of a tuning. */
  tuned?: Tuned | null;
  /** Side A, where two sides were compared. */
  against?: Against;
  /** What it spent, of a right result; null where a GPU has not told. */
  spent?: Spent | null;
}
/** By kernel and by operation; each column's operations and rest are together the whole. See runtime/shares/spent.py. */
export interface Spent {
  unit: string;
  source: string;
  how: string;
  whole: number;
  columns: string[];
  kernels: { name: string; amount: number }[];
  operations: { id: number | null; label: string; line: number | null; amounts: number[] }[];
  rest: { what: string; amounts: number[] }[];
}
/** runtime/against.py: side A with its times or cycles; without a ratio where there are none, for a `reason`. */
export interface Against extends Partial<Times> {
  sizes: Sizes;
  options: Options;
  schedule: Schedule;
  reason: string;
  cycles?: number;
  of_a?: Ratio;
  spent?: Spent;
}
/** How many times as much B takes as A; with an interval where it was measured. */
export interface Ratio {
  ratio: number;
  low?: number;
  high?: number;
  level?: number;
  pairs?: number;
}
/** A search of a space that was recorded: nothing ran. */
export interface Replayed {
  event: "result";
  matches_reference: true;
  target: "recording";
  message: string;
  name: string;
  device: string;
  source: string;
  date: string;
  sizes: Sizes;
  options: Options;
  text: string;
  tuned: Tuned;
  against?: undefined;
  repeated?: boolean;
}

/** No figure of a wrong result is shown. */
export interface Wrong extends Checked {
  matches_reference: false;
  target: Target;
  message: string;
}

export interface RanLists {
  lists: number;
  rows: number;
  entries: number;
}
export interface Limits {
  compulsory_bytes: number;
  stream_bytes: number;
  flop: number;
  note?: string;
}
export interface Step {
  name: string;
  ms: number;
  found: string;
}
export interface Preparation {
  preprocessing: Step[];
}
export interface Encodings extends Preparation {
  src_pairs: number;
  dst_pairs: number;
  compaction_ratio: number;
  dst_compaction_ratio: number;
  in_degree: { mean: number; max: number };
}

export interface Times {
  median_ms: number;
  p5_ms: number;
  p95_ms: number;
  warm_ms?: number | null;
}
export interface CpuResult extends Checked, Times {
  matches_reference: true;
  target: "cpu";
  /** Of the first run, which finds cold caches and is no repeat. */
  first_ms: number;
  /** A sentence where the times spread too far to be trusted. */
  unsteady: string;
  peers?: Peer[];
  ceilings: { bytes_per_s: number; flop_per_s: number };
  compile_ms: number;
  peak_bytes: number;
}

export interface GpuResult extends Checked, Times {
  matches_reference: true;
  target: "gpu";
  warm_ms: number;
  bytes_limit_ms: number;
  flop_limit_ms: number;
  limit_reached: number;
  launch_ms: number;
  launch_note: string;
  ceilings: { bytes_per_s: number; flop_per_s: number };
  /** Of the machine code, "best" or "first"; "" for what CuPy compiles. */
  form: string;
  compile_ms: number;
  peak_bytes: number;
  input_bytes: number;
  kernels: Kernel[];
  peers: Peer[];
}
/** A launch; what a block takes is known where its machine code is. */
export type Kernel = {
  name: string;
  blocks: number;
  columns: number;
  threads: number;
} & (Taken | { registers?: undefined });
export interface Taken {
  registers: number;
  shared_bytes: number;
  spill_store_bytes: number;
  spill_load_bytes: number;
  occupancy_warps: number;
  most_warps: number;
}
/** What is timed beside ours; with a reason where it has no times. */
export type Peer = { name: string; compile_ms: number | null } & ((Times & { reason: ""; ratio: number }) | { reason: string; ratio: null });

/** runtime/targets/dae.py; optional is what only ops are compared with. */
export interface DaeResult extends Checked {
  matches_reference: true;
  target: "dae";
  cycles: number;
  microseconds: number;
  machine: Record<string, MachineParameter> & Record<"cores" | "core_ghz" | "hbm_gbs", MachineParameter>;
  access: Unit;
  execute: Unit & { costs: Record<string, { count: number; total_cycles: number }> };
  queues: { control: Queue; data: Queue & { bytes_pushed: number; peak_bytes: number; capacity_bytes: number } };
  memory: Memory;
  tokens: Record<string, number>;
  hit_rates: { l2: number; llc: number; memory: number };
  rates: { payload_gbs: number; hbm_gbs: number; requests_per_second: number; l3_accesses_per_kiloelement: number };
  occupancy: MachineState[];
  pushed_first: QueueRecord[];
  basis: { cycles: string; opt0: string; core_alone: string };
  kernels?: { name: string; cycles: number }[];
  /** GB/s of either unit alone, and of both. */
  throughput?: Throughput;
  /** By code of the core that has no access unit; null where that was not simulated. */
  core_alone?: Record<string, { cycles: number } | null>;
  speedup_over?: { opt0: number | null; core_alone: Record<string, number | null> };
}
export interface MachineParameter {
  value: number;
  unit: string;
  source: string;
  meaning: string;
}
export interface Unit {
  busy: number;
  stalls: Record<string, number>;
}
export interface Queue {
  pushes: number;
  pops: number;
}
export interface Memory {
  requests: number;
  l2_hits: number;
  llc_hits: number;
  misses: number;
  hbm_bytes: number;
}
export interface QueueRecord {
  token: string;
  cycle: number;
  popped: number;
  values: number[];
  /** The rows and elements of arrays that its operands are, four at most. */
  held: string[];
  /** Of each of these where in the data it is from: `bag 12, entry 3, idx[1543]`. */
  sources: string[];
}
export interface Throughput {
  access_alone: number;
  execute_alone: number;
  achieved: number;
}
/** Results by their optimisation level, "opt0" and so on, in order. */
export type Levels = Map<string, DaeResult>;

// --- a run as the page keeps it

interface AnyRun {
  number: number;
  /** What was asked. */
  order: RunOrder;
  edit: number;
  family: Family;
  status: "queued" | "running";
  /** All that decides its result but the level. */
  key: string;
  isComparison: boolean;
  tuning?: Tuning;
  device?: string;
  source?: string;
  progress?: Progress;
  at?: string;
  /** Why it was begun anew. */
  repeated?: string;
  /** Of a run that has ended. */
  outcome?: Result | Failed;
}
/** A tuning as the page keeps it. */
export interface Tuning {
  space: Space | null;
  trials: Trial[];
  /** The number of the best trial, and of the one that was picked to be shown. */
  best: number | null;
  picked: number | null;
  tuned: Tuned | null;
}
export interface TimedRun extends AnyRun {
  target: "cpu" | "gpu";
  settings: { data: string; batch: number; repeat: number };
  samples: TimedSample[];
}
export interface SimulatedRun extends AnyRun {
  target: "dae";
  settings: { data: string; batch: number; queue: number };
  samples: MachineSample[];
  levels?: Levels;
}
export type Run = TimedRun | SimulatedRun;
/** A run of the history, as the browser keeps it. */
export interface Entry {
  /** What a store calls it, where there is one. */
  id?: string;
  at: string;
  order: RunOrder;
  figure: string;
  source: string;
  sizes: Sizes;
  median_ms: number | null;
  p5_ms: number | null;
  p95_ms: number | null;
  cycles: number | null;
  /** How many repeats a run that did not end had measured. */
  partial: number;
}

/** An entry of `GET /api/runs`. */
export interface KeptRun {
  id: string;
  at: number;
  state: string;
  text: string;
  body: {
    asked?: Omit<RunOrder, "type" | "run" | "edit" | "text" | "compiled" | "peers" | "against"> & {
      peers: boolean | null;
      against: RunOrder["against"] | null;
    };
    last?: Result | Failed;
  };
}

/** What the page says over the WebSocket: web/messages.py. */
export type Order =
  | { type: "cancel"; run: number }
  | { type: "resume"; run: number; edit: number; at: string }
  | RunOrder;
export interface RunOrder extends Choices {
  type: "run";
  run: number;
  edit: number;
  on: Target;
  text: string;
  default_sizes: Sizes;
  edited: Edited;
  data: string;
  batch: number;
  compiled: ShownProgram | null;
  repeat?: number;
  machine?: Record<string, number>;
  peers?: boolean;
  torch_compile?: boolean;
  against?: Choices & { compiled: ShownProgram | null };
  /** `replay` names a recorded space that is searched instead; "" for none. */
  tune?: { trials: number; search: "guided" | "genetic" | "random"; seed: number; replay?: string };
}
/** What the stages show, which the server holds a run against. */
export interface ShownProgram {
  program: string;
  sizes: Sizes;
  options: Options;
}

// --- what modules tell each other: state.js

/** What all pages of a class are told: `Classroom.notice`. */
export interface ClassNotice {
  event: "class";
  paused: boolean;
  sent: { number: number; name: string } | null;
  assignment: { number: number; title: string } | null;
  locked: { options: string[]; stages: string[] };
}

export interface Events {
  /** The socket opened, after it had been lost or not, or closed: it tries again in `wait` ms. */
  connection: { isUp: true; isBack: boolean } | { isUp: false; wait: number };
  "run-event": RunEvent;
  class: ClassNotice;
  trouble: number;
  edited: number;
  text: string;
  facts: Facts;
  busy: void;
  "before-swap": void;
  "before-piece": HtmxSwap;
  /** The path that answered. */
  swapped: string;
  painted: void;
  /** The data set that is chosen for a run. */
  data: { name: string; family: Family };
  /** The list of data sets is that of the newest definition. */
  listed: void;
  /** A run of the history is to be brought back. */
  restore: RunOrder;
  simulated: DaeResult;
  /** A run has ended well. */
  ran: CpuResult | GpuResult | DaeResult;
  cursor: number;
  point: number[];
  marks: { lit: number[]; pin: number | null };
  /** Older numbers of operations to newer ones. */
  renumbered: Map<number, number>;
  tab: string;
  theme: void;
  /** The text has another name: the example that it is, or none. */
  named: string;
  /** All of the text has made way for this one. */
  replaced: string;
  /** The reader's own model has taken the place of an example or a file. */
  own: undefined;
}
export type Listener<K extends keyof Events> = (detail: Events[K]) => void;

/** The details of htmx's events, as far as the page reads them. */
export type HtmxSwap = CustomEvent<{ target: HTMLElement; fragment: ParentNode; shouldSwap: boolean }>;
export type HtmxAnswer = CustomEvent<{
  xhr: XMLHttpRequest;
  successful: boolean;
  shouldSwap: boolean;
  pathInfo: { requestPath: string };
}>;

declare global {
  interface Window {
    /** main.js puts it there, before the parts begin. */
    htmx: typeof import("htmx.org").default;
  }
  interface HTMLElementEventMap {
    "htmx:beforeSwap": HtmxAnswer;
    "htmx:beforeSend": HtmxAnswer;
    "htmx:beforeOnLoad": HtmxAnswer;
    "htmx:afterRequest": HtmxAnswer;
    "htmx:responseError": HtmxAnswer;
    "htmx:oobBeforeSwap": HtmxSwap;
  }
}
