//! The bytes of an answer to text: whole UTF-8 only, stop strings cut, thoughts kept apart from the answer.

/// The markers between which a model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tags {
    /// Each of these begins a thought, where no answer has begun yet.
    open: &'static [&'static str],
    /// Each of these ends it.
    close: &'static [&'static str],
    /// Headings that may stand between the thought and the answer, and belong to neither.
    skip: &'static [&'static str],
}

/// What gives a family away in the text of its chat template, the peculiar before the common.
const FAMILIES: &[(&str, Tags)] = &[
    (
        "<|channel|>analysis",
        Tags {
            open: &["<|channel|>analysis<|message|>"],
            close: &["<|end|>", "<|start|>assistant", "<|channel|>final<|message|>"],
            skip: &["<|start|>assistant", "<|channel|>final<|message|>", "<|channel|>commentary<|message|>"],
        },
    ),
    (
        "<|begin|>assistant<|think|>",
        Tags { open: &["<|think|>"], close: &["<|end|>"], skip: &["<|begin|>assistant", "<|content|>"] },
    ),
    ("<|channel>thought", Tags { open: &["<|channel>thought"], close: &["<channel|>"], skip: &[] }),
    ("<|START_THINKING|>", Tags { open: &["<|START_THINKING|>"], close: &["<|END_THINKING|>"], skip: &[] }),
    ("<|inner_prefix|>", Tags { open: &["<|inner_prefix|>"], close: &["<|inner_suffix|>"], skip: &[] }),
    ("<seed:think>", Tags { open: &["<seed:think>"], close: &["</seed:think>"], skip: &[] }),
    ("<mm:think>", Tags { open: &["<mm:think>"], close: &["</mm:think>"], skip: &[] }),
    ("[THINK]", Tags { open: &["[THINK]"], close: &["[/THINK]"], skip: &[] }),
    (
        "[BEGIN FINAL RESPONSE]",
        Tags { open: &["Here are my reasoning steps:"], close: &["[BEGIN FINAL RESPONSE]"], skip: &[] },
    ),
    // Some templates only cut the old thoughts out of the history, so the closing tag is the surer sign.
    ("</think>", Tags { open: &["<think>"], close: &["</think>"], skip: &[] }),
];

impl Tags {
    /// The markers of the model that this chat template belongs to.
    pub(crate) fn of_template(source: &str) -> Option<Self> {
        FAMILIES.iter().find(|(sign, _)| source.contains(sign)).map(|(_, tags)| *tags)
    }

    /// All markers.
    pub(crate) fn markers(&self) -> impl Iterator<Item = &'static str> {
        self.open.iter().chain(self.close).chain(self.skip).copied()
    }

    /// Does a prompt that ends like this leave the model inside a thought?
    pub(crate) fn opened_by(&self, prompt: &str) -> bool {
        let prompt = prompt.trim_end();
        self.open.iter().any(|tag| prompt.ends_with(tag))
    }

    /// Is this text of a control token needed to recognise the markers? Such tokens must not be left out of
    /// what is given to [`Splitter::push`].
    pub(crate) fn contain(&self, control: &str) -> bool {
        !control.is_empty() && self.markers().any(|tag| tag.contains(control))
    }
}

/// A stretch of what the model said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    Thought(String),
}

/// Where in the model's words the front of the buffer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No answer has begun: a thought may.
    Start,
    Thought,
    Answer,
}

/// Takes bytes as they come and gives away what is certain. How the bytes are cut into pushes does not change
/// the result.
#[derive(Debug)]
pub(crate) struct Splitter {
    stops: Vec<String>,
    tags: Option<Tags>,
    state: State,
    /// White space at the front of the buffer belongs to a tag before it.
    after_tag: bool,
    /// The beginning of a character.
    bytes: Vec<u8>,
    /// Text that may yet turn out to be a tag, a stop string or white space around a tag.
    buffer: String,
    stopped: bool,
}

impl Splitter {
    /// With `in_thought` the prompt has already opened the first thought.
    pub(crate) fn new(mut stops: Vec<String>, tags: Option<Tags>, in_thought: bool) -> Self {
        stops.retain(|stop| !stop.is_empty());
        let state = match tags {
            None => State::Answer,
            Some(_) if in_thought => State::Thought,
            Some(_) => State::Start,
        };
        let after_tag = state == State::Thought;
        Self { stops, tags, state, after_tag, bytes: Vec::new(), buffer: String::new(), stopped: false }
    }

    /// Has a stop string been found? Nothing comes out any more.
    pub(crate) fn stopped(&self) -> bool {
        self.stopped
    }

