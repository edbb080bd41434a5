"""Sentences that introduce a thing, and sentences that go on about it with "it"."""

from __future__ import annotations

from gtransformer.lab.demo.template import templates

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
I will show it to you.               Ich zeige {ihn} [dir|Ihnen].            plan
You can have it on {D}.              [Du kannst|Sie können] {ihn} am {D} haben.    plan
""")
