//! A conversation to tokens, so that nothing a person typed can become a control token.
//!
//! The template's text needs its control tokens, the messages in it must have none. Where a message holds the text
//! of a control token, a guard character is put inside it before the template is rendered. A guard that comes out
//! again marks the stretch around it, up to the next real control tokens, as one to be tokenized without control
//! tokens. Without such a message there is no guard, and the whole text is tokenized at once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::civil::DateTime;

use super::template::{Message, Template, Think};
use crate::engine::{Engine, Token};
use crate::error::{Error, Result};

/// A prompt, ready to be fed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) tokens: Vec<Token>,
    pub(crate) text: String,
    /// See [`Rendered`](super::template::Rendered).
    pub(crate) folded_system: bool,
    /// The answer begins inside a thought.
    pub(crate) opens_thought: bool,
}

/// The prompt that asks for the answer to `messages`.
pub(crate) fn encode<E: Engine>(
    engine: &E,
    template: &Template,
    messages: &[Message],
    think: Think,
    now: DateTime,
) -> Result<Encoded> {
    // A typed marker of thoughts would be taken for the model's own.
    let markers = template.thinking().into_iter().flat_map(|tags| tags.markers().collect::<Vec<_>>());
    let controls = Controls::new(engine.control_texts().iter().map(String::as_str).chain(markers));
    let guard = controls.needed_in(messages).then(|| controls.guard(template, messages)).transpose()?;
    let (mut text, folded_system, tokens);
    if let Some(guard) = guard {
        let rendered = template.render(&controls.guarded(messages, guard), think, now)?;
        tokens = controls.tokenize(engine, &rendered.text, guard)?;
        (text, folded_system) = (rendered.text, rendered.folded_system);
        text.retain(|c| c != guard);
    } else {
        let rendered = template.render(messages, think, now)?;
        tokens = engine.tokenize(&rendered.text, true)?;
        (text, folded_system) = (rendered.text, rendered.folded_system);
    }
    let tokens = with_bos(engine, tokens);
    if tokens.is_empty() {
        return Err(Error::failed("the model's chat template makes an empty prompt"));
    }
    let opens_thought = template.thinking().is_some_and(|tags| tags.opened_by(&text));
    Ok(Encoded { tokens, text, folded_system, opens_thought })
}

/// A prompt as it stands, control tokens and all.
pub(crate) fn encode_raw<E: Engine>(engine: &E, text: &str) -> Result<Vec<Token>> {
    let tokens = with_bos(engine, engine.tokenize(text, true)?);
    if tokens.is_empty() {
        return Err(Error::usage("the prompt is empty, and this model needs something to begin with")
            .hint("give it a first word: `infer run MODEL --raw \"Once\"`"));
    }
    Ok(tokens)
}

/// The template may have written the token already.
fn with_bos<E: Engine>(engine: &E, mut tokens: Vec<Token>) -> Vec<Token> {
    if let Some(bos) = engine.bos().filter(|bos| tokens.first() != Some(bos)) {
        tokens.insert(0, bos);
    }
    tokens
}

/// The texts of the control tokens, by their first characters.
struct Controls<'e>(HashMap<char, Vec<&'e str>>);

/// Where a control token is in a text.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
}

impl<'e> Controls<'e> {
    fn new(texts: impl Iterator<Item = &'e str>) -> Self {
        let mut all: HashMap<char, Vec<&str>> = HashMap::new();
        for text in texts {
            if let Some(first) = text.chars().next() {
                all.entry(first).or_default().push(text);
            }
        }
        Self(all)
    }

    /// Those that this text begins with.
    fn leading<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a str> {
        let known = text.chars().next().and_then(|first| self.0.get(&first));
        known.into_iter().flatten().copied().filter(move |control| text.starts_with(control))
    }

