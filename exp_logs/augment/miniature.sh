#!/bin/bash
# none, back-translation, target-side augmentation, both: miniature.sh LIBREOFFICE STUDENT REVERSE OUT ARMS SEEDS
# The same command resumes. LIBREOFFICE is of gtransformer corpus get libreoffice -t pt; STUDENT (en-pt) and REVERSE
# (pt-en) are of gtransformer model convert. ARMS and SEEDS are lists: "none back target both" "1 2 3".
set -eo pipefail
here=$(cd "$(dirname "$0")" && pwd) corpus=$1 student=$2 reverse=$3 out=$4 arms=$5 seeds=$6
documents=${DOCUMENTS:-80} updates=${UPDATES:-160} every=$((${UPDATES:-160} / 8))
run() { python -m gtransformer "$@"; }
settings=(--set train.autocast=bfloat16 --set train.num-workers=0 --set "train.max-update=$updates"
  --set "train.save-interval-updates=$every" --set train.disable-validation=true --set generate.beam=1)

[ -f "$out/mono.pt" ] || python "$here/corpus.py" "$corpus" "$student" "$out" "$documents"
cd "$out"
[ -d observed ] || run augment observe real observed -t pt --copies 4
run run short_context observed prepare --sentence-model signs --output augmenting
run run short_context observed train --sentence-model signs --output augmenting "${settings[@]}"
[ -d augmenter ] || run export augmenting augmenter
run augment back mono.pt back -t pt --model "$reverse" --held-out "$corpus" --beam 1
run augment target real target -t pt --model augmenter --copies 3 --strategy full
run run short_context real prepare --sentence-model "$student" --prepared prepared --output none-1
for kind in back target; do run prepare $kind $kind/prepared --vocabulary prepared -s en -t pt; done

# An epoch has the real documents once, and in all arms but none as many synthetic sentences.
declare -A more=([back]=back/prepared/bin [target]=target/prepared/bin [both]=back/prepared/bin:target/prepared/bin)
declare -A weights=([back]=1,0.5 [target]=1,0.3333 [both]=1,0.25,0.1667)
for seed in $seeds; do
  for arm in $arms; do
    data=()
    [ $arm = none ] || data=(--set "train.more-training-data=${more[$arm]}" --set "train.training-weights=${weights[$arm]}")
    for stage in train generate; do
      run run short_context real $stage --sentence-model "$student" --prepared prepared --output $arm-$seed \
        "${settings[@]}" --set train.seed=$seed "${data[@]}"
    done
  done
done
