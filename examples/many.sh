#!/usr/bin/env bash
# Asks several agents the same question at once and prints each answer.
#
#   examples/many.sh 'Is this a good idea?'
#   AGENTS='claude codex gemini' examples/many.sh 'Is this a good idea?'
#
# With the built-in agent CI sees, among others, in its output:
# prints: == nerve mock-agent --full-screen
set -euo pipefail

question=${1:-Is this a good idea?}

export NERVE_SERVER=many-$$
nerve server start
answers=$(mktemp -d)
trap 'nerve server stop "$NERVE_SERVER" --force; rm -r "$answers"' EXIT

if [ -n "${AGENTS:-}" ]; then
    read -ra agents <<<"$AGENTS"
else
    agents=('nerve mock-agent' 'nerve mock-agent --full-screen' 'nerve mock-agent --delay 200')
fi

# Every execute waits for its own answer; the server works on all of them at the same time.
for i in "${!agents[@]}"; do
    nerve new "agent-$i" --command "${agents[$i]}"
    nerve send "agent-$i" "$question" --timeout 300 >"$answers/$i" &
    waiting[i]=$!
done

failed=0
for i in "${!agents[@]}"; do
    wait "${waiting[$i]}" || failed=1
    echo "== ${agents[$i]}: $(wc -l <"$answers/$i") lines, the last one:"
    tail -n 1 "$answers/$i"
done
exit "$failed"
