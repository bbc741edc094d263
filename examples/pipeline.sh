#!/usr/bin/env bash
# Validates, shows and runs a graph of bash and template steps, and prints its results as JSON.
#
# CI sees, among others, in its output:
# prints: total: 13, that is a lot
# prints: 2 words in 'one two'
set -euo pipefail
cd "$(dirname "$0")"

export NERVE_SERVER=pipeline-$$
nerve graph validate pipeline.yaml
nerve graph show pipeline.yaml
nerve server start
trap 'nerve server stop "$NERVE_SERVER" --force' EXIT

nerve graph run pipeline.yaml --json | jq -r .results.report.text
nerve graph run pipeline.yaml --set 'texts=["one two", "three"]' --json | jq -r '.results.lines[]'
nerve graph list --runs
