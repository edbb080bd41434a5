#!/usr/bin/env bash
# Time and memory of training and decoding over document length, against fairseq's Transformer and the dense engine:
# scripts/benchmark.sh [options]; --help lists them. Results are written to exp_logs/benchmark/.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

ensure_setup
run_python -m gtransformer.cli.benchmark "$@"
