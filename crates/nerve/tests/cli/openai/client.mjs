// Uses the models of a server with the official client. Arguments: its module, and the program. OPENAI_BASE_URL and OPENAI_API_KEY name the server.
import { execFileSync } from "node:child_process";
import { pathToFileURL } from "node:url";

const [module, nerve] = process.argv.slice(2);
const { default: OpenAI } = await import(pathToFileURL(module));
const client = new OpenAI();

const user = (content) => ({ role: "user", content });
const ask = (model, messages, options = {}) => client.chat.completions.create({ model, messages, ...options });
const answerDialog = () => execFileSync(nerve, ["answer", "me", "1", "--wait"], { stdio: "ignore" });

/** Returns the error of a call. */
async function failure(call) {
  try {
    await call();
  } catch (error) {
    return error;
  }
  throw new Error("the call succeeded");
}

const messages = [user("one")];
const answers = [];
const reasons = [];
for (const prompt of ["two", "TOOL please"]) {
  const [choice] = (await ask("me", messages)).choices;
  answers.push(choice.message.content);
  reasons.push(choice.finish_reason);
  messages.push({ role: "assistant", content: choice.message.content }, user(prompt));
}

let streamed = "";
let last = null;
for await (const { choices } of await ask("me", messages, { stream: true, stream_options: { include_usage: true } })) {
  if (choices.length === 0) continue;
  streamed += choices[0].delta.content ?? "";
  last = choices[0].finish_reason;
}
if (last !== "stop") throw new Error(`the stream ended with ${last}`);

const history = [user("one"), { role: "assistant", content: "uno" }, user("two")];
const fresh = (await ask("helper:new", history)).choices[0].message.content;

const tool = { type: "function", function: { name: "f", parameters: { type: "object" } } };
const tools = await failure(() => ask("me", messages, { tools: [tool] }));
const model = await failure(() => ask("absent", messages));
const foreign = new OpenAI({ apiKey: "wrong" });
const token = await failure(() => foreign.models.list());
const mismatch = await failure(() => ask("me", [user("three")]));
const dialog = await failure(() => ask("me:node", [user("PERMIT please")]));
answerDialog();
const streamedError = await failure(async () => {
  for await (const _ of await ask("me:node", [user("PERMIT again")], { stream: true }));
});
answerDialog();

const models = [];
for await (const { id } of client.models.list()) models.push(id);
const found = {
  models,
  answers,
  reasons,
  streamed,
  fresh,
  statuses: {
    tools: tools.status,
    model: model.status,
    token: token.status,
    mismatch: mismatch.status,
    dialog: dialog.status,
  },
  param: tools.param,
  code: model.code,
  streamed_error: streamedError.code,
};
console.log(JSON.stringify(found));
