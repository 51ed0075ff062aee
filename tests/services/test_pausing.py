"""Which phrases end a conversation for now, and which only look like it."""

from __future__ import annotations

import pytest

from cortext.config.schema import Settings
from cortext.model.session import Session
from cortext.services.workspace.pausing import LONGEST, react_to_prompt, saved, wants_to_pause
from cortext.testing.table import every_row

PAUSE = """
let's stop
Let's stop here.
Let's stop there for today!
let’s stop for now
lets stop now
OK, let's stop here for today.
Alright, let's pause here
Let's leave it there.
Let's leave it here for now
Let's call it a day
Let's call it a night.
let's wrap up
Let's wrap this up for today.
Let's take a break.
Let's take a short break
Let's pick this up later
Let's pick this up tomorrow.
Let's continue tomorrow
Let's continue this later.
that's enough for now
That's enough for today, thanks!
That's all for now.
That's it for today
OK that's it for tonight.
That is enough for today.
I need to go
I need to go now.
I have to go
I've got to go
Sorry, I gotta run.
Gotta go!
I must go now
I should get going
Thanks! I have to run.
Thanks, I need to leave now.
I need to go to bed
I have to go to a meeting.
I need to sleep
I'm done for today.
I am done for now
I'm off for today, bye!
I'm heading out
Talk to you later
See you tomorrow!
Good night
Great, thanks. Good night!
Enough for today.
Pause here please
Stop for today
Let's stop here, thanks
That answers it. Let's stop here.
We should stop here for today
That's enough
That's enough, thanks.
bye
Thanks, bye!
Perfect. Goodbye 👋
That's all
That's all, thank you very much
OK - let's stop here
"""

# Two or more in each of the other languages.
PAUSE_ELSEWHERE = """
Hören wir hier auf.
Das reicht für heute, danke!
Lass uns morgen weitermachen
Ich muss jetzt los.
Gut, machen wir Schluss
Tschüß!
Bis morgen
On s'arrête là.
Ça suffit pour aujourd’hui
Merci, c'est tout
Je dois y aller
On continue demain !
À demain !
Au revoir
Lo dejamos aquí
Basta por hoy
Eso es todo, gracias
Tengo que irme ya.
Seguimos mañana
¡Hasta luego!
Adiós
Fermiamoci qui
Per oggi basta
È tutto, grazie
Devo andare adesso
Riprendiamo domani.
A domani, ciao
Vamos parar por aqui
Chega por hoje
É tudo, obrigado
Tenho que ir agora
Continuamos amanhã
Até amanhã!
Laten we hier stoppen
Dat is genoeg voor vandaag
Ik moet nu gaan
Morgen verder
Bedankt, tot morgen!
Skończmy na dziś
To wszystko, dziękuję
Muszę już iść
Dokończymy jutro
Do widzenia!
Давай остановимся на этом
На сегодня хватит.
Мне пора
Продолжим завтра
Спасибо, пока!
До свидания
今天就到这里吧
我们先到这里。
够了，谢谢
我得走了
明天再继续吧
好的，再见！
今日はここまでにしましょう
もう十分です
以上です、ありがとうございました
そろそろ行かなきゃ
続きは明日にします
また明日！
おやすみなさい
"""

WORK = """
let's stop the server
Let's stop the container and start it again
let's stop using GraphQL
Let's stop here and think about the schema first, then write the migration
let's stop when the queue is empty
Let's pause the deployment
let's pause the video at 0:10
Let's leave it as a string
Let's leave it there and rename the other one instead
let's wrap it up in a function
Let's wrap this up in a try block
let's wrap up the errors with context
let's take a break statement as the example
Let's pick this up from the environment
Let's continue
Let's continue with the tests
Let's go
let's go on
stop words
stop
Stop!
stop it
Stop here documents from being expanded
stop this container
remove stop words
What are stop words in search?
pause
pause the job
Should we stop here?
Is that enough for now?
that's enough memory for now?
That's enough memory for now
that's it
that's all the output
That's it! The bug is in the parser.
that's all for now, but next explain the lock
I need to go over the plan
I need to go to production with this
I need to go to the settings page
I have to go through the list
I have to run the tests
I need to run this now
We need to go faster
We have to go with REST
I need to leave it in
I need to leave now() in the query
I need to stop the server
We must stop here in the debugger
I must stop polling
I need to sleep 5 seconds between calls
I'm done
I'm done with step two
I am done with the tests for now, what is next?
I'm out of ideas
I'm off by one
I'm leaving the default as it is
See you later in the loop variable
the message says "see you later"
print("good night")
goodnight = True
Translate: good night
How do I say good night in Japanese?
enough for now we have 3 GB
Write a story that ends with: Let's stop here.
He said "I have to go"
What does "let's call it a day" mean?
So I need to run the tests
So we have to go through the list
That's enough, rename the rest later on
Super
Great, thanks
rename the buttons to hello, bye
Add the words hello, goodbye
bye.py fails
bye bye birdie is the fixture's name
"""

