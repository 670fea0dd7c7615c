// Runs the JavaScript beside this file, which lies there twice: as main.js for CommonJS and as main.mjs for an ES module.
//
// Which one it is, node's own parser says, by the rule of newer nodes and on older ones, too: it is an ES module when it
// is no CommonJS because of `import`, `export` or `import.meta`, or when all that it lacks is to await at its top.
// What follows is as if `node main.js` had been typed: require.main, process.argv and the exit code are the task's.

'use strict';

const fs = require('node:fs');
const Module = require('node:module');
const path = require('node:path');
const vm = require('node:vm');

const MODULE_SYNTAX = [
  'Cannot use import statement outside a module',
  "Unexpected token 'export'",
  "Cannot use 'import.meta' outside a module",
];
const COMMONJS = ['exports', 'require', 'module', '__filename', '__dirname'];

function isModule(source) {
  try {
    vm.compileFunction(source, COMMONJS);
    return false;
  } catch (error) {
    return isOfModules(error) || awaitsAtTop(source);
  }
}

function isOfModules(error) {
  return MODULE_SYNTAX.some((message) => error.message.includes(message));
}

function awaitsAtTop(source) {
  try {
    vm.compileFunction(`return async () => {${source}\n}`);
    return true;
  } catch (error) {
    return isOfModules(error);
  }
}

function readSource() {
  return fs.readFileSync(path.join(__dirname, 'main.js'), 'utf8').replace(/^\uFEFF/, '').replace(/^#!.*/, '');
}

module.exports = { isModule, readSource };

if (require.main === module) {
  delete require.cache[__filename];
  process.argv[1] = path.join(__dirname, isModule(readSource()) ? 'main.mjs' : 'main.js');
  Module.runMain();
}
