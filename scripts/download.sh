#!/usr/bin/env bash
# Fetch a benchmark corpus of Maruf et al. (2019) and verify it: scripts/download.sh {ted,news,europarl} [options]
#
#   DATA=DIR                        where corpora lie (default: data/ in the checkout)
#   GTRANSFORMER_MIRROR=file:///D   fetch from this place instead of the corpus's public home
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.cli.download "$@"
