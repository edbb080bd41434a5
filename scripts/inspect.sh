#!/usr/bin/env bash
# Look inside a model while it translates a document: scripts/inspect.sh --model DIR FILE --output DIR [options]
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.lab.cli.inspect_document "$@"
