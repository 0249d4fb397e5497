// What random search would have found by now: a formula over values that were drawn at random.
/** @import { Trial } from "../types.d.ts" */

/**
 * The least value that is expected of the first so many of these, had they been drawn in any order: of n values in
 * order, the i-th is the least of k with probability C(n - i, k - 1) / C(n, k), as in explorer/tuner/replay.py.
 * @param {number[]} values
 */
export function expectedLeast(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const count = sorted.length;
  return values.map((_, at) => {
    const k = at + 1;
    let left = 1; // the probability that none of the values before is among the k
    let expected = 0;
    for (let i = 0; i < count && left > 0; i += 1) {
      const taken = Math.min(1, k / (count - i)); // that the i-th is, where none before it is
      expected += left * taken * sorted[i];
      left *= 1 - taken;
    }
    return expected;
  });
}

/**
 * The best that is expected after each trial of random search, the usual point first. A trial that gave no value costs
 * a draw and finds nothing.
 * @param {Trial[]} trials of a search at random
 */
export function expectedOfRandom([first, ...drawn]) {
  const usual = first?.value;
  if (usual === null || usual === undefined) return [];
  return [usual, ...expectedLeast(drawn.map(({ value }) => Math.min(value ?? usual, usual)))];
}
