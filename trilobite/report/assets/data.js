/**
 * @typedef {{name: string, kind: string, start: Float64Array, length: Float32Array, label: Uint32Array}} Lane
 * @typedef {{title: string, head: string[], rows: (string|number)[][], note: string}} Table
 * @typedef {{peaks: [string, number][], bandwidths: [string, number][], points: [string, number, number, number][]}} Roofs
 * @typedef {{id: number, label: string, module: string, location: string, x: number, y: number, w: number, h: number, fresh: boolean}} Node
 * @typedef {{name: string, width: number, height: number, nodes: Node[], edges: [number, number][], text: string}} Stage
 * @typedef {{name: string, target: string, sentence: string, unit: string, total: number, figures: [string, string][],
 *   lanes: Lane[], labels: [string, string][], tables: Table[], roofs: Roofs|null, memory: [string, number, number, number][],
 *   stages: Stage[]}} Subject
 */

/** The bytes of a text in base64. @param {string} text */
function bytesOf(text) {
  const plain = atob(text), bytes = new Uint8Array(plain.length);
  for (let i = 0; i < plain.length; i++) bytes[i] = plain.charCodeAt(i);
  return bytes.buffer;
}

/** @returns {{title: string, subjects: Subject[]}} */
function readData() {
  const holder = /** @type {HTMLElement} */ (document.getElementById("data"));
  const data = JSON.parse(holder.textContent || "{}");
  for (const subject of data.subjects)
    for (const lane of subject.lanes) {
      lane.start = new Float64Array(bytesOf(lane.start));
      lane.length = new Float32Array(bytesOf(lane.length));
      lane.label = new Uint32Array(bytesOf(lane.label));
    }
  return data;
}
