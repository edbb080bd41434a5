"""Names of languages: files keep what the user typed, libraries get two letters (ISO 639-1)."""

from __future__ import annotations

# NLLB-200's languages (ISO 639-3) that have a name in ISO 639-1, or are what is mostly meant by one
# (arb: ar).
_NLLB = """
    afr:af aka:ak als:sq amh:am arb:ar asm:as ayr:ay azj:az bak:ba bam:bm bel:be ben:bn bod:bo
    bos:bs bul:bg cat:ca ces:cs cym:cy dan:da deu:de dzo:dz ell:el eng:en epo:eo est:et eus:eu
    ewe:ee fao:fo fij:fj fin:fi fra:fr fuv:ff gaz:om gla:gd gle:ga glg:gl grn:gn guj:gu hat:ht
    hau:ha heb:he hin:hi hrv:hr hun:hu hye:hy ibo:ig ind:id isl:is ita:it jav:jv jpn:ja kan:kn
    kas:ks kat:ka kaz:kk khk:mn khm:km kik:ki kin:rw kir:ky kmr:ku knc:kr kon:kg kor:ko lao:lo
    lim:li lin:ln lit:lt ltz:lb lug:lg lvs:lv mal:ml mar:mr mkd:mk mlt:mt mri:mi mya:my nld:nl
    nno:nn nob:nb npi:ne nya:ny oci:oc ory:or pan:pa pbt:ps pes:fa plt:mg pol:pl por:pt quy:qu
    ron:ro run:rn rus:ru sag:sg san:sa sin:si slk:sk slv:sl smo:sm sna:sn snd:sd som:so sot:st
    spa:es srd:sc srp:sr ssw:ss sun:su swe:sv swh:sw tam:ta tat:tt tel:te tgk:tg tgl:tl tha:th
    tir:ti tsn:tn tso:ts tuk:tk tur:tr twi:tw uig:ug ukr:uk urd:ur uzn:uz vie:vi wol:wo xho:xh
    ydd:yi yor:yo zho:zh zsm:ms zul:zu
"""
ISO_639_1 = dict(pair.split(":") for pair in _NLLB.split())


def two_letters(lang: str) -> str:
    """Return a language's name in ISO 639-1 where it has one, for libraries that know no other.

    ``pt`` for ``pt_BR`` and ``pt-BR``, ``ja`` for ``jpn``, ``jpn_Jpan`` and ``ja_XX``.
    """
    name = lang.replace("-", "_").partition("_")[0]
    return ISO_639_1.get(name, "zh" if name == "cmn" else name)  # cmn: OPUS-MT's Mandarin
