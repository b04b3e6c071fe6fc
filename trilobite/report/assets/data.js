/**
 * @typedef {{name: string, kind: string, start: Float64Array, length: Float32Array, label: Uint32Array}} Lane
 * @typedef {string|number|null} Cell
 * @typedef {{title: string, head: string[], rows: Cell[][], note: string}} Table
 * @typedef {{peaks: [string, number][], bandwidths: [string, number][], points: [string, number, number, number][]}} Roofs
 * @typedef {[string, number, number[][]]} Module  its dotted name, equations in it, rows of children: an equation n, or -1 - the number of a module
 * @typedef {{name: string, doc: string, same: string[], total: number, label: Uint32Array, place: Uint32Array, detail: Uint32Array,
 *   labels: string[], places: string[], details: string[], modules: Module[], edges: Uint32Array, fresh: Uint8Array, gone: Uint8Array}} Stage
 * @typedef {{name: string, module: string, place: string, time: number, share: number, bound: string, predicted: number,
 *   joules: number, notes: [string, string][], equations: [string, string][], code: [string, string][]}} Kernel
 * @typedef {{name: string, target: string, sentence: string, unit: string, total: number, figures: [string, string][],
 *   lanes: Lane[], labels: [string, string][], tables: Table[], roofs: Roofs|null, memory: [string, number, number, number][],
 *   stages: Stage[], kernels: Kernel[], sources: Record<string, string>, numbers: Record<string, number>, seconds: number}} Subject
 * @typedef {{title: string, subjects: Subject[]}} Data
 */

/** The bytes of a text in base64. @param {string} text @returns {ArrayBuffer} */
function bytesOf(text) {
  const plain = atob(text), count = plain.length, bytes = new Uint8Array(count);
  for (let i = 0; i < count; i++) bytes[i] = plain.charCodeAt(i);
  return bytes.buffer;
}

/** A field that is text until it is first looked at, then the numbers that it stands for.
 * @param {any} holder @param {string} name @param {(bytes: ArrayBuffer) => ArrayLike<number>} make */
function unpackLater(holder, name, make) {
  const text = holder[name];
  Object.defineProperty(holder, name, {
    configurable: true,
    get() {
      const value = make(bytesOf(text));
      Object.defineProperty(holder, name, { value });
      return value;
    },
  });
}

/** What the page was written with. Long rows of numbers stay packed until a view needs them. @param {string} text @returns {Data} */
function readData(text) {
  const data = JSON.parse(text);
  const doubles = (/** @type {ArrayBuffer} */ b) => new Float64Array(b), floats = (/** @type {ArrayBuffer} */ b) => new Float32Array(b);
  const words = (/** @type {ArrayBuffer} */ b) => new Uint32Array(b), bytes = (/** @type {ArrayBuffer} */ b) => new Uint8Array(b);
  for (const subject of data.subjects) {
    for (const lane of subject.lanes) {
      unpackLater(lane, "start", doubles); unpackLater(lane, "length", floats); unpackLater(lane, "label", words);
    }
    for (const stage of subject.stages) {
      for (const name of ["label", "place", "detail", "edges"]) unpackLater(stage, name, words);
      for (const name of ["fresh", "gone"]) unpackLater(stage, name, bytes);
    }
  }
  return data;
}
