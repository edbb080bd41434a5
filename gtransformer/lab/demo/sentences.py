"""The sentences of the demonstration's language: templates, and their English and German forms.

In both languages ``{P}`` is a slot; in German ``{P.acc}`` and ``{P.dat}`` select a case, ``{er}``,
``{Er}`` and ``{ihn}`` the pronoun of the topic's gender, and ``[kommst du|kommen Sie]`` has the
familiar and the polite form.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from gtransformer.lab.demo.words import PRONOUNS, Sense, Word

REGISTERS = ("du", "Sie")
_ALTERNATIVES = re.compile(r"\[([^|\]]*)\|([^|\]]*)\]")
_TOKEN = re.compile(r"\w+|[^\w\s]")

Slots = Mapping[str, Word | Sense]


@dataclass(frozen=True)
class Template:
    """One sentence pattern in both languages; a thing gets at most one template of a ``group``."""

    en: str
    de: str
    group: str = ""

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """Return the names of the slots, in English order, each once."""
        fields = [field for _, field, _, _ in string.Formatter().parse(self.en) if field]
        return tuple(dict.fromkeys(fields))

    @cached_property
    def pronoun(self) -> str:
        """``er`` or ``ihn`` if the German has the nominative or accusative pronoun of the topic,
        else empty."""
        found = re.search(r"\{([Ee]r|ihn)\}", self.de)
        return found[1].lower() if found else ""

    def english(self, slots: Slots) -> str:
        """Return the English sentence."""
        return _capital(self.en.format_map({name: word.en for name, word in slots.items()}))

    def german(self, slots: Slots, register: str, gender: str = "") -> str:
        """Return the German sentence for a reader addressed with ``register`` and a topic of
        ``gender``."""
        values: dict[str, object] = dict(slots)
        if self.pronoun:
            nominative, accusative = PRONOUNS[gender]
            values |= {"er": nominative, "Er": nominative.capitalize(), "ihn": accusative}
        text = self.de.format_map(values)
        return _capital(_ALTERNATIVES.sub(lambda found: found[1 + REGISTERS.index(register)], text))


def templates(text: str) -> tuple[Template, ...]:
    """Return templates, one per line: English, German and optionally the group, separated by two or
    more blanks."""
    result = []
    for line in text.strip().splitlines():
        if line.strip():
            result.append(Template(*re.split(r"\s{2,}", line.strip())))
    return tuple(result)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def count_tokens(sentence: str) -> int:
    """Return the number of words and punctuation marks; for this grammar the same as Moses
    tokens."""
    return len(_TOKEN.findall(sentence))


@dataclass(frozen=True)
class SettledSense:
    """A sense with the sentences that can determine it."""

    sense: Sense
    settings: tuple[Template, ...]


def _senses(text: str) -> dict[str, tuple[SettledSense, ...]]:
    """Return senses (English word, German word, gender, accusative and dative if they differ), each
    followed by its indented templates.
    """
    found: dict[str, list[tuple[Sense, list[Template]]]] = {}
    settings: list[Template] = []
    for line in text.strip().splitlines():
        if line.startswith(" "):
            settings.append(Template(*re.split(r"\s{2,}", line.strip())))
        else:
            word, german, gender, *oblique = line.split()
            settings = []
            found.setdefault(word, []).append(
                (Sense(f"the {word}", german, gender, *oblique), settings)
            )
    return {
        word: tuple(SettledSense(sense, tuple(own)) for sense, own in senses)
        for word, senses in found.items()
    }


# Greetings, and sentences that address the reader

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
Best wishes, also from {P}!          Viele Grüße, auch von {P.dat}!
""")

FAMILIAR = templates("""
Hi {X}!                              Hallo {X}!
Hey {X}!                             Hey {X}!
Dear {X},                            {X.acc}!
""")
POLITE = templates("""
Good morning, {X}!                   Guten Morgen, {X}!
Good evening, {X}!                   Guten Abend, {X}!
Dear {X},                            {X.acc}!
""")

# Introductions of a thing, and sentences about it with "it"

