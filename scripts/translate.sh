#!/usr/bin/env bash
# Translate plain text with a saved model: scripts/translate.sh --model DIR FILE [options]; --help lists the options.
# Text may come through a pipe: scripts/translate.sh --model DIR - < FILE
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup >&2
run_python -m gtransformer.cli.translate "$@"
