"""Ambiguous English nouns: sentences that settle the sense, and sentences that then use the bare noun."""

from __future__ import annotations

from dataclasses import dataclass

from gtransformer.lab.demo.lexicon import Sense
from gtransformer.lab.demo.template import Template, templates


@dataclass(frozen=True)
class SettledSense:
    """A sense with the sentences that can settle it."""

    sense: Sense
    settings: tuple[Template, ...]


def _settled(en: str, de: str, gender: str, settings: str, oblique: str = "") -> SettledSense:
    return SettledSense(Sense(f"the {en}", de, gender, oblique), templates(settings))


AMBIGUOUS: dict[str, tuple[SettledSense, SettledSense]] = {
    "bat": (
        _settled(
            "bat",
            "Fledermaus",
            "f",
            """
            A bat was sleeping in the cave.          Eine Fledermaus schlief in der Höhle.
            At night we heard a bat flying.          Nachts hörten wir eine Fledermaus fliegen.
        """,
        ),
        _settled(
            "bat",
            "Schläger",
            "m",
            """
            {P} hit the ball with a bat.             {P} hat den Ball mit einem Schläger getroffen.
            {P} needed a bat for the game.           {P} brauchte einen Schläger für das Spiel.
        """,
        ),
    ),
    "seal": (
        _settled(
            "seal",
            "Robbe",
            "f",
            """
            A seal was swimming in the sea.          Eine Robbe schwamm im Meer.
            On the beach we saw a seal.              Am Strand haben wir eine Robbe gesehen.
        """,
        ),
        _settled(
            "seal",
            "Siegel",
            "n",
            """
            There was a seal on the document.        Auf der Urkunde war ein Siegel.
            The king had a golden seal.              Der König hatte ein goldenes Siegel.
        """,
        ),
    ),
    "letter": (
        _settled(
            "letter",
            "Brief",
            "m",
            """
            The postman brought a letter.            Der Briefträger hat einen Brief gebracht.
            {P} put a stamp on a letter.             {P} hat eine Briefmarke auf einen Brief geklebt.
        """,
        ),
        _settled(
            "letter",
            "Buchstabe",
            "m",
            """
            In this word a letter is missing.        In diesem Wort fehlt ein Buchstabe.
            The teacher wrote a letter on the board.    Der Lehrer hat einen Buchstaben an die Tafel geschrieben.
        """,
            "Buchstaben",
        ),
    ),
    "bank": (
        _settled(
            "bank",
            "Bank",
            "f",
            """
            A bank lent us money.                    Eine Bank hat uns Geld geliehen.
            Robbers attacked a bank.                 Räuber haben eine Bank überfallen.
        """,
        ),
        _settled(
            "bank",
            "Ufer",
            "n",
            """
            The boat came to a steep bank.           Das Boot kam an ein steiles Ufer.
            The river has a green bank.              Der Fluss hat ein grünes Ufer.
        """,
        ),
    ),
}

USES = templates("""
I still remember {X}.                Ich erinnere mich noch an {X.acc}.
{P} photographed {X}.                {P} hat {X.acc} fotografiert.
Yesterday we saw {X} again.          Gestern haben wir {X.acc} wiedergesehen.
{P} found {X} {B}.                   {P} fand {X.acc} {B}.                   look
We talked about {X}.                 Wir haben über {X.acc} gesprochen.
I dreamed of {X}.                    Ich habe {X.von} geträumt.
{P} drew {X}.                        {P} hat {X.acc} gezeichnet.
{P} liked {X}.                       {X} hat {P.dat} gefallen.
{X} looked {B}.                      {X} sah {B} aus.                        look
Where exactly was {X}?               Wo genau war {X}?
Nobody else saw {X}.                 Niemand sonst hat {X.acc} gesehen.
{P} asked about {X}.                 {P} hat nach {X.dat} gefragt.
{P} is thinking of {X}.              {P} denkt an {X.acc}.
I want to show you {X}.              Ich will [dir|Ihnen] {X.acc} zeigen.
Do you remember {X}?                 [Erinnerst du dich|Erinnern Sie sich] an {X.acc}?
""")
