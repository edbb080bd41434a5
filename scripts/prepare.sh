#!/usr/bin/env bash
# Moses tokenisation, truecasing, joint BPE, instances, binaries, as Bao et al. (2021): scripts/prepare.sh DATASET DIR
# DATASET is ted, news or europarl (first scripts/get_DATASET.sh), or a folder in the raw corpus format. The binaries
# are in DIR/DATASET/bin. --print prints the commands; LANGS="en fr" is another pair, MERGES and TOKENS are other sizes.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

(($# >= 2)) || fail "usage: scripts/prepare.sh DATASET DIR [--print]"
raw="${DATA:-$ROOT/data}/$1"
[[ "$1" != */* ]] || raw="$1"
out="$2/$(basename "$1")"
merges="${MERGES:-30000}" tokens="${TOKENS:-512}"
read -r src tgt <<<"${LANGS:-en de}"
[[ -n "$PRINT" ]] || ensure_setup
export PATH="$VENV/bin:$PATH"

run "mkdir -p '$out/text' '$out/instances'"
# Pairs with an empty side go. A line <d> becomes an empty line, which begins a document.
for split in train dev test; do
    files="'$raw/concatenated_${src}2${tgt}_${split}_$src.txt' '$raw/concatenated_${src}2${tgt}_${split}_$tgt.txt'"
    run "paste $files | tr -d '\\r' | grep -vP '^\\s*\\t|\\t\\s*\$' | sed -E 's/^<d>\\s*\\t<d>\\s*\$/\\t/' >'$out/text/$split'"
    run "cut -f1 '$out/text/$split' | sacremoses -q -l $src -j 8 tokenize >'$out/text/$split.tok.$src'"
    run "cut -f2 '$out/text/$split' | sacremoses -q -l $tgt -j 8 tokenize >'$out/text/$split.tok.$tgt'"
done
# sacremoses' own command truecases without use_known, so that known words lose their capitals within sentences.
truecase="import sys, sacremoses; model = sacremoses.MosesTruecaser(sys.argv[1]); \
[print(model.truecase(line, return_str=True, use_known=True) if line.strip() else '') for line in sys.stdin]"
for lang in "$src" "$tgt"; do
    run "grep . '$out/text/train.tok.$lang' | sacremoses -q -l $lang train-truecase -m '$out/truecase.$lang'"
    for split in train dev test; do
        run "python -c \"$truecase\" '$out/truecase.$lang' <'$out/text/$split.tok.$lang' >'$out/text/$split.tc.$lang'"
    done
done
run "cat '$out/text/train.tc.$src' '$out/text/train.tc.$tgt' | subword-nmt learn-bpe -s $merges >'$out/bpe.codes'"
for split in train dev test; do
    for lang in "$src" "$tgt"; do
        run "subword-nmt apply-bpe -c '$out/bpe.codes' <'$out/text/$split.tc.$lang' >'$out/text/$split.bpe.$lang'"
    done
    run "python '$ROOT/scripts/instances.py' '$out/text/$split.bpe.$src' '$out/text/$split.bpe.$tgt' \
'$out/instances/$split.$src' '$out/instances/$split.$tgt' $tokens"
done
run "fairseq-preprocess --source-lang $src --target-lang $tgt --joined-dictionary --workers 8 --destdir '$out/bin' \
--trainpref '$out/instances/train' --validpref '$out/instances/dev' --testpref '$out/instances/test'"
