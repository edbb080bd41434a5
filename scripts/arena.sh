#!/usr/bin/env bash
# All systems side by side, from one sentence model, with one budget: how well they translate and how far they see.
# scripts/arena.sh demo|CORPUS OUTPUT [--systems NAME ...] [--seeds 1 2] [options]; --help lists them. See docs/arena.md.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.lab.cli.arena "$@"
