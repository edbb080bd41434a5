#!/usr/bin/env bash
# The commands of docs/ellipsis.md: bash exp_logs/ellipsis/commands.sh MARIAN CTXPRO, in an empty folder, with the package's
# Python first in PATH. MARIAN is the folder of an English-Portuguese Marian model; CTXPRO has ctxpro's files (Wicks and Post
# 2023) as KIND.en-LANG.SPLIT.{json,inputs}. Trains for about three hours on one core.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) ctxpro=$2
package=$(python -c 'import gtransformer; print(gtransformer.__path__[0])')
translate() { gtransformer translate --cpu --quiet --beam 1 --max-tokens 8192 "$@"; }

gtransformer model convert "$1" enpt -s en -t pt
gtransformer corpus get libreoffice -t pt --data raw

# Items with context, for training with the student's translation of it.
for kind in ellipsis formality; do
  name=$ctxpro/${kind/ellipsis/auxiliary}.en-pt
  splits=("$name.dev") test=$name.devtest
  [ $kind = ellipsis ] && splits+=("$name.devtest") && test=$name.test_a
  items=("${splits[@]/%/.json}") inputs=("${splits[@]/%/.inputs}")
  gtransformer corpus convert ctxpro $kind-context --split test -t pt --items "${items[@]}" --inputs "${inputs[@]}" \
    --without "$test.json"
  translate --model enpt $kind-context/concatenated_en2pt_test_en.txt -o $kind.context
  gtransformer corpus convert ctxpro $kind --split train -t pt --items "${items[@]}" --inputs "${inputs[@]}" \
    --without "$test.json" --context-translations $kind.context
  gtransformer corpus convert ctxpro $kind-test --split test -t pt --items "$test.json" --inputs "$test.inputs"
done
python "$here/corpus.py" ellipsis formality raw/libreoffice-en-pt training
python "$here/replies.py" training/replies "$ctxpro/auxiliary.en-pt.test_a,$ctxpro/formality.en-pt.devtest" ellipsis/ctxpro_train.json \
  "$ctxpro"/auxiliary.en-pt.{dev,devtest} "$ctxpro/formality.en-pt.dev" "$ctxpro"/formality.en-de.{dev,devtest} \
  "$ctxpro"/auxiliary.en-de.{dev,devtest}
translate --model enpt training/replies.en -o training/replies.pt
python "$here/replies.py" training/replies training/replies.pt
for part in help half items replies; do gtransformer prepare training/$part $part -s en -t pt --vocabulary enpt; done

# train NAME CONTEXT SEED START DATA MORE UPDATES
train() {
  local layers=$(($2 > 0 ? 2 : 0))
  OMP_NUM_THREADS=1 fairseq-train "$5/bin" --more-training-data "$6" --user-dir "$package" --task translation_doc -s en -t pt \
    --langs en,pt --doc-mode partial --arch gtransformer --sentence-model "$4" --encoder-ctxlayers $layers --decoder-ctxlayers $layers \
    --cross-ctxlayers $layers --gate-bias 0 --neutral-gates --positions sentence --instances disjoint --context-sentences "$2" \
    --autocast bfloat16 --cpu --optimizer fused_adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9 --lr 1e-3 \
    --lr-scheduler inverse_sqrt --warmup-updates 60 --warmup-init-lr 1e-7 --clip-norm 1.0 --doc-double-lr --lr-scale-pretrained 0.3 \
    --dropout 0 --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 --max-tokens 2048 --max-update "$7" --seed "$3" \
    --save-dir "$1" --no-epoch-checkpoints --save-interval-updates 100 --keep-interval-updates 4 --no-save-optimizer-state \
    --num-workers 1 --disable-validation
  local checkpoint=$1/checkpoint_last.pt
  [ "$8" = last ] || { gtransformer average "$1" --last 4 -o "$1/mean.pt" && checkpoint=$1/mean.pt; }
  gtransformer export help "$1.model" --prepared help --checkpoint "$checkpoint" --unkpen 1000
}
mkdir -p translations
python "$here/sample.py" ellipsis-test translations/ellipsis 0
python "$here/sample.py" formality-test translations/formality 1000 ellipsis/ctxpro_train.json formality/ctxpro_train.json
for seed in 1 2 3; do
  train a$seed 0 $seed enpt help/bin items/bin:items/bin 500 last
  train s$seed 0 $seed a$seed.model half/bin items/bin:items/bin:replies/bin 1200 mean
  train g$seed 2 $seed a$seed.model half/bin items/bin:items/bin:replies/bin 1200 mean
  for name in a$seed s$seed g$seed; do
    sentences=1 strategy=()
    [ $name = g$seed ] && sentences=3 strategy=(--strategy sequential --context-sentences 2)
    for kind in ellipsis formality; do
      translate --model $name.model "${strategy[@]}" translations/$kind.$sentences.en -o translations/$name.$kind
    done
    translate --model $name.model "${strategy[@]}" raw/libreoffice-en-pt/concatenated_en2pt_test_en.txt -o translations/$name.libre
  done
done
translate --model g1.model --strategy sequential --context-sentences 2 translations/ellipsis.other.en -o translations/w1.ellipsis
reference=raw/libreoffice-en-pt/concatenated_en2pt_test_pt.txt
python "$here/compare.py" translations "$reference" training > accuracy.json
