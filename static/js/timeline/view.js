// What a timeline shows: the samples and records of a run, the window over its cycles, and where the cursor stands.
/** @import { MachineState, QueueRecord } from "../types.d.ts" */

/**
 * @typedef {object} View
 * @property {MachineState[]} samples each tells of the cycles since the one before
 * @property {QueueRecord[]} records
 * @property {number} from the first cycle of the window
 * @property {number} to the last one
 * @property {number} at the cursor's cycle
 * @property {boolean} isWhole whether the window is over all cycles, and stays so as they grow more
 */

const LEAST_SHARE = 0.01; // of the run, in the narrowest window
const EPSILON = 1e-6; // cycles

/** @returns {View} */
export const freshView = () => ({ samples: [], records: [], from: 0, to: 1, at: 0, isWhole: true });

/** @param {View} view */
export const endOf = ({ samples }) => samples.at(-1)?.cycle ?? 1;

/**
 * The sample that tells of the cursor's cycle; undefined while there is none.
 * @param {View} view
 */
export const sampleAtCursor = ({ samples, at }) => samples.find(({ cycle }) => cycle >= at) ?? samples.at(-1);

/**
 * Where the cursor stops: every record that is told one by one, and every sample.
 * @param {View} view
 * @param {number} by stops
 */
export function nextStop({ samples, records, at }, by) {
  const told = records.flatMap(({ cycle, popped }) => [cycle, popped]);
  const stops = [...new Set([...told, ...samples.map(({ cycle }) => cycle)])].sort((a, b) => a - b);
  if (by > 0) return stops.filter((stop) => stop > at + EPSILON)[by - 1] ?? stops.at(-1) ?? 0;
  return stops.filter((stop) => stop < at - EPSILON).at(by) ?? stops[0] ?? 0;
}

/**
 * A window that the cursor leaves moves with it.
 * @param {View} view
 */
export function follow(view) {
  const width = view.to - view.from;
  if (view.at < view.from) setWindow(view, view.at, view.at + width);
  else if (view.at > view.to) setWindow(view, view.at - width, view.at);
}

/**
 * @param {View} view
 * @param {number} from
 * @param {number} to
 */
export function setWindow(view, from, to) {
  const end = endOf(view);
  const width = Math.min(end, Math.max(to - from, end * LEAST_SHARE));
  const start = Math.max(0, Math.min(end - width, from));
  Object.assign(view, { from: start, to: start + width, isWhole: width >= end * 0.999 });
}
