#!/usr/bin/env bash
# An agent requests a permission in the middle of a turn. The execute ends with exit code 5 instead of hanging; the script
# answers the dialog and gets the rest of the turn.
#
# With the built-in agent CI sees, among others, in its output:
# prints: END-OF-TOOL
set -euo pipefail

agent=${AGENT:-nerve mock-agent}
prompt=${1:-Do what needs a PERMIT}

# A separate server that ends with this script.
export NERVE_SERVER=permissions-$$
nerve server start
trap 'nerve server stop "$NERVE_SERVER" --force' EXIT

nerve new worker --command "$agent"

code=0
nerve send worker "$prompt" || code=$?
case $code in
0) echo "done without asking" ;;
5)
    # The first choice: yes, this once. Then wait for the end of the turn.
    nerve answer worker 1 --wait --timeout 60
    ;;
*) exit "$code" ;;
esac
