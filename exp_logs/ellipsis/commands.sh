#!/usr/bin/env bash
# The commands of docs/ellipsis.md: bash exp_logs/ellipsis/commands.sh MARIAN CTXPRO, in an empty folder, with the package's
# Python first in PATH. MARIAN is the folder of an English-Portuguese Marian model; CTXPRO has ctxpro's files (Wicks and Post
# 2023) as KIND.en-LANG.SPLIT.{json,inputs}, unpacked. Trains for about five hours on one core.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) ctxpro=$2
package=$(python -c 'import gtransformer; print(gtransformer.__path__[0])')
translate() { gtransformer translate --cpu --quiet --precision float32 --beam 1 --max-tokens 8192 "$@"; }

gtransformer model convert "$1" enpt -s en -t pt
gtransformer lab libreoffice -t pt --data raw

# Items with context, for training with the student's translation of it.
for kind in ellipsis formality; do
  name=$ctxpro/${kind/ellipsis/auxiliary}.en-pt
  splits=("$name.dev") test=$name.devtest
  [ $kind = ellipsis ] && splits+=("$name.devtest") && test=$name.test_a
  items=("${splits[@]/%/.json}") inputs=("${splits[@]/%/.inputs}")
  gtransformer convert ctxpro $kind-context --split test -t pt --items "${items[@]}" --inputs "${inputs[@]}" \
    --without "$test.json"
  translate --model enpt $kind-context/concatenated_en2pt_test_en.txt -o $kind.context
  gtransformer convert ctxpro $kind --split train -t pt --items "${items[@]}" --inputs "${inputs[@]}" \
    --without "$test.json" --context-translations $kind.context
  gtransformer convert ctxpro $kind-test --split test -t pt --items "$test.json" --inputs "$test.inputs"
done
python "$here/corpus.py" ellipsis formality raw/libreoffice-en-pt training
python "$here/replies.py" training/replies "$ctxpro/auxiliary.en-pt.test_a,$ctxpro/formality.en-pt.devtest" ellipsis/ctxpro_train.json \
  "$ctxpro"/auxiliary.en-pt.{dev,devtest} "$ctxpro/formality.en-pt.dev" "$ctxpro"/formality.en-de.{dev,devtest} \
  "$ctxpro"/auxiliary.en-de.{dev,devtest}
translate --model enpt training/replies.en -o training/replies.pt
python "$here/replies.py" training/replies training/replies.pt
for part in help half some items replies; do gtransformer prepare training/$part $part -s en -t pt --vocabulary enpt; done

# What the systems see, by the first letter of their names: a, s and o single sentences; g the two before, u none, with as
# many parameters; c one and d two before, concatenated.
declare -A before=([g]=2 [c]=1 [d]=2) layers=([g]=2 [u]=2)

# train NAME SEED START DATA MORE UPDATES CHECKPOINT
train() {
  local system=${1:0:1} checkpoint=$1/checkpoint_last.pt
  local depth=${layers[$system]:-0} kind="partial --gate-bias 0 --neutral-gates --positions sentence --instances disjoint"
  [[ $system == [cd] ]] && kind="full --instances sliding"
  OMP_NUM_THREADS=1 fairseq-train "$4" --more-training-data "$5" --user-dir "$package" --task translation_doc -s en -t pt \
    --langs en,pt --arch gtransformer --sentence-model "$3" --encoder-ctxlayers $depth --decoder-ctxlayers $depth \
    --cross-ctxlayers $depth --doc-mode $kind --context-sentences "${before[$system]:-0}" \
    --autocast bfloat16 --cpu --optimizer fused_adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9 --lr 1e-3 \
    --lr-scheduler inverse_sqrt --warmup-updates 60 --warmup-init-lr 1e-7 --clip-norm 1.0 --doc-double-lr --lr-scale-pretrained 0.3 \
    --dropout 0 --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 --max-tokens 2048 --max-update "$6" --seed "$2" \
    --save-dir "$1" --no-epoch-checkpoints --save-interval-updates 100 --keep-interval-updates 4 --no-save-optimizer-state \
    --num-workers 1 --disable-validation
  if [ "$7" = mean ]; then
    gtransformer average "$1" --last 4 -o "$1/mean.pt"
    checkpoint=$1/mean.pt
  fi
  gtransformer export help "$1.model" --prepared help --checkpoint "$checkpoint" --unkpen 1000
}
mkdir -p translations
python "$here/sample.py" ellipsis-test translations/ellipsis 0
python "$here/sample.py" formality-test translations/formality 1000 ellipsis/ctxpro_train.json formality/ctxpro_train.json
cp ellipsis/ctxpro_train.json translations/ellipsis.train.json

# write NAME MODEL: its translations of all test sets
write() {
  local sentences=${before[${1:0:1}]:-0} strategy=() kind
  [ $sentences = 0 ] || strategy=(--strategy sequential --context-sentences $sentences)
  for kind in ellipsis formality; do
    translate --model "$2" "${strategy[@]}" translations/$kind.$((sentences + 1)).en -o translations/$1.$kind
  done
  translate --model "$2" "${strategy[@]}" raw/libreoffice-en-pt/concatenated_en2pt_test_en.txt -o translations/$1.libre
}
write b1 enpt
for seed in 1 2 3 4; do
  systems=(s g)
  [ $seed -gt 2 ] || systems+=(c)
  [ $seed != 1 ] || systems+=(u d)
  train a$seed $seed enpt help/bin items/bin:items/bin 500 last
  for system in "${systems[@]}"; do
    train $system$seed $seed a$seed.model half/bin items/bin:items/bin:replies/bin 1200 mean
  done
  if [ $seed != 4 ]; then
    train o$seed $seed a$seed.model some/bin items/bin 800 mean
    systems+=(o)
  fi
  for system in a "${systems[@]}"; do write $system$seed $system$seed.model; done
done
translate --model g1.model --strategy sequential --context-sentences 2 translations/ellipsis.other.en -o translations/w1.ellipsis
python "$here/compare.py" translations raw/libreoffice-en-pt training > accuracy.json
python "$here/compare.py" translations raw/libreoffice-en-pt > translations.json
