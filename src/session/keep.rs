//! The conversation and the cache on disk: what is read from it before a prompt is evaluated, and kept on leaving.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::time::Duration;

use super::cache::{FEWEST, PrefixStore};
use super::window::{KvWindow, common};
use super::{Event, Message, Options, Role, SOME, Session, Sink};
use crate::engine::{Engine, Token};

/// What came from disk, and why nothing or not more did.
pub(super) enum FromDisk {
    /// The cache is now what was read.
    Read(Option<Cow<'static, str>>),
    Nothing(Option<Cow<'static, str>>),
}

impl<E: Engine> Session<E> {
    /// Use a cache on disk.
    pub(crate) fn set_store(&mut self, store: PrefixStore) {
        self.store = Some(store);
    }

    /// Read from disk what is more of the wanted tokens than memory has, when memory lacks some of the `stable` first
    /// ones or has nothing.
    pub(super) fn restore(
        &mut self,
        wanted: &[Token],
        stable: usize,
        may_shift: bool,
        sink: &mut Sink,
    ) -> FromDisk {
        let Self { engine, cache, store: Some(store), .. } = self else {
            return FromDisk::Nothing(Some("the cache on disk is not in use".into()));
        };
        let have = cache.plan_for(wanted, may_shift).reused();
        if cache.len() > 0 && have >= stable.min(wanted.len() - 1) {
            return FromDisk::Nothing(None);
        }
        let goes_back = engine.goes_back();
        let useful = |tokens: &[Token]| {
            let reused = KvWindow::of(tokens.to_vec()).plan_for(wanted, may_shift).reused();
            if goes_back || reused == tokens.len() { reused } else { 0 }
        };
        // The brake is asked again at the first chunk; notes can't be refused.
        let mut note = |text: &str| {
            let _ = sink(Event::Cache(text));
        };
        let (restored, why_not) = store.restore(engine, useful, have, &mut note);
        let Some(restored) = restored else { return FromDisk::Nothing(why_not) };
        self.evaluated.0 += restored.tokens.len();
        self.evaluated.1 += restored.evaluation;
        self.moved = restored.of_session;
        self.cache = KvWindow::of(restored.tokens);
        if self.cache.len() > 0 { FromDisk::Read(why_not) } else { FromDisk::Nothing(why_not) }
    }

    /// Remember how long it took to evaluate so many tokens.
    pub(super) fn count_evaluated(&mut self, tokens: usize, took: Duration) {
        self.evaluated.0 += tokens;
        self.evaluated.1 += took;
    }

    /// What evaluating so many tokens takes, by those that were.
    fn evaluation(&self, tokens: usize) -> Duration {
        let (evaluated, took) = self.evaluated;
        let [tokens, evaluated] = [tokens, evaluated].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        took.checked_div(evaluated).unwrap_or_default().saturating_mul(tokens)
    }

    /// Keep on disk what later runs can begin with: on leaving, because it takes from the cache what is behind that. Breaks
    /// when that was interrupted.
    pub(crate) fn keep(&mut self, options: &Options, sink: &mut Sink) -> ControlFlow<()> {
        let Some(store) = self.store.take() else { return ControlFlow::Continue(()) };
        if store.has_session() {
            self.keep_session(&store, options, sink);
            sink(Event::Keeping)?;
        }
        self.keep_stable(&store, sink);
        sink(Event::Keeping)?;
        store.trim(&mut |text| {
            // It is over; notes can't be refused.
            let _ = sink(Event::Cache(text));
        });
        ControlFlow::Continue(())
    }

    /// Keep all that the next message of this session will find useful.
    fn keep_session(&mut self, store: &PrefixStore, options: &Options, sink: &mut Sink) {
        let mut next = self.visible();
        if !self.is_unanswered() {
            next.push(Message::new(Role::User, SOME[0]));
        }
        let Ok(next) = self.encode_messages(&next, options) else { return };
        let len = self.cut(common(self.cache.tokens(), &next.tokens));
        if len >= FEWEST {
            let evaluation = self.evaluation(len);
            store.keep(&mut self.engine, self.cache.tokens(), evaluation, true, sink);
        }
    }

    /// Keep what other conversations have as well.
    fn keep_stable(&mut self, store: &PrefixStore, sink: &mut Sink) {
        let tokens = self.stable.take().unwrap_or_default();
        let stable = tokens.len();
        // A message that was refused has left in the cache what stood there before.
        let is_cached = self.cache.tokens().starts_with(&tokens);
        if stable >= FEWEST && !self.moved && is_cached && self.cut(stable) == stable {
            let evaluation = self.evaluation(stable);
            store.keep(&mut self.engine, self.cache.tokens(), evaluation, false, sink);
        }
    }

    /// Leave the first `len` tokens in the cache, or as many as its kind of memory can go back to.
    fn cut(&mut self, len: usize) -> usize {
        // What the cache holds after a failure is not known.
        let kept = self.engine.truncate(len).unwrap_or(0);
        self.cache.truncate(kept);
        kept
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tempfile::TempDir;

    use super::super::cache::{self, Key};
    use super::super::metrics::Source;
    use super::super::tests::{self, TEMPLATE};
    use super::super::{Metrics, Overflow, Template};
    use super::*;
    use crate::engine::scripted::{Scripted, shown};

    const SYSTEM: &str = "You are brief and polite.";

    fn options() -> Options {
        Options { overflow: Overflow::Slide, ..tests::options() }
    }

    /// A new process, as it were, with the cache of `folder`.
    fn session(folder: &Path, name: Option<&str>, window: usize, answers: &[&str]) -> Session<Scripted> {
        let template = Template::new(TEMPLATE, "", "").unwrap();
        let key = Key::new("m".to_owned(), Some(&template), Vec::new());
        let mut store = PrefixStore::new(folder.to_owned(), 1 << 20, key, "tiny".to_owned());
        if let Some(name) = name {
            store = store.for_session(name);
        }
        let mut session = Session::new(Scripted::new(window, answers), Some(template));
        session.set_store(store);
        session.set_system(SYSTEM);
        session
    }

    fn say(session: &mut Session<Scripted>, text: &str) -> Metrics {
        session.say(text, &options(), &mut |_| ControlFlow::Continue(())).unwrap().metrics
    }

    /// Leave, as if evaluating had taken long.
    fn leave(session: Session<Scripted>) -> Vec<String> {
        leave_before(session, usize::MAX).1
    }

    /// As `leave`, until the person has been asked so often whether to go on.
    fn leave_before(mut session: Session<Scripted>, asked: usize) -> (ControlFlow<()>, Vec<String>) {
        session.evaluated.1 = Duration::from_secs(3600);
        let (mut notes, mut left) = (Vec::new(), asked);
        let flow = session.keep(&options(), &mut |event| {
            match event {
                Event::Cache(note) => notes.push(note.to_owned()),
                Event::Keeping if left == 0 => return ControlFlow::Break(()),
                Event::Keeping => left -= 1,
                other => panic!("{other:?}"),
            }
            ControlFlow::Continue(())
        });
        (flow, notes)
    }

    /// What is kept, as text, with the session that it belongs to.
    fn kept(folder: &Path) -> Vec<(String, Option<String>)> {
        let abouts = cache::list(folder).into_iter().filter_map(|held| held.about);
        let mut all: Vec<_> = abouts.map(|about| (shown(&about.tokens), about.session)).collect();
        all.sort();
        all
    }

    #[test]
    fn another_question_finds_the_system_prompt_and_the_files_on_disk() {
        for cannot_go_back in [false, true] {
            let folder = TempDir::new().unwrap();
            let ask = |question: &str| {
                let mut session = session(folder.path(), None, 1000, &["Yes."]);
                session.engine.cannot_go_back = cannot_go_back;
                session.set_preamble("A long file.\n\n".to_owned());
                let metrics = say(&mut session, &format!("A long file.\n\n{question}"));
                let cache = shown(&session.engine.cache);
                leave(session);
                (metrics, cache)
            };
            let prefix = format!("S: {SYSTEM}\nU: A long file.\n\n");
            let (metrics, _) = ask("Is it?");
            assert_eq!((metrics.cached, metrics.cached_from), (0, None));
            assert_eq!(kept(folder.path()), [(prefix.clone(), None)]);
            for question in ["Is it?", "Why?"] {
                let (metrics, cache) = ask(question);
                assert_eq!((metrics.cached, metrics.cached_from), (prefix.len(), Some(Source::Disk)));
                assert_eq!(metrics.evaluated, metrics.prompt - prefix.len());
                assert_eq!(cache, format!("{prefix}{question}\nA: Yes."));
            }
            assert_eq!(kept(folder.path()), [(prefix, None)]);
        }
    }

    #[test]
    fn what_is_shared_is_read_back_when_memory_has_lost_it() {
        let folder = TempDir::new().unwrap();
        let mut first = session(folder.path(), None, 1000, &["a"]);
        say(&mut first, "one");
        leave(first);
        let mut second = session(folder.path(), None, 1000, &["a", "b", "c"]);
        second.set_system("Another system prompt.");
        assert_eq!(say(&mut second, "one").cached_from, None);
        second.set_system(SYSTEM);
        second.messages.truncate(1);
        assert_eq!(say(&mut second, "two").cached_from, Some(Source::Disk));
        assert_eq!(say(&mut second, "three").cached_from, Some(Source::Memory));
        assert_eq!(kept(folder.path()).len(), 1);
    }

    #[test]
    fn what_a_person_said_is_not_taken_for_a_system_prompt() {
        let folder = TempDir::new().unwrap();
        let mut session = session(folder.path(), None, 100, &["a"]);
        session.set_system("");
        say(&mut session, "My secret number is 4711, and that is between us.");
        session.set_system(SYSTEM);
        let long = "x".repeat(200);
        assert!(session.say(&long, &options(), &mut |_| ControlFlow::Continue(())).is_err());
        assert_eq!((leave(session), kept(folder.path())), (Vec::new(), Vec::new()));
    }

    #[test]
    fn few_tokens_are_not_kept() {
        let folder = TempDir::new().unwrap();
        let mut session = session(folder.path(), None, 1000, &["a"]);
        session.set_system("Short");
        say(&mut session, "one");
        assert_eq!(session.stable.as_ref().map(Vec::len), Some("S: Short\nU: ".len()));
        assert_eq!((leave(session), kept(folder.path())), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_session_goes_on_where_it_was_left() {
        for cannot_go_back in [false, true] {
            let folder = TempDir::new().unwrap();
            let mut first = session(folder.path(), Some("work"), 1000, &["one", "two"]);
            first.engine.cannot_go_back = cannot_go_back;
            say(&mut first, "1?");
            say(&mut first, "2?");
            let messages = first.messages().to_vec();
            assert_eq!(leave(first).len(), 2);
            let all = format!("S: {SYSTEM}\nU: 1?\nA: one\nU: 2?\nA: two");
            let stable = format!("S: {SYSTEM}\nU: ");
            let session_entry = (all.clone(), Some("work".to_owned()));
            assert_eq!(kept(folder.path()), [(stable.clone(), None), session_entry]);

            let mut again = session(folder.path(), Some("work"), 1000, &["three"]);
            again.engine.cannot_go_back = cannot_go_back;
            again.set_messages(messages.clone());
            let metrics = say(&mut again, "3?");
            assert_eq!((metrics.cached, metrics.cached_from), (all.len(), Some(Source::Disk)));
            // Who leaves without a word changes nothing.
            let idle = session(folder.path(), Some("work"), 1000, &[]);
            assert!(leave(idle).is_empty());
            // Another session knows the beginning only.
            let mut other = session(folder.path(), Some("play"), 1000, &["three"]);
            other.engine.cannot_go_back = cannot_go_back;
            other.set_messages(messages);
            assert_eq!(say(&mut other, "3?").cached, stable.len());
        }
    }

    #[test]
    fn keeping_ends_when_that_is_wanted_and_leaves_nothing_half_done() {
        let mut asked = 0;
        loop {
            let folder = TempDir::new().unwrap();
            let mut session = session(folder.path(), Some("work"), 1000, &["one"]);
            say(&mut session, "1?");
            let (flow, notes) = leave_before(session, asked);
            let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
            let entries = files.filter(|path| !path.ends_with("lock")).count();
            assert_eq!(entries, kept(folder.path()).len(), "whole or absent");
            if flow.is_continue() {
                assert_eq!((entries, notes.len()), (2, 2));
                break;
            }
            // The one that was being written is told of; the other one is not even begun.
            let interrupted = |note: &String| note.ends_with(" tokens are not kept: it was interrupted");
            assert_eq!(notes.iter().filter(|note| !interrupted(note)).count(), entries, "{notes:?}");
            asked += 1;
        }
        assert!(asked > 5, "{asked}");
    }

    #[test]
    fn an_answer_that_reads_otherwise_in_the_next_prompt_is_left_out() {
        let folder = TempDir::new().unwrap();
        let template = Template::new(&TEMPLATE.replace("m.content", "m.content | trim"), "", "").unwrap();
        let mut session = session(folder.path(), Some("work"), 1000, &["  one"]);
        session.template = Some(template);
        session.engine.cannot_go_back = true;
        say(&mut session, "1?");
        leave(session);
        // Memory can only go back to where the answer begins, one token early.
        let kept = kept(folder.path());
        assert_eq!(kept[1], (format!("S: {SYSTEM}\nU: 1?\nA:"), Some("work".to_owned())));
    }

    #[test]
    fn what_was_moved_is_kept_for_its_session_only() {
        let folder = TempDir::new().unwrap();
        let mut first = session(folder.path(), Some("work"), 100, &["one one one", "two two two", "three"]);
        for question in ["11111111?", "22222222?", "33333333?"] {
            say(&mut first, question);
        }
        assert!(first.moved && !first.engine.removed.is_empty());
        let (messages, dropped) = (first.messages().to_vec(), first.shown.dropped);
        leave(first);
        let kept = kept(folder.path());
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].1.as_deref(), Some("work"));
        // The next process drops as many turns or more, and moves what stays.
        let mut again = session(folder.path(), Some("work"), 100, &["four"]);
        again.set_messages(messages);
        let metrics = say(&mut again, "4?");
        assert!(again.shown.dropped >= dropped && again.moved);
        assert_eq!(metrics.cached_from, Some(Source::Disk));
        assert!(metrics.cached > SYSTEM.len() + 20, "{metrics:?}");
        assert_eq!(metrics.cached + metrics.evaluated, metrics.prompt);
    }

    #[test]
    fn a_raw_text_shares_its_files() {
        let folder = TempDir::new().unwrap();
        let ask = |text: &str| {
            let mut session = session(folder.path(), None, 1000, &["Yes."]);
            session.set_preamble("Once upon a time.\n\n".to_owned());
            let outcome = session.complete(text, &options(), &mut |_| ControlFlow::Continue(()));
            leave(session);
            outcome.unwrap().metrics
        };
        assert_eq!(ask("Once upon a time.\n\nThere").cached, 0);
        assert_eq!(ask("Once upon a time.\n\nWe").cached, "Once upon a time.\n\n".len());
    }
}
