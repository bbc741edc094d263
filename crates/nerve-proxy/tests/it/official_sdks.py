"""The official Anthropic and OpenAI SDKs as clients of a proxy: official_sdks.py BASE_URL CASE..."""

import base64
import sys

import anthropic

BASE, CASES = sys.argv[1], sys.argv[2:]
TOOLS = [
    {
        "name": name,
        "description": "d",
        "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}},
    }
    for name in ("Bash", "Read")
]


def client() -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=BASE, api_key="their-own-key", max_retries=2, timeout=20)


def ask(prompt, **more):
    return client().messages.create(
        model="claude-x", max_tokens=100, messages=[{"role": "user", "content": prompt}], **more
    )


def messages() -> None:
    """Text, whole and streamed, and a token count."""
    message = ask("hello")
    assert message.content[0].text == "You said: hello", message
    assert message.stop_reason == "end_turn" and message.usage.output_tokens > 0, message
    with client().messages.stream(
        model="claude-x", max_tokens=100, messages=[{"role": "user", "content": "LONG please"}]
    ) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    assert len(pieces) > 3 and "".join(pieces) == final.content[-1].text, pieces
    assert final.content[-1].text.rstrip().endswith("END-OF-LONG"), final
    assert final.usage.input_tokens > 0 and final.usage.output_tokens > 0, final.usage
    count = client().messages.count_tokens(model="claude-x", messages=[{"role": "user", "content": "hello"}])
    assert count.input_tokens > 0, count


def tools() -> None:
    """Two streamed tool calls; their results in another order, one of them an error."""
    conversation = [{"role": "user", "content": "look"}]
    with client().messages.stream(model="claude-x", max_tokens=100, messages=conversation, tools=TOOLS) as stream:
        first = stream.get_final_message()
    uses = [block for block in first.content if block.type == "tool_use"]
    assert first.stop_reason == "tool_use" and [use.name for use in uses] == ["Bash", "Read"], first
    assert uses[0].input == {"command": "ls"} and uses[1].input == {"file_path": "/x"}, uses
    conversation.append({"role": "assistant", "content": [block.model_dump() for block in first.content]})
    results = [
        {"type": "tool_result", "tool_use_id": uses[1].id, "content": "no such file", "is_error": True},
        {"type": "tool_result", "tool_use_id": uses[0].id, "content": [{"type": "text", "text": "a.txt"}]},
    ]
    conversation.append({"role": "user", "content": results})
    last = client().messages.create(model="claude-x", max_tokens=100, messages=conversation, tools=TOOLS)
    assert last.content[0].text.startswith("The tool said: "), last


def more() -> None:
    """An image, a system prompt in blocks, stop sequences, a forced tool."""
    picture = base64.b64encode(b"\x89PNG").decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": picture}}
    answer = ask(
        [image, {"type": "text", "text": "what is it"}],
        system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        stop_sequences=["END"],
        tools=TOOLS,
        tool_choice={"type": "tool", "name": "Bash", "disable_parallel_tool_use": True},
    )
    assert answer.content[0].text == "You said: what is it", answer


def errors() -> None:
    """Errors keep their class."""
    for prompt, kind in (("ERR 400", anthropic.BadRequestError), ("ERR 401", anthropic.AuthenticationError)):
        try:
            ask(prompt)
        except kind as error:
            assert "scripted error" in str(error), error
        else:
            raise AssertionError(f"{prompt} raised no error")


def refused() -> None:
    """A request refused by the budget is not retried."""
    try:
        ask("hello")
    except anthropic.APIStatusError as error:
        assert error.status_code == 402 and error.body["error"]["type"] == "billing_error", error
    else:
        raise AssertionError("the request was not refused")


def broken() -> None:
    """A broken stream is an error, not a short answer."""
    try:
        with client().messages.stream(
            model="claude-x", max_tokens=100, messages=[{"role": "user", "content": "break"}]
        ) as stream:
            stream.get_final_message()
    except Exception as error:  # The type depends on the SDK's version.
        assert "AssertionError" not in repr(error), error
    else:
        raise AssertionError("an incomplete answer looks complete")


def openais() -> None:
    """OpenAI's SDK, whose requests are forwarded on their own paths."""
    import openai  # Slow to import.

    theirs = openai.OpenAI(base_url=f"{BASE}/v1", api_key="their-own-key", timeout=20)
    conversation = [{"role": "user", "content": "hello"}]
    completion = theirs.chat.completions.create(model="gpt-x", messages=conversation)
    assert completion.choices[0].message.content == "You said: hello", completion
    stream = theirs.chat.completions.create(model="gpt-x", messages=conversation, stream=True)
    pieces = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
    assert "".join(pieces) == "You said: hello", pieces
    response = theirs.responses.create(model="gpt-x", input="hello")
    assert response.output_text == "You said: hello", response


KNOWN = {
    "messages": messages,
    "tools": tools,
    "more": more,
    "errors": errors,
    "refused": refused,
    "broken": broken,
    "openai": openais,
}
for case in CASES:
    KNOWN[case]()
    print(case)
