"""Greetings, which settle how the reader is addressed, and sentences that address the reader."""

from __future__ import annotations

from gtransformer.lab.demo.dice import Dice
from gtransformer.lab.demo.lexicon import MEN, SURNAMES, WOMEN, Word
from gtransformer.lab.demo.template import Template, templates

TO_THE_READER = templates("""
How are you?                         Wie geht es [dir|Ihnen]?
I hope you are well.                 Ich hoffe, es geht [dir|Ihnen] gut.
What are you doing today?            Was [machst du|machen Sie] heute?
When will you visit us?              Wann [besuchst du|besuchen Sie] uns?
Where do you work now?               Wo [arbeitest du|arbeiten Sie] jetzt?
Can you help me tomorrow?            [Kannst du|Können Sie] mir morgen helfen?
Do you remember {P}?                 [Erinnerst du dich|Erinnern Sie sich] an {P.acc}?
Have you seen {P}?                   [Hast du|Haben Sie] {P.acc} gesehen?
I often think of you.                Ich denke oft an [dich|Sie].
We miss you a lot.                   Wir vermissen [dich|Sie] sehr.
I will call you tomorrow.            Ich rufe [dich|Sie] morgen an.
On {D} I will visit you.             Am {D} besuche ich [dich|Sie].
{P} asked about you.                 {P} hat nach [dir|Ihnen] gefragt.
{P} wants to meet you.               {P} will [dich|Sie] treffen.
I want to thank you.                 Ich will [dir|Ihnen] danken.
I wish you good luck.                Ich wünsche [dir|Ihnen] viel Glück.
You know {P}.                        [Du kennst|Sie kennen] {P.acc}.
You were right.                      [Du hattest|Sie hatten] recht.
You are always welcome.              [Du bist|Sie sind] immer willkommen.
You wanted to call me.               [Du wolltest|Sie wollten] mich anrufen.
How is {Y}?                          Wie geht es {Y.dat}?
Is {Y} still in {C}?                 Ist {Y} noch in {C}?
I met {Y} on {D}.                    Ich habe {Y.acc} am {D} getroffen.
{Y} was here {T}.                    {Y} war {T} hier.
{P} knows {Y}.                       {P} kennt {Y.acc}.
{P} helped {Y}.                      {P} hat {Y.dat} geholfen.
Please write to me soon.             Bitte [schreib|schreiben Sie] mir bald.
Please come on {D}.                  Bitte [komm|kommen Sie] am {D}.
Do not forget us.                    [Vergiss|Vergessen Sie] uns nicht.
""")

CLOSINGS = templates("""
See you soon!                        Bis bald!
All the best!                        Alles Gute!
Best wishes from {C}!                Viele Grüße aus {C}!
""")

_FAMILIAR = templates("""
Hi {X}!                              Hallo {X}!
Hey {X}!                             Hey {X}!
Dear {X},                            {X.acc}!
""")
_POLITE = templates("""
Good morning, {X}!                   Guten Morgen, {X}!
Good evening, {X}!                   Guten Abend, {X}!
Dear {X},                            {X.acc}!
""")


def greeting(dice: Dice, register: str) -> tuple[Template, Word]:
    """A greeting and the person greeted: by first name for "du", by title and surname for "Sie".

    The person's accusative slot holds the whole salutation of a letter, whose German agrees with the person's sex.
    """
    woman = dice.chance(0.5)
    if register == "du":
        name = dice.choice(WOMEN if woman else MEN)
        return dice.choice(_FAMILIAR), Word(name, name, f"{'Liebe' if woman else 'Lieber'} {name}")
    surname = dice.choice(SURNAMES)
    title_en, title_de, dear = ("Mrs", "Frau", "Sehr geehrte") if woman else ("Mr", "Herr", "Sehr geehrter")
    return dice.choice(_POLITE), Word(f"{title_en} {surname}", f"{title_de} {surname}", f"{dear} {title_de} {surname}")
