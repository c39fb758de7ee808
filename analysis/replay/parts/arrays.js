// Arrays embedded in the page; analysis/replay/arrays.py packs them.

const ARRAY_TYPES = {
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array, float64: Float64Array,
};

/** Unpack all arrays, by name. */
async function readArrays(layout, base64) {
  const text = atob(base64.trim());
  const deflated = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) deflated[i] = text.charCodeAt(i);
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const arrays = {};
  let start = 0;
  for (const { name, type, length, differences } of layout) {
    const array = new ARRAY_TYPES[type](length);
    const size = array.BYTES_PER_ELEMENT;
    const own = new Uint8Array(array.buffer);
    for (let byte = 0; byte < size; byte++) {
      for (let i = 0; i < length; i++) own[i * size + byte] = bytes[start++];
    }
    if (differences) for (let i = 1; i < length; i++) array[i] += array[i - 1]; // integers wrap around
    arrays[name] = array;
  }
  return arrays;
}