    /// All of them in this text, also those that overlap.
    fn all_in<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Span> + 'a {
        text.char_indices().flat_map(move |(start, _)| {
            self.leading(&text[start..]).map(move |control| Span { start, end: start + control.len() })
        })
    }

    fn needed_in(&self, messages: &[Message]) -> bool {
        messages.iter().any(|message| self.all_in(&message.content).next().is_some())
    }

    /// A character for private use that nobody uses.
    fn guard(&self, template: &Template, messages: &[Message]) -> Result<char> {
        let unused = |guard: &char| {
            !messages.iter().any(|message| message.content.contains(*guard))
                && !template.source().contains(*guard)
                && !self.0.values().flatten().any(|control| control.contains(*guard))
        };
        ('\u{e0f1}'..='\u{f8ff}')
            .find(unused)
            .ok_or_else(|| Error::failed("the messages use every character that is for private use"))
    }

    /// The messages with a guard after the first character of each control text.
    fn guarded(&self, messages: &[Message], guard: char) -> Vec<Message> {
        let mut messages = messages.to_vec();
        for message in &mut messages {
            let mut content = String::with_capacity(message.content.len());
            for (at, c) in message.content.char_indices() {
                content.push(c);
                if self.leading(&message.content[at..]).next().is_some() {
                    content.push(guard);
                }
            }
            message.content = content;
        }
        messages
    }

    /// The control tokens that the template wrote, in the order and by the rule of llama.cpp: the longest ones are
    /// found first, whatever stands around them. One that a guard follows is a typed one of a single character.
    fn real_in(&self, text: &str, guard: char) -> Vec<Span> {
        let mut all: Vec<_> = self.all_in(text).filter(|span| !text[span.end..].starts_with(guard)).collect();
        all.sort_by_key(|span| (Reverse(span.end - span.start), span.start));
        let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
        for span in all {
            let before = taken.range(..span.end).next_back();
            if before.is_none_or(|(_, end)| *end <= span.start) {
                taken.insert(span.start, span.end);
            }
        }
        taken.into_iter().map(|(start, end)| Span { start, end }).collect()
    }

    /// Tokenizes the stretches between real control tokens that have a guard as text, and the rest as usual.
    fn tokenize<E: Engine>(&self, engine: &E, text: &str, guard: char) -> Result<Vec<Token>> {
        let mut tokens = Vec::new();
        let mut done = 0;
        let mut before = Span { start: 0, end: 0 };
        let end = Span { start: text.len(), end: text.len() };
        for after in self.real_in(text, guard).into_iter().chain([end]) {
            let typed = &text[before.end..after.start];
            if typed.contains(guard) {
                tokens.extend(engine.tokenize(&text[done..before.end], true)?);
                let typed = inner(engine, span(text, before), typed, span(text, after))?;
                tokens.extend(self.as_text(engine, typed, guard)?);
                done = after.start;
            }
            before = after;
        }
        tokens.extend(engine.tokenize(&text[done..], true)?);
        Ok(tokens)
    }

    /// Tokenizes guarded text. Some vocabularies have tokens that work like control tokens but are found in any
    /// text; where one of them shows up, the text is broken at its guards.
    fn as_text<E: Engine>(&self, engine: &E, guarded: &str, guard: char) -> Result<Vec<Token>> {
        let text: String = guarded.chars().filter(|c| *c != guard).collect();
        let tokens = engine.tokenize(&text, false)?;
        let typed: BTreeSet<_> = self.all_in(&text).map(|found| span(&text, found)).collect();
        for control in typed {
            let control = engine.tokenize(control, true)?;
            if control.len() == 1 && tokens.contains(&control[0]) {
                let pieces = guarded.split(guard).map(|piece| engine.tokenize(piece, false));
                return Ok(pieces.collect::<Result<Vec<_>>>()?.concat());
            }
        }
        Ok(tokens)
    }
}

fn span(text: &str, span: Span) -> &str {
    &text[span.start..span.end]
}

/// The stretch between two control tokens without the white space that these swallow, as some do.
fn inner<'a, E: Engine>(engine: &E, before: &str, text: &'a str, after: &str) -> Result<&'a str> {
    let is_white = |c: char| c.is_ascii_whitespace() || c == '\x0b';
    let mut text = text;
    let trimmed = text.trim_start_matches(is_white);
    let white = &text[..text.len() - trimmed.len()];
    if !white.is_empty() && alone(engine, before, &[before, white])? {
        text = trimmed;
    }
    let trimmed = text.trim_end_matches(is_white);
    let white = &text[trimmed.len()..];
    if !white.is_empty() && alone(engine, after, &[white, after])? {
        text = trimmed;
    }
    Ok(text)
}

