/* Values of inputs: examples, images and files as nested arrays of JSON. */

const LARGEST_EXAMPLE = 40; // numbers; a larger example is filled by a button only

export const isText = (tensor) => tensor.dtype === "string";
const isWhole = (tensor) => /^u?int/.test(tensor.dtype);
const isFloat = (tensor) => /float/.test(tensor.dtype);

/** The dimensions of an example: unknown ones are 1. */
function exampleDims(tensor) {
  return (tensor.shape ?? []).map((dim) => dim ?? 1);
}

export function sizeOf(tensor) {
  return exampleDims(tensor).reduce((size, dim) => size * dim, 1);
}

/** Arrays nested by dims, filled by calls of `next`. */
export function nested(dims, next) {
  if (dims.length === 0) return next();
  return Array.from({ length: dims[0] }, () => nested(dims.slice(1), next));
}

export function zeros(tensor) {
  const zero = tensor.dtype === "bool" ? false : isText(tensor) ? "" : 0;
  return nested(exampleDims(tensor), () => zero);
}

export function random(tensor) {
  const next = tensor.dtype === "bool" ? () => Math.random() < 0.5
    : isText(tensor) ? () => "text"
    : isWhole(tensor) ? () => Math.floor(Math.random() * 10)
    : () => Math.round(Math.random() * 1000) / 1000;
  return nested(exampleDims(tensor), next);
}

/** The text that an input's field starts with; empty where it would be too long to read. */
export function exampleText(tensor) {
  return sizeOf(tensor) <= LARGEST_EXAMPLE ? JSON.stringify(zeros(tensor)) : "";
}

/**
 * How an input takes an image: its height, width (null: those of the image) and channels, and which dimensions it has; null if it
 * is not of an image's shape: [height, width], with a batch, with channels (1, 3 or 4), or both.
 */
export function imageForm(tensor) {
  const dims = tensor.shape;
  if (dims === null || !(isFloat(tensor) || isWhole(tensor))) return null;
  const channels = [1, 3, 4].includes(dims.at(-1)) ? dims.at(-1) : null;
  const plane = channels === null ? dims : dims.slice(0, -1);
  const batch = plane.length === 3;
  const [height, width] = plane.slice(-2);
  const large = (dim) => dim === null || dim >= 8;
  if (![2, 3].includes(plane.length) || !large(height) || !large(width)) return null;
  if (batch && ![null, 1].includes(plane[0])) return null;
  if (channels === null && (height === null || width === null)) return null; // rows of vectors have this shape too
  return { height, width, channels, batch, scales: isFloat(tensor) ? ["0…1", "−1…1", "0…255"] : ["0…255"] };
}

// Three decimals: a step of a pixel is 0.004, and 224 × 224 × 3 pixels stay below the server's limit of 1 MiB.
const SCALES = {
  "0…1": (value) => Math.round(value / 255 * 1e3) / 1e3,
  "−1…1": (value) => Math.round((value / 127.5 - 1) * 1e3) / 1e3,
  "0…255": (value) => value,
};

/** Draw an image file on a canvas, in the size that the input has. */
export async function drawImage(file, form, canvas) {
  const image = await createImageBitmap(file);
  canvas.width = form.width ?? image.width;
  canvas.height = form.height ?? image.height;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  image.close();
}

/** The pixels of a canvas as the input's value; grey is the luma of BT.601. */
export function pixelsOf(canvas, form, scaleName) {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const scale = SCALES[scaleName];
  const pixel = (at) => {
    if (form.channels > 1) return Array.from(data.subarray(at, at + form.channels), scale);
    const grey = scale(Math.round(0.299 * data[at] + 0.587 * data[at + 1] + 0.114 * data[at + 2]));
    return form.channels === 1 ? [grey] : grey;
  };
  let at = -4;
  const rows = nested([height, width], () => pixel((at += 4)));
  return form.batch ? [rows] : rows;
}

/** The value in a file: a NumPy file, JSON, or for strings the file's bytes. */
export async function valueOfFile(file, tensor) {
  if (isText(tensor)) {
    const bytes = { b64: base64(new Uint8Array(await file.arrayBuffer())) };
    return nested(exampleDims(tensor), () => bytes);
  }
  if (file.name.endsWith(".npy")) return npy(await file.arrayBuffer());
  try {
    return JSON.parse(await file.text());
  } catch {
    throw new Error(`${file.name}: expected a NumPy file (.npy) or JSON`);
  }
}

function base64(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

const READERS = {
  b1: ["getUint8", 1], i1: ["getInt8", 1], i2: ["getInt16", 2], i4: ["getInt32", 4], i8: ["getBigInt64", 8],
  u1: ["getUint8", 1], u2: ["getUint16", 2], u4: ["getUint32", 4], u8: ["getBigUint64", 8],
  f4: ["getFloat32", 4], f8: ["getFloat64", 8],
};

/** The array in a file of NumPy's format (versions 1 to 3), as nested arrays. */
export function npy(buffer) {
  const view = new DataView(buffer);
  const magic = String.fromCharCode(...new Uint8Array(buffer, 1, 5));
  if (magic !== "NUMPY") throw new Error("the file is not of NumPy's format");
  const wide = view.getUint8(6) > 1; // later versions have a longer header length
  const start = wide ? 12 : 10;
  const length = wide ? view.getUint32(8, true) : view.getUint16(8, true);
  const header = new TextDecoder().decode(new Uint8Array(buffer, start, length));
  const [, order, type] = /'descr': '([<>|=])(\w+)'/.exec(header) ?? [];
  const [, dimsText] = /'shape': \(([^)]*)\)/.exec(header) ?? [];
  if (!(type in READERS)) throw new Error(`cannot read NumPy files with the header ${header.trim()}`);
  if (/'fortran_order': True/.test(header)) throw new Error("the file's array is in Fortran order; save it in C order");
  const dims = dimsText.split(",").map((text) => text.trim()).filter(Boolean).map(Number);
  const [read, size] = READERS[type];
  let at = start + length - size;
  return nested(dims, () => {
    const value = view[read]((at += size), order !== ">");
    return type === "b1" ? value !== 0 : Number(value);
  });
}