INTRODUCTIONS = templates("""
{P} bought {X}.                      {P} hat {X.acc} gekauft.
I bought {X} in {C}.                 Ich habe in {C} {X.acc} gekauft.
I got {X} from {P}.                  Ich habe von {P.dat} {X.acc} bekommen.
We now have {X}.                     Wir haben jetzt {X.acc}.
{P} gave me {X}.                     {P} hat mir {X.acc} geschenkt.
On {D} {P} brought {X}.              Am {D} hat {P} {X.acc} mitgebracht.
{P} ordered {X}.                     {P} hat {X.acc} bestellt.
{P} won {X}.                         {P} hat {X.acc} gewonnen.
{P} found {X} in {C}.                {P} hat in {C} {X.acc} gefunden.
{P} showed us {X}.                   {P} hat uns {X.acc} gezeigt.
{P} inherited {X}.                   {P} hat {X.acc} geerbt.
{P} borrowed {X}.                    {P} hat sich {X.acc} ausgeliehen.
""")

AS_SUBJECT = templates("""
It is very {A}.                      {Er} ist sehr {A}.
It was quite {A}.                    {Er} war ziemlich {A}.
It looks very {A}.                   {Er} sieht sehr {A} aus.
I think that it is {A}.              Ich glaube, dass {er} {A} ist.
Of course it is {A}.                 Natürlich ist {er} {A}.
Maybe it is {A}.                     Vielleicht ist {er} {A}.
Why is it so {A}?                    Warum ist {er} so {A}?
Is it really {A}?                    Ist {er} wirklich {A}?
{P} says that it is {S}.             {P} sagt, dass {er} {S} ist.
Unfortunately it is {S}.             Leider ist {er} {S}.
Now it is {S} again.                 Jetzt ist {er} wieder {S}.
It cost {N} euros.                   {Er} hat {N} Euro gekostet.             price
It belongs to {P}.                   {Er} gehört {P.dat}.                    owner
It comes from {C}.                   {Er} kommt aus {C}.                     origin
It is {L}.                           {Er} ist {L}.                           place
Is it still {L}?                     Ist {er} noch {L}?                      place
Yesterday it was {L}.                Gestern war {er} {L}.                   place
It has disappeared.                  {Er} ist verschwunden.                  place
{P} likes it.                        {Er} gefällt {P.dat}.                   liking
It reminds me of {P}.                {Er} erinnert mich an {P.acc}.
It is not for {P}.                   {Er} ist nicht für {P.acc}.             owner
It impressed {P}.                    {Er} hat {P.acc} beeindruckt.
""")

AS_OBJECT = templates("""
{P} wants to sell it.                {P} will {ihn} verkaufen.               plan
{P} wants to keep it.                {P} will {ihn} behalten.                plan
I would never sell it.               Ich würde {ihn} nie verkaufen.          plan
Nobody wants to buy it.              Niemand will {ihn} kaufen.              plan
I will bring it on {D}.              Ich bringe {ihn} am {D} mit.            plan
{P} needs it every day.              {P} braucht {ihn} jeden Tag.            use
We use it often.                     Wir benutzen {ihn} oft.                 use
I know that {P} needs it.            Ich weiß, dass {P} {ihn} braucht.       use
I showed it to {P}.                  Ich habe {ihn} {P.dat} gezeigt.
{P} photographed it.                 {P} hat {ihn} fotografiert.
{P} has not seen it yet.             {P} hat {ihn} noch nicht gesehen.
{P} finds it {A}.                    {P} findet {ihn} {A}.
Everyone admires it.                 Alle bewundern {ihn}.
{P} collected it on {D}.             {P} hat {ihn} am {D} abgeholt.
{P} sent it to {Q}.                  {P} hat {ihn} an {Q.acc} geschickt.     place
{P} forgot it in {C}.                {P} hat {ihn} in {C} vergessen.         place
We cannot find it.                   Wir können {ihn} nicht finden.          place
{P} is looking for it.               {P} sucht {ihn}.                        place
Maybe {P} hid it.                    Vielleicht hat {P} {ihn} versteckt.     place
{P} cleaned it {T}.                  {P} hat {ihn} {T} gereinigt.            state
Unfortunately {P} damaged it.        Leider hat {P} {ihn} beschädigt.        state
Does {P} still have it?              Hat {P} {ihn} noch?                     owner
""")

WITH_YOU = templates("""
Do you like it?                      Gefällt {er} [dir|Ihnen]?               liking
Do you need it?                      [Brauchst du|Brauchen Sie] {ihn}?
Have you seen it?                    [Hast du|Haben Sie] {ihn} gesehen?      place
I will show it to you on {D}.        Ich zeige {ihn} [dir|Ihnen] am {D}.     plan
You can have it on {D}.              [Du kannst|Sie können] {ihn} am {D} haben.    plan
""")

# Ambiguous nouns

