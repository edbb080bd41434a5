#!/usr/bin/env bash
# A paper's figure or table, with all the runs that it needs: scripts/study.sh FIGURE CORPUS OUTPUT [--miniature] [options]
#
#   FIGURE  figure2, figure3, figure4, figure5, figure7 or figure8 (G-Transformer), table3 or table4 (window attention); see
#           configs/studies/
#   CORPUS  europarl, ted, news (after scripts/download.sh), a directory in the raw corpus format, or demo (generated)
#   OUTPUT  a directory; figures and tables in the same one share their runs
#
# scripts/study.sh table2 OUTPUT [options of scripts/benchmark.sh]: memory by length, which needs no corpus.
#
# Interrupted, it goes on where it stopped; --list shows what there is to do; --allow-missing does without runs that
# fail. See docs/convergence.md, and docs/long_context.md for the tables.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.lab.cli.study "$@"
