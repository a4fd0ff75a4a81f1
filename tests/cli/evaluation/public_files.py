"""Made-up files in the formats of public sets, each with one question that has evidence."""

from typing import Any

LOCOMO: list[dict[str, Any]] = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ana",
            "speaker_b": "Ben",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ana", "dia_id": "D1:1", "text": "Where did you buy the boat?"},
                {"speaker": "Ben", "dia_id": "D1:2", "text": "In Porto, last spring."},
                {"speaker": "Ben", "dia_id": "D1:3", "text": ""},
            ],
        },
        "qa": [
            {"question": "Where did Ben buy his boat?", "answer": "Porto", "category": 4, "evidence": ["D1:1; D1:2"]},
            {
                "question": "Where did Ana buy her boat?",
                "adversarial_answer": "Porto",
                "category": 5,
                "evidence": ["D1:2"],
            },
            {"question": "Does Ben like the sea?", "answer": "yes", "category": 3, "evidence": []},
        ],
    }
]
CONVERSATIONS: list[dict[str, Any]] = [
    {
        "conv": "c1",
        "turns": [
            {"id": 0, "actor": "user", "role": "user", "thread": "a", "seq": 0, "text": "I grow figs.", "at": None},
            {"id": 1, "actor": "assistant", "role": "assistant", "thread": "a", "seq": 1, "text": "Figs need sun."},
        ],
        "qs": [
            {"q": "What do I grow?", "ev": [0, 0], "cat": "information", "a": "figs"},
            {"q": "Where do I live?", "ev": [], "cat": "abstention"},
            {"q": "What do I sell?", "ev": [7], "cat": "information"},
        ],
    }
]
REALTALK: dict[str, Any] = {
    "name": {"speaker_1": "Ana", "speaker_2": "Ben"},
    "session_1_date_time": "29.12.2023, 00:51:12",
    "session_1": [
        {"clean_text": "I ran.", "speaker": "Ana", "date_time": "29.12.2023, 00:51:12", "dia_id": "D1:1"},
        {"clean_text": "In the rain?", "speaker": "Ben", "date_time": "29.12.2023, 00:51:31", "dia_id": "D1:2"},
    ],
    "events_session_1": {},
    "qa": [{"question": "When did Ana run?", "answer": 2023, "evidence": ["D1:1"], "category": 2}],
}
LONGMEMEVAL: list[dict[str, Any]] = [
    {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "Which lamp did I buy?",
        "answer": "a green one",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["late", "early"],
        "haystack_dates": ["2023/05/22 (Mon) 10:00", "2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [
            [{"role": "user", "content": "I bought a green lamp.", "has_answer": True}],
            [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello!"}],
        ],
        "answer_session_ids": ["late"],
    },
    {
        "question_id": "q2_abs",
        "question_type": "multi-session",
        "question": "Which car did I buy?",
        "answer": "not said",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["one"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [[{"role": "user", "content": "I like lamps."}]],
        "answer_session_ids": ["one"],
    },
]
BEAM_CHAT: list[dict[str, Any]] = [
    {
        "batch_number": 1,
        "turns": [
            [
                {"role": "user", "id": 0, "time_anchor": "March-15-2024", "content": "I plan a shop. ->-> 1,1"},
                {"role": "assistant", "id": 1, "content": "A shop needs a name."},
            ],
            [{"role": "user", "id": 2, "content": "It is called Lumen. ->-> 1,2"}],
        ],
    }
]
BEAM_QUESTIONS: dict[str, list[dict[str, Any]]] = {
    "abstention": [{"question": "Who is my landlord?", "ideal_response": "You did not mention a landlord."}],
    "knowledge_update": [
        {
            "question": "What is my shop called?",
            "answer": "Lumen",
            "source_chat_ids": {"original_info": [0], "updated_info": [2, 2]},
        }
    ],
    "summarization": [{"question": "What did I do?", "source_chat_ids": []}],
}
