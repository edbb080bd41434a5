#!/usr/bin/env bash
# The mean of a training's last checkpoints: scripts/average.sh RUN/checkpoints --last 5 --output FILE
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.cli.average "$@"
