#!/usr/bin/env bash
# Put shards of a corpus together that scripts/prepare.sh --shard I/N prepared: scripts/merge.sh OUT SHARD...
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.cli.merge "$@"