# The same words in work, in the other languages.
WORK_ELSEWHERE = """
Hören wir hier auf das Signal
Das reicht als Test nicht
Lass uns morgen weitermachen als Titel nehmen
Ich muss jetzt los auf den Server kopieren
Machen wir Schluss mit den Globals
bis morgen muss der Test laufen
Übersetze: Tschüss
Gut
On s'arrête là où le test échoue
Ça suffit comme exemple, passe au suivant
C'est tout ce que dit le log
Je dois y aller étape par étape
À demain dans le calendrier
traduis « au revoir »
Merci
Lo dejamos aquí como constante
Basta con un índice
Eso es todo lo que imprime
Tengo que ir paso a paso
Seguimos con los tests
hasta luego del bucle
Gracias
Fermiamoci qui nel debugger
Basta così poco per rompere il test
È tutto nel file di log
Devo andare avanti con il refactoring
a domani corrisponde il giorno dopo
Grazie
Vamos parar o servidor
Chega de exceções no código
É tudo o que aparece
Tenho que ir para a próxima função
até logo no texto do botão
Laten we de server stoppen
Dat is genoeg geheugen
Ik moet gaan debuggen
tot morgen loopt de job
Bedankt
Skończmy tę funkcję
To wszystko trzeba przetestować
Muszę iść krok po kroku
do jutra musi działać
Давай остановимся на этом варианте и напишем тест
Хватит ли памяти
Мне пора переписать парсер
пока тест не пройдёт, повторяй
Спасибо
переведи слово «пока»
到这里为止的代码有问题，改一下
够了以后再删除缓存
我得走一遍流程
再见面的时间怎么存储
停止服务器
谢谢
ここまでのコードを直して
十分なメモリがあるか調べて
行かなきゃいけない関数を探して
明日の日付を返す
以上の値を除外する
ありがとう
また明日の分も集計して
"""

CODE = [
    "```python\nwhile True:\n    pass\n# let's stop here\n```",
    "def f():\n    # that's enough for now\n    return 1",
    "$ systemctl stop nginx\n$ echo let's stop here",
    "> I need to go",
    "The log says:\n\nworker: I need to go\nworker: let's stop",
    "/workspace.brainstorm let's stop here",
    "x" * LONGEST + " Let's stop here.",
    "First explain the index. Then the lock. " * 12 + "That's enough for now.",
    "",
    "   \n",
    "?",
    "Let's stop here?",
]


def _phrases(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


@pytest.mark.req("SESS-005d")
def test_the_tables_have_their_intended_size() -> None:
    for phrases in (PAUSE_ELSEWHERE, WORK_ELSEWHERE, WORK):
        assert len(set(_phrases(phrases))) >= 60
    assert len(set(_phrases(PAUSE))) >= 50


@pytest.mark.req("SESS-005d")
@every_row("text", _phrases(PAUSE + PAUSE_ELSEWHERE))
def test_a_goodbye_is_recognised(text: str) -> None:
    for form in (text, text.lower(), text.upper(), f"  {text}\n", f"Makes sense.\n{text}"):
        assert wants_to_pause(form), form


@pytest.mark.req("SESS-005d")
@every_row("text", [*_phrases(WORK + WORK_ELSEWHERE), *CODE])
def test_work_is_not_mistaken_for_a_goodbye(text: str) -> None:
    assert not wants_to_pause(text)


@pytest.mark.req("SESS-005d")
@pytest.mark.parametrize("text", ["Vi slutar här.", "Görüşürüz !", "skončíme", "오늘은 여기까지", "VI SES"])
def test_other_languages_work_through_the_setting(text: str) -> None:
    more = "vi slutar här, görüşürüz , skončíme,오늘은 여기까지, vi ses,,"
    assert not wants_to_pause(text)
    assert wants_to_pause(text, more)


@pytest.mark.req("SESS-005d")
@pytest.mark.parametrize("text", ["vi ses i filen, fortsätt", "vad betyder vi ses?", "ordet navi ses"])
def test_phrases_of_the_setting_match_whole_words_at_the_end(text: str) -> None:
    assert not wants_to_pause(text, "vi ses")


def _session(count: int = 4, **extra: object) -> Session:
    return Session(id="001-plan-x", title="The plan", message_count=count, extra=dict(extra))


@pytest.mark.req("SESS-005d")
def test_the_model_is_told_what_to_tell_the_user() -> None:
    reaction = react_to_prompt("let's stop here", _session(), Settings())
    assert '"The plan" is saved' in reaction.context and "/workspace.resume" in reaction.context
    assert reaction.change is not None and reaction.change.extra == {"pause_after_answer": True}


@pytest.mark.req("SESS-005d")
def test_a_refused_offer_is_repeated_only_after_much_new_text() -> None:
    session = _session(40)
    offered = react_to_prompt("go on", session, Settings())
    assert "whether to save" in offered.context and offered.change is not None
    session.extra |= offered.change.extra or {}
    assert react_to_prompt("go on", session, Settings()) == ("", None), "asked once"
    for no in ("no", "No.", "nope", "not now", "no thanks", "No, thank you!", "later", "don't save", "skip it"):
        change = react_to_prompt(no, session, Settings()).change
        assert change is not None and change.extra == {"save_declined": True}, no
    for other in ("no, use the other index", "later versions of it", "yes", "don't drop the table"):
        assert react_to_prompt(other, session, Settings()).change is None, other
    session.extra |= {"save_declined": True}
    session.message_count = 400
    assert react_to_prompt("go on", session, Settings()) == ("", None)
    session.extra |= saved(session).extra or {}
    assert react_to_prompt("go on", session, Settings()).context == ""
    session.message_count = 440
    assert "whether to save" in react_to_prompt("go on", session, Settings()).context
