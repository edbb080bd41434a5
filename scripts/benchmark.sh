#!/usr/bin/env bash
# Time and memory of training and decoding over document length, systems in turn, fairseq's Transformer among them:
# scripts/benchmark.sh [options]; --help lists them. Results are written to exp_logs/benchmark/.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.lab.cli.benchmark "$@"
