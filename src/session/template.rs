//! A conversation and the model's own Jinja template to the text of a prompt.
//!
//! The template comes out of a file from the net, so it is foreign code: how long it may run, how much it may write
//! and how deep its values may nest is bounded, and it runs on a thread of its own that is not waited for beyond
//! [`PATIENCE`]. It was written for Python's jinja2 as Hugging Face's transformers set it up; `tests/templates`
//! holds the check against that.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use jiff::civil::DateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{AutoEscape, Environment, ErrorKind, State};
use serde::{Deserialize, Serialize};

use super::text::Tags;
use crate::error::{Error, Result};
use crate::machine;

mod python;
mod source;

/// What foreign code makes, or why it doesn't.
type Outcome<T> = std::result::Result<T, minijinja::Error>;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    System,
    User,
    Assistant,
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(crate) role: Role,
    pub(crate) content: String,
}

impl Message {
    pub(crate) fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }
}

/// Shall a reasoning model think before it answers?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Think {
    /// As the template has it.
    #[default]
    Auto,
    On,
    Off,
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    /// The template has no place for a system prompt, so it stands before the first user turn's text.
    pub(crate) folded_system: bool,
}

/// Work that one rendering may do: about so many instructions, or 64 times as many bytes.
const FUEL: u64 = 10_000_000;

/// The longest prompt, in bytes.
const LONGEST: usize = 32 << 20;

/// Fuel is not asked for all work: a single operation on a list that holds one text many times is free. Templates
/// take milliseconds.
const PATIENCE: Duration = Duration::from_secs(3);
/// Where other programs want the cores it may get none for a while: so many times as long is waited while it hardly runs.
const WAITS: u32 = 10;

/// What is assigned has few levels; recursion that passes values on without an assignment comes to some 35,000 before
/// it reaches minijinja's own limits, at up to 840 bytes of stack each; so do the 64 KiB of a source, whose operators
/// the compiler follows by recursion. Untouched stack costs no memory.
const STACK: usize = 128 << 20;

/// The filter that [`source::prepare`] puts behind each assigned value.
const KEPT: &str = "kept";

/// Formats that models without a template of their own were trained on, by the names llama.cpp has for them.
const BUILTIN: &[(&str, &str)] = &[
    (
        "chatml",
        r"{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}
{{- '<|im_start|>assistant\n' }}",
    ),
    (
        "llama3",
        r"{{ bos_token }}{% for m in messages -%}
{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content | trim + '<|eot_id|>' }}
{%- endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}",
    ),
    (
        "gemma",
        r"{{ bos_token }}{% for m in messages %}
{%- if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif -%}
{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + m.content | trim + '<end_of_turn>\n' }}
{%- endfor %}{{ '<start_of_turn>model\n' }}",
    ),
    (
        "phi3",
        r"{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{% endfor %}
{{- '<|assistant|>\n' }}",
    ),
    (
        "zephyr",
        r"{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|endoftext|>\n' }}{% endfor %}
{{- '<|assistant|>\n' }}",
    ),
    (
        "mistral-v3",
        r"{{ bos_token }}{% for m in messages %}
{%- if m.role == 'system' %}{{ raise_exception('System role not supported') }}
{%- elif m.role == 'user' %}{{ '[INST] ' + m.content + '[/INST]' }}
{%- else %}{{ ' ' + m.content | trim + '</s>' }}{% endif %}{% endfor %}",
    ),
    (
        "mistral-v7",
        r"{{ bos_token }}{% for m in messages %}
{%- if m.role == 'system' %}{{ '[SYSTEM_PROMPT] ' + m.content + '[/SYSTEM_PROMPT]' }}
{%- elif m.role == 'user' %}{{ '[INST] ' + m.content + '[/INST]' }}
{%- else %}{{ ' ' + m.content + '</s>' }}{% endif %}{% endfor %}",
    ),
];

/// A chat template, ready to be rendered.
pub(crate) struct Template {
    source: String,
    bos: String,
    eos: String,
    env: Environment<'static>,
    /// How long a rendering is waited for.
    patience: Duration,
    /// A rendering has run out of time, and its thread may be running still.
    stuck: AtomicBool,
}

