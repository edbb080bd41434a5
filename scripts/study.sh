#!/usr/bin/env bash
# A convergence study of the paper, all runs and the figure: scripts/study.sh FIGURE CORPUS OUTPUT [--miniature] [options]
#
#   FIGURE  figure2, figure3, figure4, figure5, figure7 or figure8 (configs/studies/)
#   CORPUS  europarl, ted, news (after scripts/download.sh), a directory in the raw corpus format, or demo (generated)
#   OUTPUT  a directory; figures in the same one share their runs
#
# Interrupted, it goes on where it stopped; --list shows what there is to do; --allow-missing draws the figure without runs
# that fail. See docs/convergence.md.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

ensure_setup
run_python -m gtransformer.cli.study "$@"