    /// More of the answer.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Part> {
        self.decode(bytes);
        self.advance(false)
    }

    /// The end of the answer: whatever was held back, but for half a character.
    pub(crate) fn finish(&mut self) -> Vec<Part> {
        self.bytes.clear();
        self.advance(true)
    }

    fn decode(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let mut done = 0;
        for chunk in self.bytes.utf8_chunks() {
            self.buffer.push_str(chunk.valid());
            done += chunk.valid().len();
            let at_end = done + chunk.invalid().len() == self.bytes.len();
            if at_end && may_continue(chunk.invalid()) {
                break;
            }
            done += chunk.invalid().len();
            if !chunk.invalid().is_empty() {
                self.buffer.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.bytes.drain(..done);
    }

    fn advance(&mut self, last: bool) -> Vec<Part> {
        let mut parts = Vec::new();
        if self.stopped {
            return parts;
        }
        loop {
            let moved_on = match (self.state, self.tags) {
                (State::Start, Some(tags)) => self.start(&tags, last),
                (State::Thought, Some(tags)) => self.thought(&tags, last, &mut parts),
                _ => {
                    self.answer(last, &mut parts);
                    return parts;
                }
            };
            if !moved_on {
                return parts;
            }
        }
    }

    /// Before the answer. Says whether the state has changed.
    fn start(&mut self, tags: &Tags, last: bool) -> bool {
        self.drop_white();
        let white = self.buffer.len() - self.buffer.trim_start().len();
        let rest = &self.buffer[white..];
        let leading = |all: &[&str]| all.iter().find(|tag| rest.starts_with(**tag)).map(|tag| tag.len());
        if let Some(len) = leading(tags.open) {
            self.pass_tag(white + len, State::Thought);
        } else if let Some(len) = leading(tags.skip) {
            self.pass_tag(white + len, State::Start);
        } else if !last && tags.open.iter().chain(tags.skip).any(|tag| tag.starts_with(rest)) {
            return false;
        } else {
            self.state = State::Answer;
        }
        true
    }

    /// Inside a thought. Says whether the state has changed.
    fn thought(&mut self, tags: &Tags, last: bool, parts: &mut Vec<Part>) -> bool {
        self.drop_white();
        self.after_tag &= self.buffer.is_empty();
        match find(&self.buffer, tags.close, last) {
            Found::At(at, len) => {
                put(parts, Part::Thought, self.buffer[..at].trim_end());
                self.pass_tag(at + len, State::Start);
                true
            }
            Found::NotBefore(at) => {
                let certain = if last { at } else { self.buffer[..at].trim_end().len() };
                put(parts, Part::Thought, &self.buffer[..certain]);
                self.buffer.drain(..certain);
                false
            }
        }
    }

    fn answer(&mut self, last: bool, parts: &mut Vec<Part>) {
        let (certain, stopped) = match find(&self.buffer, &self.stops, last) {
            Found::At(at, _) => (at, true),
            Found::NotBefore(at) => (at, false),
        };
        put(parts, Part::Text, &self.buffer[..certain]);
        self.buffer.drain(..certain);
        self.stopped = stopped;
    }

    fn pass_tag(&mut self, end: usize, state: State) {
        self.buffer.drain(..end);
        self.state = state;
        self.after_tag = true;
    }

    fn drop_white(&mut self) {
        if self.after_tag {
            let white = self.buffer.len() - self.buffer.trim_start().len();
            self.buffer.drain(..white);
        }
    }
}

fn put(parts: &mut Vec<Part>, kind: fn(String) -> Part, text: &str) {
    if !text.is_empty() {
        parts.push(kind(text.to_owned()));
    }
}

/// Can more bytes make a character of these?
fn may_continue(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|err| err.error_len().is_none())
}

enum Found {
    /// A needle, here and so long.
    At(usize, usize),
    /// No needle begins before this place, but one may begin here.
    NotBefore(usize),
}