impl Template {
    /// `bos` and `eos` are the texts of those tokens, empty where the model has none.
    pub(crate) fn new(source: &str, bos: &str, eos: &str) -> Result<Self> {
        let text = source.to_owned();
        let compile = move || {
            let mut env = environment();
            env.add_template_owned("chat", source::prepare(&text)?)?;
            Ok(env)
        };
        let env = on_a_thread(PATIENCE, compile)
            .unwrap_or_else(|| Err(ErrorKind::OutOfFuel.into()))
            .map_err(|err| Error::failed(format!("cannot read the model's chat template: {}", told(&err))))?;
        Ok(Self {
            source: source.into(),
            bos: bos.into(),
            eos: eos.into(),
            env,
            patience: PATIENCE,
            stuck: AtomicBool::new(false),
        })
    }

    /// The source of a template that comes with the program.
    pub(crate) fn builtin(name: &str) -> Option<&'static str> {
        BUILTIN.iter().find(|(known, _)| *known == name).map(|(_, source)| *source)
    }

    /// The names that [`builtin`](Self::builtin) knows.
    pub(crate) fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// The markers around the thoughts of this model, if it thinks.
    pub(crate) fn thinking(&self) -> Option<Tags> {
        Tags::of_template(&self.source)
    }

    /// The prompt that asks for the answer to `messages`.
    pub(crate) fn render(&self, messages: &[Message], think: Think, now: DateTime) -> Result<Rendered> {
        let rendered = self.render_or_fold(messages, think, now);
        if self.is_stuck() { Err(explain(&ErrorKind::OutOfFuel.into())) } else { rendered }
    }

    /// A rendering did not come to an end: it may go on taking time and memory until the process ends.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed)
    }

    fn render_or_fold(&self, messages: &[Message], think: Think, now: DateTime) -> Result<Rendered> {
        match self.attempt(messages, think, now) {
            Ok(text) if !self.drops_system(&text, messages, think, now) => {
                return Ok(Rendered { text, folded_system: false });
            }
            Err(err) if !(refusal(&err).is_some() && has_system(messages)) => return Err(explain(&err)),
            _ => {}
        }
        let text = self.attempt(&fold(messages), think, now).map_err(|err| explain(&err))?;
        Ok(Rendered { text, folded_system: true })
    }

    fn attempt(&self, messages: &[Message], think: Think, now: DateTime) -> Outcome<String> {
        // Transformers also says that `tools` is none; some templates loop over it even then, and fail.
        let mut context = BTreeMap::from([
            ("messages", Serde(messages).into()),
            ("add_generation_prompt", true.into()),
            ("bos_token", self.bos.as_str().into()),
            ("eos_token", self.eos.as_str().into()),
            ("strftime_now", Value::from_function(move |format: &str| python::strftime(now, format))),
        ]);
        if think != Think::Auto {
            // Two names are in use for the same switch.
            context.insert("enable_thinking", (think == Think::On).into());
            context.insert("thinking", (think == Think::On).into());
        }
        let env = self.env.clone();
        let work = move || {
            let mut out = Bounded(Vec::new());
            env.get_template("chat")?.render_captured_to(context, &mut out)?;
            String::from_utf8(out.0)
                .map_err(|_| minijinja::Error::new(ErrorKind::InvalidOperation, "output is not UTF-8"))
        };
        on_a_thread(self.patience, work).unwrap_or_else(|| {
            self.stuck.store(true, Ordering::Relaxed);
            Err(ErrorKind::OutOfFuel.into())
        })
    }

    /// Does the template leave out what a system message says? Text that isn't found may have been reshaped, so
    /// the proof is that other text makes no difference.
    fn drops_system(&self, text: &str, messages: &[Message], think: Think, now: DateTime) -> bool {
        messages.iter().enumerate().any(|(i, message)| {
            let content = message.content.trim();
            if message.role != Role::System || content.is_empty() || text.contains(content) {
                return false;
            }
            let mut others = messages.to_vec();
            others[i].content.push_str(" Be brief.");
            self.attempt(&others, think, now).is_ok_and(|other| other == text)
        })
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").field("source", &self.source).finish_non_exhaustive()
    }
}