/// Is the control token all that becomes of this text?
fn alone<E: Engine>(engine: &E, control: &str, text: &[&str]) -> Result<bool> {
    Ok(!control.is_empty() && engine.tokenize(&text.concat(), true)? == engine.tokenize(control, true)?)
}

#[cfg(test)]
mod tests {
    use super::super::template::Role;
    use super::*;
    use crate::engine::{Fed, Sampling};
    use std::cell::Cell;

    const NOW: DateTime = jiff::civil::datetime(2025, 3, 4, 5, 6, 7, 0);

    /// A byte is a token; `controls[i]` is token 256 + i; the tokenizer works as that of llama.cpp.
    #[derive(Default)]
    struct Fake {
        controls: Vec<String>,
        bos: Option<Token>,
        /// Controls that swallow the white space after them, or before them.
        rstrip: bool,
        lstrip: bool,
        /// Controls that are found in any text.
        always: bool,
        calls: Cell<usize>,
    }

    impl Engine for Fake {
        fn tokenize(&self, text: &str, special: bool) -> Result<Vec<Token>> {
            self.calls.set(self.calls.get() + 1);
            if !special && !self.always {
                return Ok(text.bytes().map(Token::from).collect());
            }
            let mut pieces = vec![Err(text)];
            let mut order: Vec<_> = self.controls.iter().enumerate().collect();
            order.sort_by_key(|(_, control)| Reverse(control.len()));
            for (i, control) in order {
                pieces = pieces.into_iter().flat_map(|piece| self.part(piece, i, control)).collect();
            }
            let bytes = |piece: &std::result::Result<Token, &str>| match piece {
                Ok(token) => vec![*token],
                Err(text) => text.bytes().map(Token::from).collect(),
            };
            Ok(pieces.iter().flat_map(bytes).collect())
        }

        fn piece(&self, _: Token, _: bool) -> Vec<u8> {
            unreachable!()
        }

        fn is_end(&self, _: Token) -> bool {
            unreachable!()
        }

        fn bos(&self) -> Option<Token> {
            self.bos
        }

        fn control_texts(&self) -> &[String] {
            &self.controls
        }

        fn window(&self) -> usize {
            unreachable!()
        }

        fn batch(&self) -> usize {
            unreachable!()
        }

        fn wait(&mut self) {
            unreachable!()
        }

        fn goes_back(&self) -> bool {
            unreachable!()
        }

        fn mark(&mut self) -> Result<()> {
            unreachable!()
        }

        fn unshiftable(&self) -> Option<&'static str> {
            unreachable!()
        }

        fn remove(&mut self, _: std::ops::Range<usize>) -> Result<()> {
            unreachable!()
        }

        fn truncate(&mut self, _: usize) -> Result<usize> {
            unreachable!()
        }

        fn state_size(&self) -> Option<u64> {
            unreachable!()
        }

        fn save(&mut self, _: &std::path::Path, _: &[Token]) -> Result<()> {
            unreachable!()
        }

        fn restore(&mut self, _: &std::path::Path, _: &[Token]) -> bool {
            unreachable!()
        }

        fn feed(&mut self, _: &[Token], _: bool) -> Result<Fed> {
            unreachable!()
        }

        fn begin(&mut self, _: &Sampling, _: &[Token]) -> Result<()> {
            unreachable!()
        }

