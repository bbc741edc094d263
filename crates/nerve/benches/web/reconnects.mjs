// A terminal's stream that breaks again and again, compared with the recording.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { folder, isQuick, link, nerve, report, require, startNode } from "./harness.mjs";

const WebSocket = require("ws");
const RECONNECTS = isQuick ? 50 : 1000;
/** Output while the connections break, in bytes per second, and its duration in seconds. */
const RATE = 400000;
const SECONDS = isQuick ? 1 : 15;
/** Time after which a connection without output breaks, too, in milliseconds. */
const SILENCE = 200;
const LAST = "the last line";

/** Reads the stream of a node's terminal from a position, or from now, until output has arrived, and breaks the connection. */
export function readSome(node, position, token) {
  const since = position === null ? "" : `?since=${position.stream}-${position.offset}`;
  const socket = new WebSocket(`ws://${new URL(link).host}/nodes/${node}/terminal${since}`, { headers: { authorization: `Bearer ${token}` } });
  const read = { ...position, bytes: [], dumps: 0, wrong: 0 };
  let isDump = false;
  let isDone = false;
  return new Promise((resolve, reject) => {
    const end = () => {
      // Nothing that arrives later counts: the next connection gets it.
      isDone = true;
      clearTimeout(timer);
      socket.terminate();
      resolve(read);
    };
    const timer = setTimeout(end, SILENCE);
    socket.on("error", reject);
    socket.on("close", end);
    socket.on("message", (data, isBinary) => {
      if (isDone) {
        return;
      }
      if (!isBinary) {
        const message = JSON.parse(data);
        if (message.stream) {
          isDump = message.type === "dump";
          Object.assign(read, { stream: message.stream, offset: message.offset });
        }
        return;
      }
      const [start, bytes] = [Number(data.readBigUInt64BE()), data.subarray(8)];
      read.wrong += start === read.offset ? 0 : 1;
      if (isDump) {
        read.dumps += 1;
        isDump = false;
      } else {
        read.offset += bytes.length;
        read.bytes.push(bytes);
      }
      end();
    });
  });
}

/** Returns the output in the recording of a node. */
function recordedOutput(node) {
  const cast = join(folder, "broken.cast");
  nerve("export", `default/${node}`, "--format", "asciicast2", "--output", cast);
  const events = readFileSync(cast, "utf8").trim().split("\n").slice(1).map((line) => JSON.parse(line));
  return Buffer.from(events.filter(([, kind]) => kind === "o").map(([, , text]) => text).join(""));
}

export async function measureReconnects() {
  const token = nerve("token", "show").trim();
  const writer = fileURLToPath(new URL("paced_writer.mjs", import.meta.url));
  // It waits for the first connection.
  startNode("broken", "sh", "-c", `read line; exec node ${writer} ${RATE} ${SECONDS} '${LAST}'`);
  let position = await readSome("broken", null, token);
  const start = position.offset;
  const received = [];
  let [breaks, wrong] = [0, 0];
  nerve("node", "write", "broken", "--escape", "\\r");
  while (breaks < RECONNECTS || !Buffer.concat(received.slice(-10)).includes(LAST)) {
    position = await readSome("broken", position, token);
    breaks += 1;
    received.push(...position.bytes);
    wrong += position.wrong + position.dumps;
  }
  // The end of the recording is written when the node ends.
  nerve("stop", "broken");
  const [stream, recorded] = [Buffer.concat(received), recordedOutput("broken").subarray(start)];
  const isEqual = recorded.subarray(0, stream.length).equals(stream);
  const difference = Math.abs(recorded.length - stream.length);
  const what = `${breaks} breaks of a terminal's connection during ${(stream.length / 1e6).toFixed(1)} MB`;
  report(`${what}: bytes lost or doubled, compared with the recording`, "", isEqual ? difference : Math.max(1, difference), 0);
  report("the same: messages at another offset, and dumps instead of output", "", wrong, 0);
}