/// Runs foreign code where there is stack enough for it; `None` if it takes too long.
fn on_a_thread<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Option<Outcome<T>> {
    let failed = |what: String| Err(minijinja::Error::new(ErrorKind::InvalidOperation, what));
    let (sender, receiver) = mpsc::channel();
    let run = move || {
        // Who does not wait any longer needs no answer.
        let _ = sender.send(work());
    };
    if let Err(err) = thread::Builder::new().name("template".into()).stack_size(STACK).spawn(run) {
        return Some(failed(format!("no thread for it: {err}")));
    }
    let began = machine::processor_time();
    for _ in 0..WAITS {
        match receiver.recv_timeout(patience) {
            Ok(outcome) => return Some(outcome),
            Err(RecvTimeoutError::Disconnected) => return Some(failed("its thread ended".into())),
            Err(RecvTimeoutError::Timeout) if has_run(patience / 2, began, machine::processor_time()) => {
                break;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    None
}

/// Has this process had the processor for so long? Where that is not known, it has.
fn has_run(long: Duration, began: Option<Duration>, now: Option<Duration>) -> bool {
    began.zip(now).is_none_or(|(began, now)| now.saturating_sub(began) >= long)
}

fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        env.set_syntax(syntax);
    }
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_fuel(Some(FUEL));
    env.set_unknown_method_callback(python::method);
    env.add_function("raise_exception", raise_exception);
    env.add_filter(KEPT, python::kept);
    // A chain of these in a recursive loop makes millions of levels without an assignment. No known template has them.
    for name in ["batch", "chain", "groupby", "slice", "zip"] {
        env.remove_filter(name);
    }
    let join = Value::from_function(minijinja::filters::join);
    env.add_filter(
        "join",
        move |state: &mut State,
              list: &Value,
              joiner: Option<Value>,
              attribute: Option<Value>,
              kwargs: Kwargs| {
            let list = python::joinable(state, list)?;
            join.call(state, &[list, joiner.into(), attribute.into(), kwargs.into()])
        },
    );
    env.add_filter("tojson", |value: &Value, options: Kwargs| python::tojson(value, &options));
    env
}

/// Puts the system text before that of the first user turn.
fn fold(messages: &[Message]) -> Vec<Message> {
    let (system, mut others): (Vec<_>, Vec<_>) =
        messages.iter().cloned().partition(|message| message.role == Role::System);
    if let Some(user) = others.iter_mut().find(|message| message.role == Role::User) {
        let texts = system.iter().map(|message| message.content.as_str());
        let texts: Vec<_> =
            texts.chain([user.content.as_str()]).filter(|text| !text.trim().is_empty()).collect();
        user.content = texts.join("\n\n");
    }
    others
}

fn has_system(messages: &[Message]) -> bool {
    messages.iter().any(|message| message.role == Role::System)
}

/// What a template says when it refuses a conversation.
#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

fn raise_exception(message: &Value) -> Outcome<Value> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, "raised")
        .with_source(Refusal(message.to_string())))
}

fn refusal(err: &minijinja::Error) -> Option<&str> {
    let mut source = std::error::Error::source(err);
    while let Some(err) = source {
        if let Some(Refusal(message)) = err.downcast_ref() {
            return Some(message);
        }
        source = err.source();
    }
    None
}

fn explain(err: &minijinja::Error) -> Error {
    match refusal(err) {
        Some(message) => {
            let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
            Error::failed(format!("the model's chat template refuses this conversation: {message}"))
        }
        None => Error::failed(format!("cannot render the model's chat template: {}", told(err))),
    }
}

/// The error without the template's name, which is always the same.
fn told(err: &minijinja::Error) -> String {
    if err.kind() == ErrorKind::OutOfFuel {
        return "it does not come to an end".into();
    }
    if err.kind() == ErrorKind::WriteFailure {
        return "the prompt is longer than 32 MiB".into();
    }
    let mut text = err.kind().to_string();
    if let Some(detail) = err.detail() {
        let _ = write!(text, ": {detail}");
    }
    if let Some(line) = err.line() {
        let _ = write!(text, " (line {line})");
    }
    text
}

