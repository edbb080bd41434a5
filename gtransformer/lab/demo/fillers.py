"""Sentences about people, weather and time that come between; none names a thing that "it" could stand for."""

from __future__ import annotations

from gtransformer.lab.demo.template import templates

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
