// A client that uses the SDK of version 2. Arguments: the SDK's module, the working directory, and the command of the agent.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [module, cwd, command, ...args] = process.argv.slice(2);
const acp = await import(pathToFileURL(module));

const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const exit = new Promise((resolve) => child.on("exit", resolve));
const seen = { text: "", kinds: new Set(), states: [], prompts: [], title: "" };
let onIdle = () => {};
const { agent, client } = acp.methods;
const editor = acp
  .client({ name: "test" })
  .onRequest(client.session.requestPermission, ({ params }) => {
    seen.title = params.title;
    const { optionId } = params.options.find((option) => option.kind === "allow_once");
    return { outcome: { outcome: "selected", optionId } };
  })
  .onNotification(client.session.update, ({ params: { update } }) => {
    seen.kinds.add(update.sessionUpdate);
    if (update.sessionUpdate === "agent_message_chunk") seen.text += update.content.text;
    if (update.sessionUpdate === "user_message") seen.prompts.push(update.messageId);
    if (update.sessionUpdate !== "state_update") return;
    seen.states.push(update.state);
    if (update.state === "idle") onIdle(update.stopReason);
  });

const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const found = await editor.connectWith(stream, async (connection) => {
  const info = { name: "test", version: "1" };
  const version = { protocolVersion: acp.PROTOCOL_VERSION, info, capabilities: {} };
  const { protocolVersion } = await connection.request(agent.initialize, version);
  const { sessionId } = await connection.request(agent.session.new, { cwd, mcpServers: [] });
  const accepted = [];
  // Returns once the agent has accepted the prompt; `idle` is the end of the turn.
  const begin = async (text, session = sessionId) => {
    const idle = new Promise((resolve) => (onIdle = resolve));
    const prompt = [{ type: "text", text }];
    const { messageId } = await connection.request(agent.session.prompt, { sessionId: session, prompt });
    accepted.push(messageId);
    return { idle };
  };
  const run = async (text) => (await begin(text)).idle;
  const reasons = [await run("use a TOOL"), await run("PERMIT please"), await run("ERR 529")];
  const stalled = await begin("STALL 6000");
  await connection.notify(agent.session.cancel, { sessionId });
  reasons.push(await stalled.idle);
  const { sessions } = await connection.request(agent.session.list, {});
  const unknown = await begin("hello", "unknown").catch((error) => error.code);
  const listed = sessions.some((session) => session.sessionId === sessionId);
  const echoed = accepted.join() === seen.prompts.join();
  const before = seen.states.length;
  await connection.request(agent.session.resume, { sessionId, cwd, replayFrom: { type: "start" } });
  return { protocolVersion, reasons, unknown, listed, echoed, before };
});
child.stdin.destroy();
const code = await exit;
const { text, states, title } = seen;
const resumed = states.slice(found.before);
const waited = states.includes("requires_action");
const kinds = [...seen.kinds].sort();
console.log(JSON.stringify({ ...found, text, waited, resumed, title, kinds, code }));
process.exit(0);
