"""The probe: a prompt without any user's data. It tells, after an unusable answer, whether the model works at all."""

from typing import Annotated

from app.domain.reflection.model_usage import CheckedAnswer
from app.ports import Prompt
from app.prompts import DATA_RULE, AnswerPart, as_data, bound_number

VERSION = "probe.v3"
MAX_TOKENS = 60
NUMBER = 7
RULES = f"""Task: {VERSION}
You show that you can answer. {DATA_RULE}
Answer with the question's number, in the shape asked for, and nothing else. If the number were 3: {{"number": 3}}"""


class Answer(AnswerPart):
    """The number."""

    number: Annotated[int, bound_number(9)]


PROBE: Prompt[Answer] = Prompt(VERSION, RULES, as_data({"number": NUMBER}), Answer, MAX_TOKENS)


def read_probe(answer: Answer) -> CheckedAnswer[int]:
    """Check the answer. The value is the number if it is the right one."""
    return CheckedAnswer(NUMBER) if answer.number == NUMBER else CheckedAnswer(rule="wrong_number")
