// Writes coloured lines to its terminal: node paced_writer.mjs BYTES_PER_SECOND SECONDS LAST_LINE

import { writeSync } from "node:fs";

const [rate, seconds, last] = process.argv.slice(2);
/** Time between two writes in milliseconds. */
const TICK = 5;
const lines = Array.from({ length: 1000 }, (_, index) => `\x1b[3${index % 8}mline ${index}\x1b[0m ${"of the output of a busy agent ".repeat(2)}\n`).join("");

/** Writes everything, also if the terminal takes only a part of it at once. */
function write(text) {
  for (let rest = Buffer.from(text); rest.length > 0; ) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
      if (error.code !== "EAGAIN") {
        throw error;
      }
    }
  }
}

const total = rate * seconds;
const start = performance.now();
let written = 0;
let at = 0;
const timer = setInterval(() => {
  const due = Math.min(total, ((performance.now() - start) / 1000) * rate);
  while (written < due) {
    const piece = lines.slice(at, at + Math.min(16384, due - written + 1));
    write(piece);
    written += piece.length;
    at = (at + piece.length) % lines.length;
  }
  if (written >= total) {
    clearInterval(timer);
    write(`\n${last}\n`);
    // The terminal stays as it is.
    process.stdin.resume();
  }
}, TICK);