AMBIGUOUS = _senses("""
bat Fledermaus f
    {P} saw a bat sleeping in the cave.        {P} hat in der Höhle eine Fledermaus schlafen sehen.
    At night {P} heard a bat flying.           Nachts hörte {P} eine Fledermaus fliegen.
bat Schläger m
    {P} hit the ball with a bat.               {P} hat den Ball mit einem Schläger getroffen.
    {P} needed a bat for the game.             {P} brauchte einen Schläger für das Spiel.
seal Robbe f
    On {D} a seal was swimming in the sea.     Am {D} schwamm eine Robbe im Meer.
    On the beach {P} saw a seal.               Am Strand hat {P} eine Robbe gesehen.
seal Siegel n
    {P} saw a seal on the document.            {P} hat auf der Urkunde ein Siegel gesehen.
    The king gave {P} a golden seal.           Der König hat {P.dat} ein goldenes Siegel gegeben.
letter Brief m
    The postman brought {P} a letter.          Der Briefträger hat {P.dat} einen Brief gebracht.
    {P} put a stamp on a letter.               {P} hat eine Briefmarke auf einen Brief geklebt.
letter Buchstabe m Buchstaben
    {P} says that a letter is missing here.    {P} sagt, dass hier ein Buchstabe fehlt.
    {P} wrote a letter on the board.           {P} hat einen Buchstaben an die Tafel geschrieben.
bank Bank f
    A bank lent {P} money.                     Eine Bank hat {P.dat} Geld geliehen.
    On {D} robbers attacked a bank.            Am {D} haben Räuber eine Bank überfallen.
bank Ufer n
    {P} rowed the boat to a steep bank.        {P} hat das Boot an ein steiles Ufer gerudert.
    In {C} the river has a green bank.         In {C} hat der Fluss ein grünes Ufer.
""")
"""Ambiguous nouns: their senses, and sentences that can determine each."""

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

# People, weather and time; none names a thing that "it" could stand for

FILLERS = templates("""
{P} is very {M} today.               {P} ist heute sehr {M}.
{P} is often {M}.                    {P} ist oft {M}.
{P} seems to be {M}.                 {P} scheint {M} zu sein.
I was {M} too.                       Ich war auch {M}.
{P} lives in {C}.                    {P} wohnt in {C}.
Does {P} still live in {C}?          Wohnt {P} noch in {C}?
{P} works in {C} now.                {P} arbeitet jetzt in {C}.
{P} is getting married in {J}.       {P} heiratet im {J}.
On {D} we will meet {P}.             Am {D} treffen wir {P.acc}.
{P} waited for {Q}.                  {P} hat auf {Q.acc} gewartet.
{P} laughed with {Q}.                {P} hat mit {Q.dat} gelacht.
I danced with {P}.                   Ich habe mit {P.dat} getanzt.
{P} and {Q} often argue.             {P} und {Q} streiten oft.
{P} called me {T}.                   {P} hat mich {T} angerufen.
{P} came late {T}.                   {P} ist {T} zu spät gekommen.
{P} did not come.                    {P} ist nicht gekommen.
{P} is never on time.                {P} ist nie pünktlich.
{P} had to work on {D}.              {P} musste am {D} arbeiten.
{P} fell asleep at once.             {P} ist sofort eingeschlafen.
{P} {V} very well.                   {P} {V} sehr gut.
{P} is learning {G}.                 {P} lernt {G}.
{P} speaks {G}.                      {P} spricht {G}.
{P} has {F} children.                {P} hat {F} Kinder.
{H} is {N} years old.                {H} ist {N} Jahre alt.
I was alone at home.                 Ich war allein zu Hause.
We slept very long.                  Wir haben sehr lange geschlafen.
We laughed a lot.                    Wir haben viel gelacht.
Then we went home.                   Dann sind wir nach Hause gegangen.
The children are already asleep.     Die Kinder schlafen schon.
Nobody was there.                    Niemand war da.
In {J} we will be in {C}.            Im {J} sind wir in {C}.
{P} helped {Q}.                      {P} hat {Q.dat} geholfen.
{P} visited {Q}.                     {P} hat {Q.acc} besucht.
{P} was {M}.                         {P} war {M}.
{P} got up early.                    {P} stand früh auf.
{P} laughed.                         {P} lachte.
{P} knows {Q}.                       {P} kennt {Q.acc}.
I miss {P}.                          Ich vermisse {P.acc}.
We are staying here.                 Wir bleiben hier.
I am fine.                           Mir geht es gut.
It is raining again.                 Es regnet wieder.
It snowed {T}.                       Es hat {T} geschneit.
It was very late.                    Es war sehr spät.
""")
