// Calls handler(event, {}) of the main.js beside this file and writes what it returns, as one JSON document, to the
// descriptor that CW_RETURN_FD names. Printed text goes where it always goes and can never pass for the result.
//
// What main.js may rely on:
// - It may be CommonJS (`exports.handler`, `module.exports = {handler}`, `module.exports = function`, or a plain top-level
//   `handler`) or an ES module (`export function handler`, `export default`), for which it lies here as main.mjs, too.
//   run.cjs says by which rule. It is never the main module: `require.main === module` is not true.
// - handler may be sync or async; what it returns is awaited.
// - process.argv is node, main.js and the task's arguments; stdin is the task's.
// - The result is what JSON.stringify makes of it: undefined, NaN and the infinities become null. Beyond that a Set
//   becomes an array, a Map an object, half a surrogate pair U+FFFD. A BigInt, bytes, a function, a generator, a promise
//   that was not awaited, what contains itself and more than 100 levels are errors.
// - process.exit ends with its code and no result. The result is written as soon as handler is done; timers and sockets
//   that are left delay the end as usual. Processes that it starts do not hold the descriptor.

// This file is CommonJS: node's loader of ES modules takes 8 ms of processor time to start, which only code that is an ES
// module should pay.

'use strict';

const fs = require('node:fs');
const Module = require('node:module');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const util = require('node:util');
const vm = require('node:vm');
const { isModule, readSource } = require('./run.cjs');

const MAIN = path.join(__dirname, 'main.js');
const PLAIN = Symbol.for('code-workers.handler');
// The result stands within a report, and what reads it goes no deeper than 128.
const DEEPEST = 100;

function openResult() {
  const number = process.env.CW_RETURN_FD ?? '';
  delete process.env.CW_RETURN_FD;
  if (!/^\d+$/.test(number)) complain('CW_RETURN_FD names no descriptor: only cw-worker starts this file');
  const fd = Number(number);
  let own;
  try {
    // Node opens files close-on-exec; it cannot set that on a descriptor it was given.
    own = fs.openSync(`/proc/self/fd/${fd}`, fs.constants.O_WRONLY);
  } catch {
    // Another user's pipe cannot be opened again. Node itself closed the low descriptors to children when it started.
    return fd;
  }
  fs.closeSync(fd);
  return own;
}

function writeResult(fd, document) {
  let rest = Buffer.from(document);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(fs.writeSync(fd, rest));
    } catch (error) {
      if (error.code === 'EPIPE') complain("handler's return value was not taken: it is larger than a result may be");
      if (error.code !== 'EAGAIN') complain(`handler's return value cannot be written: ${error.message}`);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
  fs.closeSync(fd);
}

function complain(message) {
  fs.writeSync(2, `${message}\n`);
  process.exit(1);
}

async function loadHandler() {
  const source = readSource();
  if (isModule(source)) {
    const names = await import(pathToFileURL(path.join(__dirname, 'main.mjs')));
    return names.handler ?? names.default?.handler ?? names.default;
  }
  const module = loadCommonJs(source);
  const whole = typeof module.exports === 'function' ? module.exports : undefined;
  return module.exports?.handler ?? whole ?? module[PLAIN];
}

function loadCommonJs(source) {
  const module = new Module(MAIN, null);
  module.filename = MAIN;
  module.paths = Module._nodeModulePaths(__dirname);
  Module._cache[MAIN] = module;
  // Said by the parser with the task's own lines, before there is one more.
  new vm.Script(Module.wrap(source), { filename: MAIN, columnOffset: -Module.wrapper[0].length });
  // A plain top-level `handler` can be seen only from inside.
  globalThis[PLAIN] = (handler) => { module[PLAIN] = handler; };
  const hand = 'globalThis[Symbol.for("code-workers.handler")](typeof handler === "undefined" ? undefined : handler);';
  try {
    module._compile(`${source}\n;${hand}`, MAIN);
  } finally {
    delete globalThis[PLAIN];
  }
  module.loaded = true;
  return module;
}

function encode(value) {
  if (typeof value === 'function' || typeof value === 'symbol') throw new TypeError(`a ${typeof value}`);
  const document = JSON.stringify(plain(value, []) ?? null);
  // What JSON.stringify escapes of a string's letters is half of a pair; other escapes are passed over as a whole.
  return document.replace(/\\(u[dD][89a-fA-F][0-9a-fA-F]{2}|.)/g, (all, one) => (one.length > 1 && /^ud/i.test(one) ? '\ufffd' : all));
}

// The value in JSON's own types; `above` holds what it stands in, outermost first.
function plain(value, above) {
  if (typeof value === 'bigint') throw new TypeError(`a BigInt (${String(value).slice(0, 40)}): turn it into a string or a number`);
  if (typeof value !== 'object' || value === null) return value;
  const kind = foreign(value);
  if (kind) throw new TypeError(kind);
  if (above.includes(value)) throw new TypeError('an object that contains itself');
  if (above.length >= DEEPEST) throw new TypeError('it is nested too deeply');
  const inside = [...above, value];
  if (typeof value.toJSON === 'function') return plain(value.toJSON(), inside);
  if (value instanceof Number || value instanceof String || value instanceof Boolean) return value.valueOf();
  if (Array.isArray(value) || value instanceof Set) return Array.from(value, (item) => plain(item, inside));
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  // Without a prototype even `__proto__` is a name like any other.
  const result = Object.create(null);
  for (const [name, item] of entries) result[name] = plain(item, inside);
  return result;
}

function foreign(value) {
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `bytes (${value.constructor.name})`;
  if (typeof value.then === 'function') return 'a promise that was not awaited';
  if (typeof value.next === 'function' && (Symbol.iterator in value || Symbol.asyncIterator in value)) {
    return 'a generator (handler yields; it must return, such as an array)';
  }
  return undefined;
}

// The ordinary stack, without the frames of this file.
function trim(error) {
  if (error instanceof Error && typeof error.stack === 'string') {
    const inside = [__filename, 'node:internal/', '(node:vm:'];
    const isOurs = (line) => /^\s+at /.test(line) && inside.some((place) => line.includes(place));
    error.stack = error.stack.split('\n').filter((line) => !isOurs(line)).join('\n');
  }
  return error;
}

async function run() {
  // What main.js queues at its top runs in one order, whichever of the two kinds it is: in that of an ES module.
  await undefined;
  const handler = await loadHandler();
  isLoaded = true;
  if (handler === undefined || handler === null) {
    complain('main.js defines no handler(event): the task has an event, so it must; an ES module must export it');
  }
  if (typeof handler !== 'function') complain(`main.js: handler is not callable: it is of type ${typeof handler}`);
  return handler(event, {});
}

const fd = openResult();
const event = JSON.parse(fs.readFileSync(path.join(__dirname, 'event.json'), 'utf8'));
process.argv[1] = MAIN;
// Nor is this file the task's main module.
delete process.mainModule;
let isLoaded = false;
let isSettled = false;

process.on('beforeExit', () => {
  if (!isSettled) complain('handler(event) never ended: nothing is left that could settle its promise');
});

run().then((value) => {
  isSettled = true;
  let document;
  try {
    document = encode(value);
  } catch (error) {
    complain(`TypeError: handler returned something that is not JSON: ${error?.message ?? error}`);
  }
  writeResult(fd, document);
}, (error) => {
  isSettled = true;
  process.exitCode = 1;
  // Only node itself knows the line of code that cannot be parsed.
  if (!isLoaded && error instanceof SyntaxError) process.nextTick(() => { throw trim(error); });
  else complain(`Uncaught ${util.inspect(trim(error))}`);
});
