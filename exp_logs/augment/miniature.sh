#!/bin/bash
# none, back-translation, target-side augmentation, both: miniature.sh CORPUS STUDENT REVERSE OUT ARMS SEEDS [ITEMS]
# The same command resumes. ARMS and SEEDS are lists: "none back target both" "1 2 3".
#
# LibreOffice: CORPUS is of gtransformer lab libreoffice -t pt; STUDENT (en-pt) and REVERSE (pt-en) are of
# gtransformer model convert. ITEMS are of ../ellipsis/sample.py, which writes ITEMS.json and ITEMS.3.en.
# The Bible: bible_start.sh makes STUDENT, a checkpoint, and REVERSE, and in OUT the corpora and the vocabulary.
set -eo pipefail
here=$(cd "$(dirname "$0")" && pwd) out=$4 arms=$5 seeds=$6
corpus=$(realpath "$1") student=$(realpath "$2") reverse=$(realpath "$3") items=${7:+$(realpath "$7.json")}
# AUTOCAST= trains in float32, which is faster on a CPU without instructions for bfloat16.
documents=${DOCUMENTS:-240} updates=${UPDATES:-288} augmenter_updates=${AUGMENTER_UPDATES:-480}
gtransformer() { python -m gtransformer "$@"; }  # of the checkout, or installed
settings=(--set "train.autocast=${AUTOCAST-bfloat16}" --set train.num-workers=0 --set train.disable-validation=true --set generate.beam=1)
steps() { echo "--set train.max-update=$1 --set train.save-interval-updates=$(($1 / 8))"; }  # the mean of the last four is used

if [ -f "$student" ]; then  # the signs of observed words are in its vocabulary
  lang=de recipe=$here/bible.yaml skip=--skip-held-out
  start=(--set "train.finetune-from-model=$student") augmenter_start=("${start[@]}")
  cd "$out"
  [ -f prepared/manifest.json ] || gtransformer prepare real prepared --vocabulary vocabulary/prepared
else
  lang=pt recipe=short_context skip=
  start=(--sentence-model "$student") augmenter_start=(--sentence-model signs)
  [ -f "$out/mono.pt" ] || python "$here/corpus.py" "$corpus" "$student" "$out" "$documents"
  cd "$out"
  [ -z "$items" ] || cp "$items" items.json
  gtransformer run $recipe real prepare "${start[@]}" --prepared prepared --output none-1
fi

# What an arm needs besides the real documents.
make_none() { :; }
make_back() {
  gtransformer lab augment back mono.$lang back -t $lang --model "$reverse" --held-out "$corpus" --beam 1 $skip
  gtransformer prepare back back/prepared --vocabulary prepared -s en -t $lang
}
make_target() {
  gtransformer lab augment observe real observed -t $lang --copies 4 $skip
  if [ $lang = de ]; then
    gtransformer prepare observed augmenting/prepared --vocabulary vocabulary/prepared
  else
    gtransformer run $recipe observed prepare "${augmenter_start[@]}" --output augmenting
  fi
  gtransformer run $recipe observed train "${augmenter_start[@]}" --output augmenting --prepared augmenting/prepared \
    "${settings[@]}" $(steps "$augmenter_updates")
  [ -d augmenter ] || gtransformer export augmenting augmenter
  gtransformer lab augment target real target -t $lang --model augmenter --copies 3 --strategy full $skip
  gtransformer prepare target target/prepared --vocabulary prepared -s en -t $lang
}
make_both() {
  make_back
  make_target
}

# An epoch has the real documents once and in all arms but none as many synthetic sentences; updates are equal, so that
# those arms train half as long on the real documents.
declare -A more=([back]=back/prepared/bin [target]=target/prepared/bin [both]=back/prepared/bin:target/prepared/bin)
declare -A weights=([back]=1,0.5 [target]=1,0.3333 [both]=1,0.25,0.1667)
for arm in $arms; do
  make_$arm
  data=()
  [ $arm = none ] || data=(--set "train.more-training-data=${more[$arm]}" --set "train.training-weights=${weights[$arm]}")
  for seed in $seeds; do
    for stage in train generate; do
      gtransformer run $recipe real $stage "${start[@]}" --prepared prepared --output $arm-$seed \
        "${settings[@]}" $(steps "$updates") --set train.seed=$seed "${data[@]}"
    done
    [ "$items" ] || continue
    [ -d $arm-$seed/model ] || gtransformer export $arm-$seed $arm-$seed/model
    [ -s $arm-$seed/ellipsis.txt ] || gtransformer translate --model $arm-$seed/model --cpu --quiet --precision float32 --beam 1 \
      --max-tokens 8192 --strategy sequential --context-sentences 2 "${items%.json}.3.en" -o $arm-$seed/ellipsis.txt
  done
done
