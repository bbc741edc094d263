// A session file of Claude Code with a long conversation, which the scripted agent resumes.

import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

export const ID = "11111111-1111-4111-8111-111111111111";
/** Number of turns. */
export const TURNS = 45;
/** Turns with thoughts and a tool, and one with a very long text. */
const TOOL_TURN = 43;
const LONG_TURN = 44;
const LONG_SIZE = 1 << 20;

/** The answer of the last turn. */
const MARKDOWN = `# Result

I fixed **the parser**, see \`lexer.rs\` and [the documentation](https://example.com/a?b=c).

- one
- two
- [x] done

| file | lines |
|---|--:|
| a.rs | 12 |
| long_name.rs | 345 |

> quoted

\`\`\`rust
fn main() { println!("a rather long line of code, which scrolls sideways on a phone"); }
\`\`\`

<img src=x onerror="document.title='changed'"> <script>document.title="changed"</script>

<div onclick=alert(1)>block</div>

[bad](javascript:alert(1)) ![picture](https://example.com/p.png) [https://good.example](https://other.example/x)

[tab](java&#9;script:alert(1)) [data](data:text/html,hello) [case](JaVaScRiPt:alert(1)) <javascript:alert(1)> <vbscript:run>

rm \u202etxt.exe and &#x202e;

\u001b[31mred\u001b[0m \u001b]8;;javascript:alert(1)\u0007linked\u001b]8;;\u0007 \u007f\u009b`;

/** Returns the path of the file for a home folder and the working directory of the agent. */
function pathOf(home, cwd) {
  return join(home, ".claude/projects", cwd.replace(/[^A-Za-z0-9]/g, "-"), `${ID}.jsonl`);
}

/** Appends what an agent writes while it works: one part of a message. */
export function appendPart(home, cwd, type, part) {
  const uuid = crypto.randomUUID();
  const { uuid: parentUuid } = JSON.parse(readFileSync(pathOf(home, cwd), "utf8").trim().split("\n").at(-1));
  const message = { role: type, content: [part], ...(type === "assistant" ? { id: `message-${uuid}`, type: "message", stop_reason: "tool_use" } : {}) };
  const line = { type, uuid, parentUuid, sessionId: ID, cwd, version: "2.1.330", isSidechain: false, timestamp: new Date().toISOString(), message };
  appendFileSync(pathOf(home, cwd), `${JSON.stringify(line)}\n`);
}

/** Writes the file for a home folder and the working directory of the agent. The first turn begins at `start`, in milliseconds since 1970. */
export function writeSessionFile(home, cwd, start = Date.now() - 3600 * 1000) {
  const lines = [];
  const put = (type, content, more = {}) => {
    const number = lines.length;
    const uuid = (at) => `00000000-0000-4000-8000-${String(at).padStart(12, "0")}`;
    const line = { type, uuid: uuid(number), parentUuid: number === 0 ? null : uuid(number - 1), sessionId: ID, cwd, version: "2.1.330", isSidechain: false };
    line.timestamp = new Date(start + number * 2000).toISOString();
    line.message = { role: type, content, ...more };
    lines.push(JSON.stringify(line));
  };
  const answer = (content, reason) => put("assistant", [content], { id: `message-${lines.length}`, type: "message", stop_reason: reason, usage: { input_tokens: 1200, output_tokens: 80 } });
  for (let turn = 1; turn <= TURNS; turn += 1) {
    put("user", turn === TURNS ? "Please fix the parser" : `Prompt number ${turn}`);
    if (turn === TOOL_TURN) {
      answer({ type: "thinking", thinking: "I look at the **parser** first." }, "tool_use");
      answer({ type: "tool_use", id: "tool-1", name: "Bash", input: { command: "cargo test --all" } }, "tool_use");
      put("user", [{ type: "tool_result", tool_use_id: "tool-1", content: "test result: FAILED", is_error: true }]);
    }
    const text = turn === TURNS ? MARKDOWN : turn === LONG_TURN ? "x".repeat(LONG_SIZE) : `Answer number ${turn}.`;
    answer({ type: "text", text }, "end_turn");
  }
  const file = pathOf(home, cwd);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${lines.join("\n")}\n`);
}
