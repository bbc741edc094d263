// A client that uses the SDK of the protocol. Arguments: the SDK's module, the working directory, and the command of the agent.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [module, cwd, command, ...args] = process.argv.slice(2);
const acp = await import(pathToFileURL(module));

const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const exit = new Promise((resolve) => child.on("exit", resolve));
const seen = { text: "", kinds: new Set(), permissions: 0 };
const { agent, client } = acp.methods;
const editor = acp
  .client({ name: "test" })
  .onRequest(client.session.requestPermission, ({ params }) => {
    seen.permissions += 1;
    const { optionId } = params.options.find((option) => option.kind === "allow_once");
    return { outcome: { outcome: "selected", optionId } };
  })
  .onNotification(client.session.update, ({ params: { update } }) => {
    seen.kinds.add(update.sessionUpdate);
    if (update.sessionUpdate === "agent_message_chunk") seen.text += update.content.text;
  });

const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const found = await editor.connectWith(stream, async (connection) => {
  const version = { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} };
  const { protocolVersion } = await connection.request(agent.initialize, version);
  const { sessionId } = await connection.request(agent.session.new, { cwd, mcpServers: [] });
  const prompt = (text, session = sessionId) =>
    connection.request(agent.session.prompt, { sessionId: session, prompt: [{ type: "text", text }] });
  const reasons = [(await prompt("use a TOOL")).stopReason, (await prompt("PERMIT please")).stopReason];
  const stalled = prompt("STALL 6000");
  await connection.notify(agent.session.cancel, { sessionId });
  reasons.push((await stalled).stopReason);
  const { sessions } = await connection.request(agent.session.list, {});
  const unknown = await prompt("hello", "unknown").catch((error) => error.code);
  const listed = sessions.some((session) => session.sessionId === sessionId);
  return { protocolVersion, reasons, unknown, listed };
});
child.stdin.destroy();
const { text, permissions } = seen;
console.log(JSON.stringify({ ...found, text, permissions, kinds: [...seen.kinds].sort(), code: await exit }));
process.exit(0);
