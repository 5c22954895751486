"""What Python's jinja2, set up as Hugging Face's transformers does it, makes of chat templates.

    compare.py FOLDER > expected.json

Needs jinja2 3.1. Renders every `*.jinja` of FOLDER for each conversation below. The test `same_as_jinja2` of
`src/session/template.rs` reads the result and compares:

    INFER_TEMPLATES=FOLDER INFER_TEMPLATES_EXPECTED=expected.json \
        cargo test same_as_jinja2 -- --ignored --nocapture
"""

import json
import pathlib
import sys
from datetime import datetime

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime(2025, 3, 4, 5, 6, 7)


class Generation(Extension):
    """`{% generation %}` … `{% endgeneration %}`: only the contents."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("contents"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def contents(self, context, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def chat(*contents, system=None):
    roles = ["user", "assistant"]
    turns = [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]
    return [{"role": "system", "content": system}] * (system is not None) + turns


CONVERSATIONS = {
    "user": chat("Hello, who are you?"),
    "system": chat("Hello, who are you?", system="You are a helpful assistant."),
    "turns": chat("Hi.", "Hello! How can I help?", "Tell me a joke.", "No.", "Please!"),
    "turns with system": chat("Hi.", "Hello!", "Bye.", system="Be brief.\nBe kind."),
    "code": chat(
        "Größe > 中文 < 😀 & \"double\" 'single' `tick` \\n \\ {{ x }} {% y %} </b>\n```rust\nfn f<'a>() {}\n```\n\tend",
        "<think>\nold thought\n</think>\n\n[THINK]x[/THINK] it's {\"a\": [1, 2]}\u2028\u00a0",
        "/no_think don't",
        system="Answer in <JSON> & 'ünïcode' \"quotes\". {# no comment #}",
    ),
    "white space": chat("  \n leading\n\n", "\n\n answer \t\n", " \n", "a\r\nb ", "x\n", system=" s \n"),
}

CASES = [(name, "auto") for name in CONVERSATIONS] + [("turns with system", "on"), ("turns", "off")]


def case(env, path, name, think):
    variables = {} if think == "auto" else {"enable_thinking": think == "on", "thinking": think == "on"}
    result = {"template": path.name, "conversation": name, "think": think}
    try:
        # open() would turn "\r\n" into "\n".
        template = env.from_string(path.read_bytes().decode())
        # Transformers also passes `tools=None`, which three templates cannot stand; for the rest it is the same.
        result["text"] = template.render(
            messages=CONVERSATIONS[name],
            add_generation_prompt=True,
            bos_token="<s>",
            eos_token="</s>",
            **variables,
        )
    except Exception as err:  # foreign code: anything may come
        raised = type(err) is jinja2.exceptions.TemplateError
        result["raised" if raised else "failed"] = str(err)
    return result


def main():
    env = environment()
    paths = sorted(pathlib.Path(sys.argv[1]).glob("*.jinja"))
    cases = [case(env, path, name, think) for path in paths for name, think in CASES]
    json.dump({"now": NOW.isoformat(), "conversations": CONVERSATIONS, "cases": cases}, sys.stdout)


main()