/// Takes a prompt of any reasonable length.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LONGEST {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value as Json;

    const NOW: DateTime = jiff::civil::datetime(2025, 3, 4, 5, 6, 7, 0);

    fn chat(turns: &[(Role, &str)]) -> Vec<Message> {
        turns.iter().map(|(role, content)| Message::new(*role, *content)).collect()
    }

    fn render(source: &str, messages: &[Message]) -> Result<Rendered> {
        Template::new(source, "<s>", "</s>")?.render(messages, Think::Auto, NOW)
    }

    /// The text that a template without regard to the messages makes.
    fn text(source: &str) -> String {
        render(source, &chat(&[(Role::User, "é<'😀")])).unwrap().text
    }

    fn failure(source: &str) -> String {
        render(source, &chat(&[(Role::User, "hi")])).unwrap_err().message
    }

    #[test]
    fn messages_as_json() {
        let message = Message::new(Role::Assistant, "é");
        let json = r#"{"role":"assistant","content":"é"}"#;
        assert_eq!(serde_json::to_string(&message).unwrap(), json);
        assert_eq!(serde_json::from_str::<Message>(json).unwrap(), message);
    }

    #[test]
    fn tojson_is_pythons() {
        for (expression, json) in [
            ("messages", r#"[{"role": "user", "content": "é<'😀"}]"#),
            ("messages[0].content | tojson(ensure_ascii=True)", r#""\u00e9<'\ud83d\ude00""#),
            ("{'b': 1, 'a': [true, none, 1.5, '&']}", r#"{"b": 1, "a": [true, null, 1.5, "&"]}"#),
            ("{'b': 1, 'a': 2} | tojson(sort_keys=true)", r#"{"a": 2, "b": 1}"#),
            ("{'b': [], 'a': {}} | tojson(indent=2)", "{\n  \"b\": [],\n  \"a\": {}\n}"),
            ("[[1, 2]] | tojson(indent=1)", "[\n [\n  1,\n  2\n ]\n]"),
            ("[1, {'a': 2}] | tojson(separators=(',', ':'))", r#"[1,{"a":2}]"#),
            ("[1] | tojson(indent=none)", "[1]"),
            (r#""a\"\\\n\t\r""#, r#""a\"\\\n\t\r""#),
        ] {
            let filter = if expression.contains('|') { "" } else { " | tojson" };
            assert_eq!(text(&format!("{{{{ {expression}{filter} }}}}")), json, "{expression}");
        }
        assert!(failure("{{ [nothing] | tojson }}").contains("no form in JSON"));
        assert!(failure("{{ 1 | tojson(other=1) }}").contains("other"));
    }

    #[test]
    fn dialect() {
        for (source, out) in [
            ("{% if true %}\na\n  {% endif %}\nb\n", "a\nb"),
            ("{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "13"),
            ("{{ '-'.join(['a', 'b']) }}{{ '{:>3}|{x}'.format(1, x=2) }}", "a-b  1|2"),
            ("{{ ' a b '.strip().split(' ')[-1] }}", "b"),
            ("{{ 'abc'[::-1] }}{{ {'a': 1}.get('a') }}", "cba1"),
            ("{{ bos_token }}{{ eos_token }}{{ messages[0].content }}", "<s></s>é<'😀"),
            ("{{ strftime_now('%d %b %Y, %H:%M') }}", "04 Mar 2025, 05:06"),
            ("{{ tools is defined }}{{ enable_thinking is defined }}", "FalseFalse"),
            ("a{%- generation -%} b {%- endgeneration -%} c", "abc"),
            ("{% generation %}\na{% endgeneration %}\nb", "ab"),
            ("{%+ generation +%}a{%endgeneration%}{% set generation = 1 %}{{ generation }}", "a1"),
        ] {
            assert_eq!(text(source), out, "{source}");
        }
    }

    #[test]
    fn thinking_switch() {
        let template = Template::new("{{ enable_thinking }}{{ thinking }}", "", "").unwrap();
        for (think, out) in [(Think::Auto, ""), (Think::On, "TrueTrue"), (Think::Off, "FalseFalse")] {
            let messages = chat(&[(Role::User, "hi")]);
            assert_eq!(template.render(&messages, think, NOW).unwrap().text, out);
        }
    }

    #[test]
    fn builtins() {
        let messages =
            chat(&[(Role::System, "s"), (Role::User, "u"), (Role::Assistant, "a"), (Role::User, "v")]);
        for (name, out) in [
            (
                "chatml",
                "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n\
                 a<|im_end|>\n<|im_start|>user\nv<|im_end|>\n<|im_start|>assistant\n",
            ),
            (
                "llama3",
                "<s><|start_header_id|>system<|end_header_id|>\n\ns<|eot_id|>\
                 <|start_header_id|>user<|end_header_id|>\n\nu<|eot_id|>\
                 <|start_header_id|>assistant<|end_header_id|>\n\na<|eot_id|>\
                 <|start_header_id|>user<|end_header_id|>\n\nv<|eot_id|>\
                 <|start_header_id|>assistant<|end_header_id|>\n\n",
            ),
            (
                "gemma",
                "<s><start_of_turn>user\ns\n\nu<end_of_turn>\n<start_of_turn>model\na<end_of_turn>\n\
                 <start_of_turn>user\nv<end_of_turn>\n<start_of_turn>model\n",
            ),
            (
                "phi3",
                "<|system|>\ns<|end|>\n<|user|>\nu<|end|>\n<|assistant|>\na<|end|>\n<|user|>\nv<|end|>\n\
                 <|assistant|>\n",
            ),
            (
                "zephyr",
                "<|system|>\ns<|endoftext|>\n<|user|>\nu<|endoftext|>\n<|assistant|>\na<|endoftext|>\n\
                 <|user|>\nv<|endoftext|>\n<|assistant|>\n",
            ),
            ("mistral-v3", "<s>[INST] s\n\nu[/INST] a</s>[INST] v[/INST]"),
            ("mistral-v7", "<s>[SYSTEM_PROMPT] s[/SYSTEM_PROMPT][INST] u[/INST] a</s>[INST] v[/INST]"),
        ] {
            let rendered = render(Template::builtin(name).unwrap(), &messages).unwrap();
            assert_eq!(rendered.text, out, "{name}");
            assert_eq!(rendered.folded_system, matches!(name, "gemma" | "mistral-v3"), "{name}");
        }
        assert_eq!(Template::builtin("other"), None);
        assert_eq!(Template::builtin_names().count(), 7);
    }

    #[test]
    fn refusals() {
        assert_eq!(
            failure("{{ raise_exception('Roles must\nalternate') }}"),
            "the model's chat template refuses this conversation: Roles must alternate"
        );
        let user_only = "{% for m in messages %}{% if m.role != 'user' %}{{ raise_exception('only users') }}\
                         {% endif %}{{ m.content }}{% endfor %}";
        let folded = render(user_only, &chat(&[(Role::System, "s"), (Role::User, "u")])).unwrap();
        assert_eq!(folded, Rendered { text: "s\n\nu".into(), folded_system: true });
        let folded = render(user_only, &chat(&[(Role::System, " "), (Role::User, "u")])).unwrap();
        assert_eq!(folded, Rendered { text: "u".into(), folded_system: true });
        let err = render(user_only, &chat(&[(Role::System, "s"), (Role::Assistant, "a")])).unwrap_err();
        assert!(err.message.ends_with(": only users"));
    }

    #[test]
    fn dropped_system() {
        let messages = chat(&[(Role::System, "A & b "), (Role::User, "u")]);
        for (source, out, folded_system) in [
            ("{{ messages[-1].content }}", "A & b \n\nu", true),
            ("{{ messages[0].content | trim }}", "A & b", false),
            ("{{ messages[0].content | upper }}", "A & B ", false),
            ("{{ messages | length }}{{ messages[-1].content }}", "1A & b \n\nu", true),
        ] {
            let rendered = render(source, &messages).unwrap();
            assert_eq!(rendered, Rendered { text: out.into(), folded_system }, "{source}");
        }
    }

    #[test]
    fn errors() {
        let err = Template::new("a\n{% if %}", "", "").unwrap_err();
        assert!(err.message.starts_with("cannot read the model's chat template: syntax error"), "{err}");
        assert!(err.message.ends_with("(line 2)"), "{err}");
        let err = failure("a\n{{ messages.x.y }}");
        assert!(err.starts_with("cannot render the model's chat template: undefined value"), "{err}");
    }

    #[test]
    fn hostile_templates_end() {
        for source in [
            "{% for i in range(9999) %}{% for i in range(9999) %}{% for i in range(9999) %}{% endfor %}{% endfor %}{% endfor %}",
            "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
            "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
            "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(16) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}\
             {% for i in range(99) %}{{ ns.x }}{% endfor %}",
            "{{ 'a' * 99999999999 }}",
            "{{ ('a' * 99999).replace('', 'b' * 99999) }}",
            "{{ '{:99999999999}'.format(1) }}",
            "{{ '{:{}}'.format(1, 99999999999) }}",
            "{{ ('{0}' * 99999).format('a' * 99999) }}",
            "{{ '%99999999999d' | format(1) }}",
            "{{ (['a' * 99999] * 9999) | tojson }}",
            "{% set x = 'a' * 9999999 %}{% for i in range(9999) %}{% for i in range(9999) %}{{ x.find('b') }}{% endfor %}{% endfor %}",
            "{% set ns = namespace(x=[]) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x | tojson }}",
            "{{ (['a' * 99999] * 99999) | join }}",
            "{{ ''.join(['a' * 99999] * 99999) }}",
            "{{ ([''] * 99999999999) | join }}",
            "{% set ns = namespace(x=['a' * 999]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
            "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
            "{% set ns = namespace(x={}) %}{% for i in range(99999) %}{% set ns.x = {'a': ns.x} %}{% endfor %}",
            "{% for x in [[]] recursive %}{% set x = [[[[[[[[x]]]]]]]] %}{{ loop([x]) }}{% endfor %}",
            "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
            "{% set a = namespace() %}{% set b = namespace() %}{% set (a.x, b.x) = (b, a) %}{{ a == b }}",
            "{% set ns = namespace() %}{% set ns.x = {'a': [(ns,)]} %}{{ ns }}",
            "{% set ns = namespace() %}{% set other = namespace(a=ns) %}{% set ns.x = other %}{{ ns }}",
            "{% set x = ['a' * 99999] * 99999 %}",
            "{{ strftime_now('%Q') }}",
            "{{ [1] | tojson(indent=-1) }}",
        ] {
            let mut template = Template::new(source, "", "").unwrap();
            // Less than usual, for unoptimised tests.
            template.env.set_fuel(Some(FUEL / 50));
            let err = template.render(&chat(&[(Role::User, "hi")]), Think::Auto, NOW).unwrap_err();
            assert!(err.message.starts_with("cannot render"), "{source}: {err}");
        }
        let long = "{% set x = 'a' * 999999 %}{% for i in range(99) %}{{ x }}{% endfor %}";
        assert_eq!(
            failure(long),
            "cannot render the model's chat template: the prompt is longer than 32 MiB"
        );
    }

    #[test]
    fn who_had_no_processor_is_waited_for() {
        let seconds = |n| Some(Duration::from_secs(n));
        for (began, now, expected) in [
            (seconds(5), seconds(6), false),
            (seconds(5), seconds(7), true),
            (None, seconds(7), true),
            (seconds(5), None, true),
        ] {
            assert_eq!(has_run(Duration::from_secs(2), began, now), expected, "{began:?} {now:?}");
        }
    }

    #[test]
    fn a_template_that_takes_too_long_is_left_alone() {
        // It does come to an end, so that the test's own process is not kept busy.
        let nested = "{% with x = [x, x, x, x] %}".repeat(11) + &"{% endwith %}".repeat(11);
        let source = format!(
            "{{% set x = [1] %}}{}",
            nested.replacen("{% endwith %}", "{{ x == [] ~ x }}{% endwith %}", 1)
        );
        let mut template = Template::new(&source, "", "").unwrap();
        template.patience = Duration::from_millis(1);
        for _ in 0..2 {
            let err = template.render(&chat(&[(Role::User, "hi")]), Think::Auto, NOW).unwrap_err();
            assert_eq!(err.message, "cannot render the model's chat template: it does not come to an end");
            assert!(template.is_stuck());
        }
    }

    /// No assignment sees what a recursive loop hands on: nearly the most levels that minijinja takes, in a value that
    /// is written, compared, hashed and freed.
    #[test]
    fn the_stack_is_large_enough_for_the_deepest_value() {
        let nest = |name: &str| format!("{}{name}{}", "{'a': ".repeat(60), "}".repeat(60));
        for (end, wanted) in
            [("(x ~ '') | length > 99999", "True"), ("x == y", "False"), ("{x: 1} | length", "1")]
        {
            let source = format!(
                "{{% for x, y in [(1, 2)] recursive %}}\
                 {{{{ loop([({}, {})]) if loop.depth < 450 else ({end}) }}}}{{% endfor %}}",
                nest("x"),
                nest("y")
            );
            assert_eq!(text(&source), wanted, "{end}");
        }
    }

    #[test]
    fn honest_assignments_pass() {
        for (source, out) in [
            (
                "{% set ns = namespace(x=[]) %}{% for i in range(3) %}{% set ns.x = ns.x + [i] %}{% endfor %}{{ ns.x }}",
                "[0, 1, 2]",
            ),
            ("{% set ns = namespace(a=1) %}{% set other = ns %}{% set other.a = 2 %}{{ ns.a }}", "2"),
            ("{% set a, b = 1, 'x' if true else 'y' %}{{ a }}{{ b }}", "1x"),
            ("{% set x = nothing %}{{ x is defined }}{% set x = none %}{{ x is none }}", "FalseTrue"),
            ("{% macro m(a) %}<{{ a }}>{% endmacro %}{% set f = m %}{{ f(1) }}", "<1>"),
            (
                "{{ ['a', 1, none] | join(', ') }}{{ 'bc' | join('-') }}{{ [{'a': 1}] | join(attribute='a') }}",
                "a, 1, Noneb-c1",
            ),
        ] {
            assert_eq!(text(source), out, "{source}");
        }
    }

    #[test]
    fn a_source_that_nests_without_end_is_compiled_or_refused() {
        for (begin, more, end) in
            [("{{ x", "[0]", "}}"), ("{{ x", "|e", "}}"), ("{{ ", "-", "x }}"), ("{{ x", "~x", "}}")]
        {
            let source = format!("{begin}{}{end}", more.repeat(60_000 / more.len()));
            let err = Template::new(&source, "", "").err();
            assert!(err.is_none_or(|err| err.message.starts_with("cannot read the model's")), "{more}");
        }
        let err = Template::new(&"a".repeat(70_000), "", "").unwrap_err();
        assert_eq!(
            err.message,
            "cannot read the model's chat template: syntax error: it is longer than 64 KiB"
        );
    }

    /// See `tests/templates`: every template of a folder, against what jinja2 makes of it.
    #[test]
    #[ignore = "needs INFER_TEMPLATES and INFER_TEMPLATES_EXPECTED"]
    fn same_as_jinja2() {
        let folder = std::path::PathBuf::from(std::env::var_os("INFER_TEMPLATES").unwrap());
        let expected = std::fs::read(std::env::var_os("INFER_TEMPLATES_EXPECTED").unwrap()).unwrap();
        let expected: Json = serde_json::from_slice(&expected).unwrap();
        let now: DateTime = expected["now"].as_str().unwrap().parse().unwrap();
        let (mut same, mut both_fail, mut wrong) = (0, 0, 0);
        for case in expected["cases"].as_array().unwrap() {
            let field = |name: &str| case[name].as_str().unwrap_or_default();
            let source = std::fs::read_to_string(folder.join(field("template"))).unwrap();
            let messages: Vec<Message> =
                serde_json::from_value(expected["conversations"][field("conversation")].clone()).unwrap();
            let think = match field("think") {
                "on" => Think::On,
                "off" => Think::Off,
                _ => Think::Auto,
            };
            let rendered =
                Template::new(&source, "<s>", "</s>").map_err(|err| err.message).and_then(|template| {
                    template.attempt(&messages, think, now).map_err(|err| {
                        refusal(&err).map_or_else(|| format!("!{}", told(&err)), ToOwned::to_owned)
                    })
                });
            match (&rendered, case["text"].as_str(), case["raised"].as_str()) {
                (Ok(text), Some(wanted), _) if text == wanted => same += 1,
                (Err(message), None, Some(wanted)) if message == wanted => both_fail += 1,
                (Err(message), None, None) if message.starts_with('!') => both_fail += 1,
                _ => {
                    wrong += 1;
                    println!(
                        "{} × {}: {rendered:?}\n   wanted {case}",
                        field("template"),
                        field("conversation")
                    );
                }
            }
        }
        println!("{same} the same, {both_fail} fail in both, {wrong} differ");
        assert_eq!(wrong, 0);
        assert!(same > 0);
    }
}
