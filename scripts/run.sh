#!/usr/bin/env bash
# Drive a recipe over a corpus: scripts/run.sh RECIPE CORPUS STAGE [--option value ...] [-- options for fairseq]
#
#   RECIPE  one of the list that it prints without arguments (base, doc_base, cpu_small, ...), or a YAML file
#   CORPUS  ted, news or europarl (after scripts/download.sh), or a directory in the raw corpus format
#   STAGE   prepare, train, generate, score or all
#
#   GTRANSFORMER_RUNS=DIR   where results lie (default: runs/ in the working directory); the same as --runs DIR
#   DATA=DIR                where downloaded corpora lie (default: data/ in the checkout)
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.cli.run "$@"
