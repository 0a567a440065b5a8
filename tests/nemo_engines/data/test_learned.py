"""What each engine's training would learn of rows, by its own tokenizer, templates and trainer."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests import engines

PROGRAM = Path(__file__).with_name("learned_program.py")
pytestmark = pytest.mark.slow

END = "<|im_end|>"
MARKED = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }}<|im_end|>"
    "{% endgeneration %}"
    "{% else %}{{ message['content'] }}<|im_end|>{% endif %}\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WITH_TOOLS = (
    "{% if tools %}<|im_start|>tools {{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] %}{{ message['content'] }}{% endif %}"
    "{% for call in message['tool_calls'] or [] %}call {{ call['function']['name'] }} {{ ARGUMENTS }}"
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
AS_JSON = WITH_TOOLS.replace("ARGUMENTS", "call['function']['arguments'] | tojson")
AS_TEXT = WITH_TOOLS.replace("ARGUMENTS", "call['function']['arguments']")
THINKING = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['role'] == 'assistant' and loop.last %}<think>\n\n</think>\n{% endif %}"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
KNOWN_ROLES = (
    "{% for message in messages %}{% if message['role'] in ['user', 'assistant'] %}<|im_start|>"
    "{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

CLOSED_LAST = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nDefault.<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "{% if loop.last %}<|endoftext|>{% else %}<|im_end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CLOSED_BY_NEXT = (
    "{% for message in messages %}<|im_{{ 'start' if message['role'] == 'user' else 'end' }}|>"
    "{{ message['content'] }}{% endfor %}{% if add_generation_prompt %}<|im_end|>{% endif %}"
)
FORGETTING = (
    "{% for message in messages if message['content'] %}<|im_start|>{{ message['role'] }}\n"
    "{% if loop.last %}{{ message['content'] }}{% else %}"
    "{{ message['content'].split('</think>')[-1] }}<|im_end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""As some families do: thoughts of earlier answers are left out, as empty messages are, and the last answer
has no end."""
DATED = (
    "<|im_start|>{{ strftime_now('%d %b %Y') }}<|im_end|>\n{% for message in messages %}<|im_start|>"
    "{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class Learner:
    """Asks an engine's interpreter what would be learned."""

    def __init__(self, engine: str, folder: Path) -> None:
        self.engine = engine
        self._folder = folder
        self._requests: list[dict[str, Any]] = []

    def model(self, name: str, template: str) -> str:
        """The tiny model with another chat template."""
        made = self._folder / name
        if not made.exists():
            shutil.copytree(engines.tiny_model(), made)
            (made / "chat_template.jinja").write_text(template)
        return str(made)

    def with_start(self) -> str:
        """The tiny model, and its tokenizer puts a token before any text and one behind it."""
        made = Path(self.model("with-start", MARKED))
        file = made / "tokenizer.json"
        start, end = (
            {"SpecialToken": {"id": token, "type_id": 0}} for token in ("<|im_start|>", "<|im_end|>")
        )
        around = {
            "type": "TemplateProcessing",
            "single": [start, {"Sequence": {"id": "A", "type_id": 0}}, end],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {
                token: {"id": token, "ids": [number], "tokens": [token]}
                for number, token in ((1, "<|im_start|>"), (2, "<|im_end|>"))
            },
        }
        file.write_text(json.dumps({**json.loads(file.read_text()), "post_processor": around}))
        config = made / "tokenizer_config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "bos_token": "<|im_start|>"}))
        return str(made)

    def with_pad_as_end(self, template: str) -> str:
        """The same, and its pad token is the token that ends a text."""
        made = Path(self.model("pad-is-end", template))
        config = made / "tokenizer_config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "pad_token": END}))
        return str(made)

    def ask(self, template: str, lines: list[Any], *, trainer: bool = False, **given: Any) -> int:
        """Put a request down; the number of its answer."""
        number = len(self._requests)
        file = self._folder / f"rows-{number}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        name = f"model-{[*TEMPLATES.values()].index(template)}"
        base = {
            "engine": self.engine,
            "method": "sft",
            "dataset": str(file),
            "output": "o",
            "max_seq_length": 512,
        }
        spec = {**base, "model": self.model(name, template), "data": {"shuffle": False}, **given}
        self._requests.append({"spec": spec, "trainer": trainer})
        return number

    def answers(self) -> list[dict[str, Any]]:
        """What the engine says to all of them."""
        asked = self._folder / "requests.json"
        asked.write_text(json.dumps(self._requests))
        argv = [str(engines.engine_python(self.engine)), str(PROGRAM), str(asked), str(self._folder / "work")]
        done = subprocess.run(
            argv, env=engines.engine_environ(), capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr[-2000:]
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found


TEMPLATES = {
    "marked": MARKED,
    "as_json": AS_JSON,
    "as_text": AS_TEXT,
    "thinking": THINKING,
    "known_roles": KNOWN_ROLES,
    "closed_last": CLOSED_LAST,
    "closed_by_next": CLOSED_BY_NEXT,
    "dated": DATED,
    "forgetting": FORGETTING,
}


def said(role: str, content: str | None, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def call(name: str, arguments: object) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(name: str, field: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {field: {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


CALLS = [
    {
        "tools": [tool("weather", "city")],
        "messages": [
            said("user", "town 3?"),
            said("assistant", None, tool_calls=[call("weather", {"city": "town 3", "at": None})]),
            said("tool", "12", tool_call_id="c1"),
            said("assistant", "12"),
        ],
    },
    {
        "tools": [tool("add", "a")],
        "messages": [
            said("user", "4 + 5?"),
            said("assistant", None, tool_calls=[call("add", {"a": 4, "b": "5"})]),
        ],
    },
    {"messages": [said("user", "hello"), said("assistant", "hi")]},
]
WEIGHTED = [
    {
        "messages": [
            said("user", f"{number} + 1?"),
            said("assistant", "BAD", weight=0),
            said("user", "again"),
            said("assistant", "GOOD", weight=1),
        ]
    }
    for number in range(2)
]


def as_texts(rows: list[Any]) -> list[Any]:
    """The same rows with arguments as the OpenAI API writes them."""
    made: list[Any] = json.loads(json.dumps(rows))
    for row in made:
        for message in row["messages"]:
            for one in message.get("tool_calls", []):
                one["function"]["arguments"] = json.dumps(one["function"]["arguments"])
    return made


def texts(answer: dict[str, Any], mark: str | None = None) -> list[str]:
    """The text of each row, or the parts with one mark."""
    assert "refused" not in answer, answer
    return [
        "".join(part["text"] for part in row["parts"] if mark in (None, part["mark"]))
        for row in answer["rows"]
    ]


@pytest.mark.parametrize("engine", ["trl", "unsloth", "automodel"])
def test_an_engine_learns_exactly_what_the_rows_say(engine: str, tmp_path: Path) -> None:
    """One process, since loading the libraries takes longest."""
    learner = Learner(engine, tmp_path)
    spelled = [
        learner.ask(template, rows, trainer=template == AS_JSON)
        for template in (AS_JSON, AS_TEXT)
        for rows in (CALLS, as_texts(CALLS))
    ]
    weighted = [learner.ask(template, WEIGHTED, trainer=True) for template in (MARKED, THINKING, KNOWN_ROLES)]
    same = learner.with_pad_as_end(MARKED)
    two = [{"text": "a text"}, {"text": "a longer text"}]
    pad_is_end = learner.ask(MARKED, two, trainer=True, model=same, batch={"per_device": 2})
    completed = learner.ask(MARKED, [{"prompt": "1 + 1 = ", "completion": "2"}], trainer=True, model=same)
    cut = learner.ask(
        MARKED, [{"text": "word " * 60}, {"prompt": "word " * 60, "completion": "x"}][:1], max_seq_length=16
    )
    gone = learner.ask(
        MARKED,
        [{"prompt": "a", "completion": "b"}, {"prompt": "word " * 60, "completion": "x"}],
        max_seq_length=16,
    )
    roles = learner.ask(
        KNOWN_ROLES, [CALLS[2], {"messages": [said("developer", "Be kind."), *CALLS[2]["messages"]]}]
    )
    thoughts = learner.ask(
        MARKED, [{"messages": [said("user", "a"), said("assistant", "b", reasoning_content="c")]}]
    )
    tools = learner.ask(MARKED, [CALLS[0]])
    forgotten = learner.ask(FORGETTING, [TALK[0], THOUGHTFUL])
    found = learner.answers()

    for number in spelled:
        first, second, third = texts(found[number])
        assert 'call weather {"city": "town 3", "at": null}' in first
        assert 'call add {"a": 4, "b": "5"}' in second
        assert '"city"' not in second
        assert "tools" not in third
        assert '"a"' not in first
        assert "\\" not in first + second
        assert "None" not in first + second + third
        assert found[number]["training"]["unused_keys"] == {}
    for number in weighted:
        for text, learned in zip(texts(found[number]), texts(found[number], "learned"), strict=True):
            assert "BAD" in text
            assert "BAD" not in learned
            assert f"GOOD{END}" in learned
    for number in (*weighted, pad_is_end, completed, spelled[0], spelled[1]):
        shown = zip(texts(found[number]), texts(found[number], "learned"), strict=True)
        for (text, learned), (whole, marked) in zip(
            sorted(found[number]["batches"]), sorted(shown), strict=True
        ):
            if engine != "automodel":
                assert (whole, marked) == (text, learned)
            else:  # its rows are shifted: the last token is not read, and the first not learned
                assert whole.startswith(text)
                assert marked.endswith(learned)
    assert all(text.endswith(f"text{END}") for text in texts(found[pad_is_end], "learned"))
    assert texts(found[completed], "learned") == [f" 2{END}"]
    assert found[cut]["training"]["shortened_lines"] == [1]
    assert found[cut]["training"]["tokens_cut"] == found[cut]["rows"][0]["tokens"] - 16
    assert [part["mark"] for part in found[cut]["rows"][0]["parts"]] == ["learned", "cut"]
    assert found[gone]["training"]["left_out_lines"] == [2]
    assert found[gone]["training"]["rows"] == 2
    where = [
        f"rows-{number}.jsonl, line {line}: " for number, line in ((roles, 2), (thoughts, 1), (tools, 1))
    ]
    assert (
        f"{where[0]}the model's chat template leaves out message 0 (role 'developer')"
        in found[roles]["refused"]
    )
    assert (
        f"{where[1]}the model's chat template leaves out 'reasoning_content' of" in found[thoughts]["refused"]
    )
    assert f"{where[2]}the model's chat template leaves out 'tool" in found[tools]["refused"]
    assert found[forgotten]["training"]["unwritten"] == [
        {"text": "assistant: content in <think>", "times": 2, "lines": [2]},
        {"text": "system: message without text", "times": 1, "lines": [2]},
        {"text": "user: name", "times": 1, "lines": [2]},
    ]
    assert found[forgotten]["training"]["without_end_lines"] == [1, 2]
    for number in (*spelled, completed):
        assert found[number]["training"]["unwritten"] == []
        assert found[number]["training"]["without_end_lines"] == []


TALK = [
    {
        "messages": [
            said("user", "one?"),
            said("assistant", "FIRST"),
            said("user", "two?"),
            said("assistant", "SECOND"),
        ]
    }
]
THOUGHTFUL = {
    "messages": [
        said("system", ""),
        said("user", "1", name="Bob"),
        said("assistant", "<think>1</think>2"),
        said("user", "3"),
        said("assistant", "<think>3</think>4"),
        said("user", "5"),
        said("assistant", "<think>5</think>6"),
    ]
}
WRITTEN = {
    MARKED: f"FIRST{END}SECOND{END}",
    THINKING: f"FIRST{END}\n<think>\n\n</think>\nSECOND{END}\n",
    CLOSED_LAST: f"FIRST{END}SECOND<|endoftext|>",
    CLOSED_BY_NEXT: "FIRST<|im_start|>SECOND",
    DATED: f"FIRST{END}\nSECOND{END}\n",
}
"""What the assistant writes, and not what it is asked with nor the head of what follows."""


@pytest.mark.parametrize("engine", ["trl", "automodel"])
def test_only_what_the_assistant_writes_is_learned_by_whatever_template(engine: str, tmp_path: Path) -> None:
    learner = Learner(engine, tmp_path)
    data = {"shuffle": False, "assistant_only_loss": True}
    talks = {learner.ask(template, TALK, data=data): template for template in WRITTEN}
    greeting = [{"messages": [said("assistant", "HELLO"), *TALK[0]["messages"]]}]
    greeted = learner.ask(CLOSED_LAST, greeting, data=data)
    dated = learner.ask(DATED, TALK)
    lines = [{"text": "<|im_start|>ready"}, {"text": "bare"}, {"text": f"<|im_start|>ended{END}\n"}]
    started = learner.ask(MARKED, lines, model=learner.with_start())
    found = learner.answers()
    for number, template in talks.items():
        assert texts(found[number], "learned") == [WRITTEN[template]]
    assert texts(found[greeted], "learned") == [f"HELLO{END}FIRST{END}SECOND<|endoftext|>"]
    # whatever day it is: a training that goes on tomorrow has the same rows
    assert texts(found[dated])[0].startswith("<|im_start|>26 Jul 2024<|im_end|>")
    assert [text.strip() for text in texts(found[started])] == [
        f"<|im_start|>ready{END}",
        f"<|im_start|>bare{END}",
        f"<|im_start|>ended{END}\n{END}",
    ]


def test_preferences_are_trained_on_once_and_with_their_tools(tmp_path: Path) -> None:
    learner = Learner("trl", tmp_path)
    asked, good, bad = said("user", "2 + 2?"), said("assistant", "4"), said("assistant", "5")
    shapes = [
        {"prompt": "2 + 2?", "chosen": [asked, good], "rejected": [asked, bad]},
        {"chosen": [asked, good], "rejected": [asked, bad]},
        {"prompt": [asked], "chosen": [asked, good], "rejected": [asked, bad]},
    ]
    same = [learner.ask(MARKED, [shape], method="dpo", trainer=True) for shape in shapes]
    called = said("assistant", None, tool_calls=[call("add", '{"a": 2}')])
    row = {"prompt": [asked], "chosen": [called], "rejected": [bad], "tools": [tool("add", "a")]}
    with_tools = learner.ask(AS_JSON, [row], method="dpo", trainer=True)
    thoughts = said("assistant", "<think>why</think>so")
    forgotten = {
        "prompt": [said("user", "0", name="Bob"), thoughts, said("user", "1")],
        "chosen": [thoughts, said("user", "2"), good],
        "rejected": [thoughts, said("user", "3"), bad],
    }
    lost = learner.ask(FORGETTING, [forgotten], method="dpo")
    found = learner.answers()
    # the template engine leaves out the line break behind a block
    question = "<|im_start|>user\n2 + 2?<|im_end|><|im_start|>assistant\n"
    for number in same:
        assert texts(found[number], "read") == [question]
        assert texts(found[number], "chosen") == [f"4{END}"]
        assert texts(found[number], "rejected") == [f"5{END}"]
        assert found[number]["batches"] == [
            [f"{question}4{END}", f"4{END}"],
            [f"{question}5{END}", f"5{END}"],
        ]
    # the prompt is counted once, and each answer
    assert found[lost]["training"]["unwritten"] == [
        {"text": "assistant: content in <think>", "times": 3, "lines": [1]},
        {"text": "user: name", "times": 1, "lines": [1]},
    ]
    assert found[lost]["training"]["without_end_lines"] == [1]
    assert texts(found[with_tools], "chosen") == [f'call add {{"a": 2}}{END}\n']
    assert texts(found[with_tools], "read")[0].startswith('<|im_start|>tools [{"type": "function"')


def test_prompts_of_grpo_are_messages_of_their_own_row(tmp_path: Path) -> None:
    """A prompt with tool calls gets no key of another one, and a row's own tools are refused."""
    learner = Learner("trl", tmp_path)
    grpo: dict[str, Any] = {
        "method": "grpo",
        "batch": {"per_device": 2},
        "grpo": {"num_generations": 2},
        "rewards": {"verifier": {"type": "match"}},
    }
    asked = [
        [
            said("user", "town?"),
            said("assistant", "", tool_calls=[call("weather", {"city": "x"})]),
            said("tool", "12"),
        ],
        [
            said("user", "4 + 5?"),
            said("assistant", "", tool_calls=[call("add", {"a": 4})]),
            said("tool", "9"),
        ],
    ]
    lines = [{"expected_answer": "9", "responses_create_params": {"input": messages}} for messages in asked]
    prompts = learner.ask(AS_JSON, lines, **grpo)
    lines[1]["responses_create_params"]["tools"] = [tool("add", "a")]  # type: ignore[index]
    with_tools = learner.ask(AS_JSON, lines, **grpo)
    found = learner.answers()
    first, second = texts(found[prompts], "read")
    assert 'call weather {"city": "x"}<|im_end|>' in first
    assert 'call add {"a": 4}<|im_end|>' in second
    assert second.endswith("<|im_start|>assistant\n")
    assert found[prompts]["training"]["tokens_learned"] == 0
    sentence = (
        f"rows-{with_tools}.jsonl, line 2: 'responses_create_params.tools' is not supported in training"
    )
    assert sentence in found[with_tools]["refused"]
