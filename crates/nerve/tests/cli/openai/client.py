"""Uses the models of a server with the official client. Argument: the program. OPENAI_BASE_URL and OPENAI_API_KEY name the server."""

import json
import subprocess
import sys

import openai
from openai import OpenAI

client = OpenAI()
messages = [{"role": "user", "content": "one"}]


def ask(model, messages, **options):
    return client.chat.completions.create(model=model, messages=messages, **options)


def status(call):
    """Returns the error of a call and its HTTP status."""
    try:
        call()
    except openai.APIStatusError as error:
        return error, error.status_code
    raise AssertionError("the call succeeded")


def answer_dialog():
    subprocess.run([sys.argv[1], "answer", "me", "1", "--wait"], check=True, stdout=subprocess.DEVNULL)


answers, reasons = [], []
for prompt in ["two", "TOOL please"]:
    completion = ask("me", messages)
    choice = completion.choices[0]
    answers.append(choice.message.content)
    reasons.append(choice.finish_reason)
    messages += [{"role": "assistant", "content": choice.message.content}, {"role": "user", "content": prompt}]

streamed, last = "", None
for chunk in ask("me", messages, stream=True, stream_options={"include_usage": True}):
    if chunk.choices:
        streamed += chunk.choices[0].delta.content or ""
        last = chunk.choices[0].finish_reason
assert last == "stop", last
assert "END-OF-TOOL" in streamed

history = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "uno"}, {"role": "user", "content": "two"}]
fresh = ask("helper:new", history).choices[0].message.content

tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
tools, tools_status = status(lambda: ask("me", messages, tools=[tool]))
model, model_status = status(lambda: ask("absent", messages))
foreign = OpenAI(api_key="wrong")
_, token_status = status(lambda: foreign.models.list())
_, mismatch_status = status(lambda: ask("me", [{"role": "user", "content": "three"}]))
_, dialog_status = status(lambda: ask("me:node", [{"role": "user", "content": "PERMIT please"}]))
answer_dialog()
streamed_error = None
try:
    for _ in ask("me:node", [{"role": "user", "content": "PERMIT again"}], stream=True):
        pass
except openai.APIError as error:
    streamed_error = error.body["code"]
answer_dialog()

print(
    json.dumps(
        {
            "models": [model.id for model in client.models.list()],
            "answers": answers,
            "reasons": reasons,
            "streamed": streamed,
            "fresh": fresh,
            "statuses": {
                "tools": tools_status,
                "model": model_status,
                "token": token_status,
                "mismatch": mismatch_status,
                "dialog": dialog_status,
            },
            "param": tools.param,
            "code": model.code,
            "streamed_error": streamed_error,
        }
    )
)
