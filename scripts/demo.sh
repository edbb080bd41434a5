#!/usr/bin/env bash
# The demonstration: train a G-Transformer on whole documents (five to ten minutes on two CPU cores).
# scripts/demo.sh [options]; --help lists them. Sets up first if needed.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer demo "$@"