        fn sample(&mut self) -> Result<Token> {
            unreachable!()
        }
    }

    impl Fake {
        fn new(controls: &[&'static str]) -> Self {
            Self { controls: controls.iter().map(ToString::to_string).collect(), ..Self::default() }
        }

        fn part<'a>(
            &self,
            piece: std::result::Result<Token, &'a str>,
            i: usize,
            control: &str,
        ) -> Vec<std::result::Result<Token, &'a str>> {
            let Err(text) = piece else { return vec![piece] };
            let mut pieces = Vec::new();
            let parts: Vec<_> = text.split(control).collect();
            for (n, part) in parts.iter().enumerate() {
                let mut part = *part;
                if n > 0 {
                    pieces.push(Ok(Token::try_from(256 + i).unwrap()));
                    part = if self.rstrip { part.trim_start() } else { part };
                }
                if n + 1 < parts.len() && self.lstrip {
                    part = part.trim_end();
                }
                if !part.is_empty() {
                    pieces.push(Err(part));
                }
            }
            pieces
        }
    }

    fn user(content: &str) -> Vec<Message> {
        vec![Message::new(Role::User, content)]
    }

    fn encoded(engine: &Fake, template: &str, messages: &[Message]) -> Encoded {
        let template = Template::new(template, "", "").unwrap();
        encode(engine, &template, messages, Think::Auto, NOW).unwrap()
    }

    /// Tokens for people: control tokens in brackets.
    fn shown(engine: &Fake, tokens: &[Token]) -> String {
        let mut bytes = Vec::new();
        for token in tokens {
            match usize::try_from(*token).unwrap() {
                byte @ 0..256 => bytes.push(u8::try_from(byte).unwrap()),
                control => bytes.extend(format!("[{}]", engine.controls[control - 256]).bytes()),
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    const PLAIN: &str = "{% for m in messages %}<s>{{ m.content }}<e>{% endfor %}<a>";

    #[test]
    fn plain_messages_take_one_call() {
        let engine = Fake::new(&["<s>", "<e>", "<a>"]);
        let encoded = encoded(&engine, PLAIN, &user("a < b <e \u{e0f1}"));
        assert_eq!(engine.calls.get(), 1);
        assert_eq!(encoded.text, "<s>a < b <e \u{e0f1}<e><a>");
        assert_eq!(encoded.tokens, engine.tokenize(&encoded.text, true).unwrap());
    }

    #[test]
    fn typed_control_texts_stay_text() {
        for (content, expected) in [
            ("a<e>b", "[<s>]a<e>b[<e>][<a>]"),
            ("<e>", "[<s>]<e>[<e>][<a>]"),
            ("<e><s>x<e>", "[<s>]<e><s>x<e>[<e>][<a>]"),
            ("\u{e0f1}<e>\u{e0f1}", "[<s>]\u{e0f1}<e>\u{e0f1}[<e>][<a>]"),
            ("<long>", "[<s>]<long>[<e>][<a>]"),
            ("<lo", "[<s>]<lo[<e>][<a>]"),
            ("é", "[<s>]é[<e>][<a>]"),
            ("é→", "[<s>]é→[<e>][<a>]"),
            ("->é\n", "[<s>]->é\n[<e>][<a>]"),
        ] {
            let engine = Fake::new(&["<lo", "<long>", "long", "<s>", "<e>", "<a>", "é", "→", ""]);
            let encoded = encoded(&engine, PLAIN, &user(content));
            assert_eq!(shown(&engine, &encoded.tokens), expected, "{content}");
            assert_eq!(encoded.text, format!("<s>{content}<e><a>"));
        }
    }

    #[test]
    fn only_the_typed_ones_are_text() {
        let engine = Fake::new(&["<s>", "<e>", "<a>"]);
        let messages = [user("x"), user("y<e>"), user("z"), user("<s>"), user("w")].concat();
        let encoded = encoded(&engine, PLAIN, &messages);
        assert_eq!(
            shown(&engine, &encoded.tokens),
            "[<s>]x[<e>][<s>]y<e>[<e>][<s>]z[<e>][<s>]<s>[<e>][<s>]w[<e>][<a>]"
        );
    }

    /// Where the template writes no control tokens, all is one stretch.
    #[test]
    fn no_control_around() {
        let engine = Fake::new(&["<e>"]);
        let encoded =
            encoded(&engine, "u: {{ messages[0].content }}\n- {{ messages[0].content }} a:", &user("<e>"));
        assert_eq!(shown(&engine, &encoded.tokens), "u: <e>\n- <e> a:");
    }

    /// The longest of the real ones that overlap wins, as in the plain route.
    #[test]
    fn overlapping_real_controls() {
        let engine = Fake::new(&["<x<", "<long>", "<e>"]);
        let template = "<x<long><x<{{ messages[0].content }}";
        assert_eq!(shown(&engine, &encoded(&engine, template, &user("t")).tokens), "<x[<long>][<x<]t");
        assert_eq!(shown(&engine, &encoded(&engine, template, &user("<e>")).tokens), "<x[<long>][<x<]<e>");
    }

    #[test]
    fn white_space_is_swallowed_as_in_the_plain_route() {
        for (rstrip, lstrip, expected) in [
            (false, false, "[<s>]\n <e> \n[<e>]"),
            (true, false, "[<s>]<e> \n[<e>]"),
            (false, true, "[<s>]\n <e>[<e>]"),
        ] {
            let engine = Fake { rstrip, lstrip, ..Fake::new(&["<s>", "<e>"]) };
            let encoded = encoded(&engine, "<s>\n{{ messages[0].content }}\n<e>", &user(" <e> "));
            assert_eq!(shown(&engine, &encoded.tokens), expected);
        }
    }

    #[test]
    fn tokens_that_are_found_in_any_text() {
        let engine = Fake { always: true, ..Fake::new(&["<s>", "<e>", "<a>"]) };
        let encoded = encoded(&engine, PLAIN, &user("x<e>y<s>"));
        assert_eq!(shown(&engine, &encoded.tokens), "[<s>]x<e>y<s>[<e>][<a>]");
    }

    #[test]
    fn a_long_guarded_message_is_quick() {
        let engine = Fake::new(&["<s>", "<e>", "<a>"]);
        let content = "<e> and ".repeat(20_000);
        let encoded = encoded(&engine, PLAIN, &user(&content));
        assert_eq!(encoded.tokens.len(), content.len() + 3);
    }

    #[test]
    fn one_bos() {
        let template = Template::new("{{ bos_token }}{{ messages[0].content }}", "<s>", "").unwrap();
        for (bos, source, expected) in [
            (Some(256), template.source(), "[<s>]x"),
            (None, template.source(), "[<s>]x"),
            (Some(256), "{{ messages[0].content }}", "[<s>]x"),
            (None, "{{ messages[0].content }}", "x"),
        ] {
            let engine = Fake { bos, ..Fake::new(&["<s>"]) };
            let template = Template::new(source, "<s>", "").unwrap();
            let encoded = encode(&engine, &template, &user("x"), Think::Auto, NOW).unwrap();
            assert_eq!(shown(&engine, &encoded.tokens), expected);
        }
        let engine = Fake { bos: Some(256), ..Fake::new(&["<s>"]) };
        let typed = encoded(&engine, "{{ messages[0].content }}", &user("<s>"));
        assert_eq!(shown(&engine, &typed.tokens), "[<s>]<s>");
    }

    #[test]
    fn folded_and_opened() {
        let engine = Fake::new(&["<e>"]);
        let messages = vec![Message::new(Role::System, "s<e>"), Message::new(Role::User, "u")];
        let encoded = encoded(&engine, "{{ messages[-1].content }}<e><think>\n{# </think> #}", &messages);
        assert_eq!(shown(&engine, &encoded.tokens), "s<e>\n\nu[<e>]<think>\n");
        assert!(encoded.folded_system && encoded.opens_thought);
    }

    #[test]
    fn an_empty_prompt_is_an_error() {
        let template = Template::new("{# nothing #}", "", "").unwrap();
        let err = encode(&Fake::new(&["<e>"]), &template, &user("x"), Think::Auto, NOW).unwrap_err();
        assert_eq!(err.message, "the model's chat template makes an empty prompt");
    }

    #[test]
    fn raw() {
        let engine = Fake { bos: Some(256), ..Fake::new(&["<s>", "<e>"]) };
        for (text, expected) in
            [("", "[<s>]"), ("a<e>", "[<s>]a[<e>]"), ("<s>a", "[<s>]a"), ("\0", "[<s>]\0")]
        {
            assert_eq!(shown(&engine, &encode_raw(&engine, text).unwrap()), expected);
        }
        let engine = Fake::new(&["<s>"]);
        assert_eq!(shown(&engine, &encode_raw(&engine, "a").unwrap()), "a");
        let err = encode_raw(&engine, "").unwrap_err();
        assert_eq!(err.message, "the prompt is empty, and this model needs something to begin with");
        assert!(err.hint.is_some());
    }
}
