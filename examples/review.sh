#!/usr/bin/env bash
# Runs the graph review.yaml: the agent writes, bash checks, the agent fixes, and this script answers the gate for you.
#
#   examples/review.sh                                   the built-in agent
#   AGENT=claude examples/review.sh "$(git diff HEAD~)"  a real one
#
# The built-in agent only repeats its prompt, so its first message is too long and its second one fits. CI sees:
# prints: Take this message? You said: That has 1
# prints: "choice": "yes"
set -euo pipefail
cd "$(dirname "$0")"

agent=${AGENT:-nerve mock-agent}
change=${1:-the parser no longer loses the last line of a file}

export NERVE_SERVER=review-$$
nerve server start
result=$(mktemp)
trap 'nerve server stop "$NERVE_SERVER" --force; rm "$result"' EXIT
nerve new coder --command "$agent"

run=review-$$
nerve graph run review.yaml --run-id "$run" --set change="$change" --json >"$result" &

# In a terminal 'graph run' prompts for the answer. Here the gate waits for the command that answers it.
status() { nerve graph status "$run" --json 2>/dev/null | jq -r .state; }
until [ "$(status)" = waiting ]; do
    kill -0 $! # it ended before it asked
    sleep 0.2
done
nerve graph status "$run"
nerve graph answer "$run" yes
wait $!
jq -r '.results | .approve, (.mend.mend // .write).text' "$result"
