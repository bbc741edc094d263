#!/usr/bin/env bash
# Asks one question and prints the parts of the answer: the text and the tools used.
#
#   examples/ask.sh                                  the built-in agent
#   AGENT=claude examples/ask.sh 'What is in here?'  a real one
#
# With the built-in agent CI sees, among others, in its output:
# prints:   Bash echo hello
set -euo pipefail

agent=${AGENT:-nerve mock-agent}
question=${1:-Please use a TOOL}

answer=$(nerve ask --command "$agent" --timeout 300 --json "$question")

echo "said:"
jq -r '.response.text' <<<"$answer" | sed 's/^/  /'
echo "tools used:"
jq -r '.response.sections[] | select(.type == "tool_call") | "  \(.metadata.tool) \(.metadata.args // "")"' <<<"$answer"
