#!/usr/bin/env bash
# The demonstration: a G-Transformer learns to translate whole documents (about five minutes on two CPU cores).
# scripts/demo.sh [options]; --help lists them. Sets up first if that has not been done.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer demo "$@"
