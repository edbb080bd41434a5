#!/bin/bash
# Corpora, vocabulary and sentence models of the Bible's miniature: bible_start.sh BIBLE OUT. BIBLE is a raw corpus.
# OUT/S is a sentence model English to German, OUT/R the reverse; OUT/reverse is R as a model directory.
set -eo pipefail
here=$(cd "$(dirname "$0")" && pwd) bible=$(realpath "$1") out=$2
gtransformer() { python -m gtransformer "$@"; }
[ -f "$out/mono.de" ] || python "$here/bible.py" "$bible" "$out" 240
cd "$out"
gtransformer lab augment observe sentences observed_sentences --skip-held-out  # only for a vocabulary with its signs
gtransformer run cpu_small observed_sentences prepare --output vocabulary --prepared vocabulary/prepared
gtransformer prepare sentences S/prepared --vocabulary vocabulary/prepared
gtransformer prepare sentences R/prepared -s de -t en --vocabulary vocabulary/prepared
for side in S:en,de R:de,en; do
  gtransformer run cpu_small_sent sentences train --langs ${side#*:} --output ${side%:*} --prepared ${side%:*}/prepared \
    --set train.max-tokens=8192 --set train.dropout=0.2 --set train.max-update=4254 --set train.tensorboard-logdir=
done
[ -d reverse ] || gtransformer export R reverse
