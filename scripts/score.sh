#!/usr/bin/env bash
# Score translations: scripts/score.sh PREPARED --split test --hypotheses PREFIX.jsonl [OTHER.txt ...] [--test sign] ...
# --help lists the options.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.cli.score "$@"