/// The first place where a needle is, or where one could be once more text has come.
fn find<S: AsRef<str>>(text: &str, needles: &[S], last: bool) -> Found {
    for (at, _) in text.char_indices() {
        let rest = &text[at..];
        if let Some(needle) = needles.iter().find(|needle| rest.starts_with(needle.as_ref())) {
            return Found::At(at, needle.as_ref().len());
        }
        if !last && needles.iter().any(|needle| needle.as_ref().starts_with(rest)) {
            return Found::NotBefore(at);
        }
    }
    Found::NotBefore(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn think() -> Tags {
        Tags::of_template("x </think> y").unwrap()
    }

    fn harmony() -> Tags {
        Tags::of_template("<|channel|>analysis<|message|>").unwrap()
    }

    /// Adjacent parts of one kind joined, and whether a stop string was found.
    fn run(
        pieces: &[&[u8]],
        stops: &[&str],
        tags: Option<Tags>,
        in_thought: bool,
    ) -> (String, String, bool, usize) {
        let stops = stops.iter().map(ToString::to_string).collect();
        let mut splitter = Splitter::new(stops, tags, in_thought);
        let mut parts = Vec::new();
        for piece in pieces {
            parts.extend(splitter.push(piece));
        }
        parts.extend(splitter.finish());
        assert_eq!(splitter.finish(), []);
        let (mut text, mut thought, mut changes) = (String::new(), String::new(), 0);
        let mut before = None;
        for part in parts {
            changes += usize::from(before != Some(std::mem::discriminant(&part)));
            before = Some(std::mem::discriminant(&part));
            match part {
                Part::Text(part) => text.push_str(&part),
                Part::Thought(part) => thought.push_str(&part),
            }
        }
        (text, thought, splitter.stopped(), changes)
    }

    /// Every way to cut `bytes` into pushes.
    fn cuts(bytes: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
        let borders = bytes.len().saturating_sub(1);
        (0..1_u32 << borders).map(move |mask| {
            let mut pieces = Vec::new();
            let mut from = 0;
            for at in (0..borders).filter(|at| mask >> at & 1 == 1) {
                pieces.push(&bytes[from..=at]);
                from = at + 1;
            }
            pieces.push(&bytes[from..]);
            pieces
        })
    }

    /// One byte at a time, and every cut into two or three.
    fn few_cuts(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
        let mut all = vec![vec![bytes], bytes.chunks(1).collect()];
        for a in 0..bytes.len() {
            for b in a..bytes.len() {
                all.push(vec![&bytes[..a], &bytes[a..b], &bytes[b..]]);
            }
        }
        all
    }

    #[test]
    fn characters_are_whole() {
        for (bytes, text) in [
            (&b"abc"[..], "abc"),
            ("é😀中".as_bytes(), "é😀中"),
            (b"a\xf0\x9f\x98", "a"),
            (b"a\xf0\x9f\x98b", "a\u{fffd}b"),
            (b"a\xffb\xc3", "a\u{fffd}b"),
            (b"\xe2\x28\xa1", "\u{fffd}(\u{fffd}"),
            (b"\xf0\x80\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"a\0b", "a\0b"),
            (b"", ""),
        ] {
            for pieces in cuts(bytes) {
                assert_eq!(run(&pieces, &[], None, false).0, text, "{pieces:?}");
                assert_eq!(run(&pieces, &["stop"], Some(think()), false).0, text, "{pieces:?}");
            }
        }
    }

    #[test]
    fn text_comes_as_soon_as_it_is_certain() {
        let mut splitter = Splitter::new(vec!["END".into()], None, false);
        assert_eq!(splitter.push(b"ab E"), [Part::Text("ab ".into())]);
        assert_eq!(splitter.push(b"N"), []);
        assert_eq!(splitter.push(b"E"), [Part::Text("EN".into())]);
        assert_eq!(splitter.push(b"\xc3"), []);
        assert_eq!(splitter.push(b"\xa9"), [Part::Text("Eé".into())]);
        assert_eq!(splitter.push(b"\xc3"), []);
        assert_eq!(splitter.finish(), []);

        let mut splitter = Splitter::new(vec![], Some(think()), false);
        assert_eq!(splitter.push(b"\n<thi"), []);
        assert_eq!(splitter.push(b"nk>\na "), [Part::Thought("a".into())]);
        assert_eq!(splitter.push(b"b</thin"), [Part::Thought(" b".into())]);
        assert_eq!(splitter.push(b"k>\n"), []);
        assert_eq!(splitter.push(b"\nc "), [Part::Text("c ".into())]);
        assert_eq!(splitter.push(b"<think>"), [Part::Text("<think>".into())]);
    }

    #[test]
    fn stops() {
        for (bytes, stops, text, stopped) in [
            ("abcSTOPdef", &["STOP"][..], "abc", true),
            ("STOP", &["STOP"], "", true),
            ("abcSTO", &["STOP"], "abcSTO", false),
            ("aaab", &["aab"], "a", true),
            ("abcd", &["abcd", "bc"], "", true),
            ("abce", &["abcd", "bc"], "a", true),
            ("abc", &["abcd", "bc"], "a", true),
            ("xabcy", &["ab", "abc"], "x", true),
            ("xabcy", &["abc", "ab"], "x", true),
            ("a\n\nb", &["\n\n"], "a", true),
            ("eé", &["é"], "e", true),
            ("abc", &["", "c"], "ab", true),
            ("abc", &[""], "abc", false),
        ] {
            for pieces in cuts(bytes.as_bytes()) {
                let got = run(&pieces, stops, None, false);
                assert_eq!((got.0.as_str(), got.2), (text, stopped), "{pieces:?} {stops:?}");
            }
        }
    }

    #[test]
    fn thoughts() {
        for (bytes, in_thought, thought, text) in [
            ("<think>\n a b \n</think>\n\nc d\n", false, "a b", "c d\n"),
            ("<think></think>c", false, "", "c"),
            ("<think>\n\n</think>\n\nc", false, "", "c"),
            ("a</think>c", true, "a", "c"),
            ("\n a</think>c", true, "a", "c"),
            ("a \n", true, "a \n", ""),
            ("a</thi", true, "a</thi", ""),
            ("<think>a", false, "a", ""),
            (" <think>a</think> <think>b</think>c", false, "ab", "c"),
            ("a <think>b</think>", false, "", "a <think>b</think>"),
            ("a</think>c", false, "", "a</think>c"),
            (" \n x ", false, "", " \n x "),
            (" \n", false, "", " \n"),
            (" <thin", false, "", " <thin"),
            ("< think>", false, "", "< think>"),
            ("<think>a<think>b</think>c", false, "a<think>b", "c"),
        ] {
            for pieces in few_cuts(bytes.as_bytes()) {
                let got = run(&pieces, &[], Some(think()), in_thought);
                assert_eq!((got.1.as_str(), got.0.as_str()), (thought, text), "{pieces:?}");
            }
        }
    }

    #[test]
    fn channels() {
        for (bytes, thought, text) in [
            (
                "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
                "a",
                "b",
            ),
            ("<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b", "a", "b"),
            ("<|channel|>analysis<|message|>a<|channel|>final<|message|>b", "a", "b"),
            ("<|channel|>final<|message|>b", "", "b"),
            ("b", "", "b"),
        ] {
            for pieces in few_cuts(bytes.as_bytes()) {
                let got = run(&pieces, &[], Some(harmony()), false);
                assert_eq!((got.1.as_str(), got.0.as_str()), (thought, text), "{pieces:?}");
            }
        }
    }

    #[test]
    fn stops_do_not_count_in_thoughts() {
        let bytes = b"<think>a STOP b</think>c STOP d";
        for pieces in few_cuts(bytes) {
            let got = run(&pieces, &["STOP"], Some(think()), false);
            assert_eq!(got, ("c ".into(), "a STOP b".into(), true, 2), "{pieces:?}");
        }
    }

    /// All texts of up to five letters over a small alphabet of tags, stops, white space and half characters.
    #[test]
    fn cutting_changes_nothing() {
        const TAGS: Tags = Tags { open: &["<a", "<b"], close: &["/"], skip: &["<<"] };
        let letters = b"<ab/ \xc3\xa9";
        let mut texts: Vec<Vec<u8>> = vec![vec![]];
        for from in 0.. {
            let Some(text) = texts.get(from).cloned().filter(|text| text.len() < 5) else { break };
            texts.extend(letters.iter().map(|letter| [&text[..], &[*letter]].concat()));
        }
        for text in &texts {
            for (in_thought, tags) in [(false, Some(TAGS)), (true, Some(TAGS)), (false, None)] {
                let whole = run(&[text], &["ab", "b a"], tags, in_thought);
                for pieces in cuts(text) {
                    assert_eq!(run(&pieces, &["ab", "b a"], tags, in_thought), whole, "{pieces:?}");
                }
            }
        }
    }

    #[test]
    fn no_tag_hides_another() {
        for (sign, tags) in FAMILIES {
            let before_answer: Vec<_> = tags.open.iter().chain(tags.skip).collect();
            for group in [before_answer, tags.close.iter().collect()] {
                for (i, a) in group.iter().enumerate() {
                    let clash = group.iter().enumerate().any(|(j, b)| i != j && b.starts_with(**a));
                    assert!(!clash, "{sign}: {a}");
                }
            }
        }
    }

    #[test]
    fn families() {
        assert_eq!(Tags::of_template("{{ message.content }}"), None);
        assert!(think().opened_by("<|assistant|>\n<think>\n"));
        assert!(!think().opened_by("<think>\n\n</think>\n\n"));
        assert!(think().contain("</think>"));
        assert!(!think().contain("<|im_end|>"));
        assert!(!think().contain(""));
        assert!(harmony().contain("<|end|>"));
    }
}
