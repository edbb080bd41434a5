#!/usr/bin/env bash
# Download News Commentary v11, English to German, with newstest2015 (dev) and newstest2016 (test), as in Maruf et al. (2019).
# scripts/get_news.sh writes data/news, or $DATA/news. Then: scripts/run_randinit.sh news
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

home=https://raw.githubusercontent.com/sameenmaruf/selective-attn/master/data/NC-2016
corpus="${DATA:-$ROOT/data}/news"
raw="$corpus.download"

ensure_setup
mkdir -p "$raw"
for split in train dev test; do
    for lang in en de; do
        name="concatenated_en2de_${split}_$lang.txt"
        curl --fail --location --retry 4 --output "$raw/$name.part" "$home/$name"
        LC_ALL=C sed 's/[[:space:]]*$//' "$raw/$name.part" >"$raw/$name"
    done
done

for split in train dev test; do
    (run_python -m gtransformer convert files "$corpus" --overwrite --split "$split" --source-lang en --target-lang de \
        --input "$raw/concatenated_en2de_${split}_en.txt" "$raw/concatenated_en2de_${split}_de.txt")
done
rm -r "$raw"
# No checksums of these files are known. Keep these, to compare a later download.
(cd "$corpus" && sha256sum concatenated_en2de_*)
