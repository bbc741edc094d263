#!/usr/bin/env bash
# Makes tour.svg, the picture in the README: records the commands below, typed slowly, and exports the recording.
# Usage: tour.sh [OUTPUT], with nerve in PATH.
set -euo pipefail

output=$(realpath "${1:-$(dirname "$0")/tour.svg}")
work=$(mktemp -d)
trap 'nerve server stop >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
mkdir "$work/site" "$work/bin"
cd "$work/site"
export NERVE_HOME="$work/nerve" PATH="$work/bin:$PATH" HOME="$work"
# The scripted agent stands for a real one: its answers are the same each time.
printf '#!/bin/sh\nexec nerve mock-agent "$@"\n' >"$work/bin/claude"
chmod +x "$work/bin/claude"

cat >"$work/tour" <<'END'
say() {
    printf '\e[1;32m$\e[0m '
    for ((i = 0; i < ${#1}; i++)); do
        printf '%s' "${1:i:1}"
        sleep 0.03
    done
    printf '\n'
    sleep 0.2
    eval "$1" || true
    sleep "${2:-1}"
}
printf '\e[2m# Two agents in the background. nerve proves that each prompt arrives.\e[0m\n'
say 'nerve new api -c claude'
say 'nerve new web -c claude'
say "nerve send api 'Please use a TOOL'" 2
printf '\n\e[2m# A dialog is an exit code and a list of choices, not a hang.\e[0m\n'
say "nerve send web 'Do what needs a PERMIT'" 3
say 'nerve answer web 1 --wait' 2
printf '\n\e[2m# Everything is kept, and found again.\e[0m\n'
say 'nerve ls' 2
say 'nerve search permit' 4
END

nerve server start >/dev/null
nerve record --headless --cols 90 --rows 34 --out-file "$work/tour.ahr" -- bash "$work/tour" >/dev/null
nerve recording export "$work/tour.ahr" -f svg --idle-limit 4 -o "$output"
