use super::*;
use crate::engine::scripted::{Scripted, shown};
use crate::error::Kind;

/// `S: …` lines, one per message, and the head of the answer.
pub(super) const TEMPLATE: &str =
    "{% for m in messages %}{{ m.role[0] | upper }}: {{ m.content }}\n{% endfor %}A: ";

fn session(window: usize, answers: &[&str]) -> Session<Scripted> {
    let template = Template::new(TEMPLATE, "", "").unwrap();
    Session::new(Scripted::new(window, answers), Some(template))
}

pub(super) fn options() -> Options {
    Options {
        sampling: Sampling::default(),
        stops: Vec::new(),
        max_tokens: None,
        think: Think::Auto,
        overflow: Overflow::Stop,
        keep: 0,
        now: Now::default(),
    }
}

/// The outcome and the events, the reports on prefill left out.
fn say(session: &mut Session<Scripted>, text: &str, options: &Options) -> (Result<Outcome>, Vec<String>) {
    let mut events = Vec::new();
    let outcome = session.say(text, options, &mut |event| {
        if !matches!(event, Event::Prefill { .. }) {
            events.push(format!("{event:?}"));
        }
        ControlFlow::Continue(())
    });
    (outcome, events)
}

fn contents(session: &Session<Scripted>) -> Vec<&str> {
    session.messages().iter().map(|m| m.content.as_str()).collect()
}

#[test]
fn the_first_token_counts_when_it_is_given_out_and_the_others_take_time() {
    let mut session = session(1000, &["", "P", "Pa"]);
    for (has_text, has_steps) in [(false, false), (true, false), (true, true)] {
        let metrics = say(&mut session, "?", &options()).0.unwrap().metrics;
        let found = (metrics.ttft.is_some(), metrics.steps.percentile(50).is_some());
        assert_eq!(found, (has_text, has_steps));
    }
    // What a stop text may begin with is held back, and never given out when it is one.
    let mut session = self::session(1000, &["Pa"]);
    let stops = Options { stops: vec!["Pa".to_owned()], ..options() };
    let metrics = say(&mut session, "?", &stops).0.unwrap().metrics;
    assert_eq!((metrics.generated, metrics.ttft), (2, None));
}

#[test]
fn a_second_turn_evaluates_only_what_is_new() {
    let mut session = session(1000, &["Paris.", "Rome."]);
    let (first, _) = say(&mut session, "France?", &options());
    let first = first.unwrap();
    assert_eq!((first.text.as_str(), first.finish), ("Paris.", Finish::EndOfTurn));
    let m = &first.metrics;
    assert_eq!((m.prompt, m.cached, m.evaluated, m.generated), (14, 0, 14, 6));
    let (second, _) = say(&mut session, "Italy?", &options());
    let m = second.unwrap().metrics;
    // Cached are the first prompt and the six letters of its answer; new are its line end and the next line.
    assert_eq!((m.prompt, m.cached, m.evaluated), (34, 20, 14));
    assert_eq!(shown(&session.engine.cache), "U: France?\nA: Paris.\nU: Italy?\nA: Rome.");
}

#[test]
fn a_memory_that_cannot_go_back_returns_to_its_marks() {
    let mut session = session(1000, &["one", "two", "three", "four", "five"]);
    session.engine.cannot_go_back = true;
    session.set_system("S");
    let (first, _) = say(&mut session, "a", &options());
    let m = first.unwrap().metrics;
    assert_eq!((m.prompt, m.cached, m.not_cached), (13, 0, Some("the cache on disk is not in use".into())));
    let mut quiet = |_: Event<'_>| ControlFlow::Continue(());
    // The answer begins where a mark is; only the one token is evaluated that always is.
    let m = session.answer_again(None, &options(), &mut quiet).unwrap().metrics;
    assert_eq!((m.cached, m.evaluated, m.not_cached), (12, 1, None));
    // Another message goes back to the end of the system prompt and the beginning of every message.
    let m = session.answer_again(Some("b"), &options(), &mut quiet).unwrap().metrics;
    assert_eq!((m.cached, m.evaluated), (8, 5));
    say(&mut session, "second", &options()).0.unwrap();
    // A message changed in the middle goes back to the end of the answer before it.
    let m = session.answer_again(Some("sec"), &options(), &mut quiet).unwrap().metrics;
    assert_eq!(
        (m.prompt, m.cached, m.not_cached),
        (29, 18, Some("the model's memory cannot go back".into()))
    );
    assert_eq!(shown(&session.engine.cache), "S: S\nU: b\nA: three\nU: sec\nA: five");
}

#[test]
fn regenerating_evaluates_one_token() {
    let mut session = session(1000, &["one", "two"]);
    say(&mut session, "a", &options()).0.unwrap();
    let mut quiet = |_: Event<'_>| ControlFlow::Continue(());
    let outcome = session.answer_again(None, &options(), &mut quiet).unwrap();
    assert_eq!((outcome.text.as_str(), outcome.metrics.evaluated), ("two", 1));
    assert_eq!(contents(&session), ["a", "two"]);
}

#[test]
fn an_answer_ends_by_stop_string_length_or_window() {
    let stop = Options { stops: vec!["cd".to_owned()], ..options() };
    let length = Options { max_tokens: Some(3), ..options() };
    let none = Options { max_tokens: Some(0), ..options() };
    for (window, options, text, finish) in [
        (1000, &stop, "ab", Finish::Stop),
        (1000, &length, "abc", Finish::Length),
        (1000, &none, "", Finish::Length),
        (10, &options(), "abc", Finish::Window),
    ] {
        let mut session = session(window, &["abcdef"]);
        let outcome = say(&mut session, "a", options).0.unwrap();
        assert_eq!((outcome.text.as_str(), outcome.finish), (text, finish));
        assert_eq!(contents(&session), ["a", text]);
    }
}

#[test]
fn a_character_cut_by_the_length_is_not_printed_as_garbage() {
    let mut session = session(1000, &["é"]);
    let outcome = say(&mut session, "a", &Options { max_tokens: Some(1), ..options() }).0.unwrap();
    assert_eq!((outcome.text.as_str(), outcome.metrics.generated), ("", 1));
}

#[test]
fn a_prompt_that_does_not_fit_is_refused_before_it_is_evaluated() {
    for overflow in [Overflow::Stop, Overflow::Rebuild, Overflow::Slide] {
        let mut session = session(20, &["no"]);
        let (outcome, _) = say(&mut session, "0123456789012", &Options { overflow, ..options() });
        let error = outcome.unwrap_err();
        assert_eq!(error.kind, Kind::PromptTooLong);
        assert_eq!(error.message, "the prompt is 20 tokens long, the context holds 20");
        assert_eq!((session.engine.fed, contents(&session).len()), (0, 0));
    }
}

#[test]
fn a_conversation_that_fills_the_window_is_not_taken_for_a_long_message() {
    let long = "0123456789012345678901234567890123456789";
    for (overflow, keep, answer, text, message, hint) in [
        (
            Overflow::Stop,
            0,
            long,
            "and you",
            "with this message the conversation is 70 tokens long, the context holds 64",
            "`/undo` or `/clear` makes room; with `--overflow slide` the oldest turns make room by themselves",
        ),
        (
            Overflow::Slide,
            30,
            "0123456789",
            long,
            "with this message the conversation is 73 tokens long, the context holds 64",
            "`/clear` makes room, or try a smaller `--keep`",
        ),
        // What goes by itself is not in the way.
        (
            Overflow::Rebuild,
            0,
            long,
            &"x".repeat(60),
            "the prompt is 72 tokens long, the context holds 64",
            "shorten it, or try `--ctx 1024`",
        ),
    ] {
        let mut session = session(64, &[answer]);
        session.set_system("S");
        let options = Options { overflow, keep, ..options() };
        say(&mut session, "one", &options).0.unwrap();
        let fed = session.engine.fed;
        let error = say(&mut session, text, &options).0.unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (Kind::PromptTooLong, message));
        assert_eq!((error.hint.as_deref(), session.engine.fed), (Some(hint), fed));
    }
}

#[test]
fn the_oldest_turns_go_and_the_system_message_stays() {
    // Sliding evaluates the new message and the end of the answer before it, which the template adds.
    for (overflow, evaluated) in [(Overflow::Slide, 13), (Overflow::Rebuild, 33)] {
        let mut session = session(64, &["first answer", "second answer", "third"]);
        session.set_system("Brief.");
        let options = Options { overflow, ..options() };
        say(&mut session, "one", &options).0.unwrap();
        say(&mut session, "two", &options).0.unwrap();
        let (outcome, events) = say(&mut session, "three", &options);
        assert_eq!(events[0], "Dropped { turns: 1, tokens: 23, used: 46, window: 64 }");
        let m = outcome.unwrap().metrics;
        assert_eq!((m.dropped_turns, m.dropped_tokens, m.evictions), (1, 23, 1));
        let reason = (overflow == Overflow::Rebuild).then_some("the oldest turns left the window");
        assert_eq!(m.not_cached.as_deref(), reason);
        assert_eq!((m.evaluated, m.cached), (evaluated, 46 - evaluated), "{overflow:?}");
        assert_eq!(session.engine.removed.len(), usize::from(overflow == Overflow::Slide));
        assert_eq!(shown(&session.engine.cache), "S: Brief.\nU: two\nA: second answer\nU: three\nA: third");
        assert_eq!(
            contents(&session),
            ["Brief.", "one", "first answer", "two", "second answer", "three", "third"],
            "what left the window is still part of the conversation"
        );
    }
}

#[test]
fn what_left_the_window_is_the_reason_why_nothing_was_cached() {
    let mut session = session(64, &["first answer", "second answer", "third"]);
    let options = Options { overflow: Overflow::Rebuild, ..options() };
    for (text, reason) in [
        ("one", Some("the cache on disk is not in use")),
        ("two", None),
        ("three", Some("the oldest turns left the window")),
    ] {
        let metrics = say(&mut session, text, &options).0.unwrap().metrics;
        assert_eq!(metrics.not_cached.as_deref(), reason, "{text}");
    }
    session.set_system("New.");
    let metrics =
        say(&mut session, "four", &Options { overflow: Overflow::Stop, ..options }).0.unwrap().metrics;
    assert_eq!(metrics.not_cached.as_deref(), Some("the prompt begins differently"));
}

#[test]
fn an_answer_that_fills_the_window_goes_on_over_the_rest() {
    for overflow in [Overflow::Slide, Overflow::Rebuild] {
        let mut session =
            session(64, &["0123456789", "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"]);
        let options = Options { overflow, ..options() };
        say(&mut session, "one", &options).0.unwrap();
        let (outcome, events) = say(&mut session, "two", &options);
        let outcome = outcome.unwrap();
        assert_eq!((outcome.text.len(), outcome.finish), (52, Finish::EndOfTurn));
        assert!(
            events.contains(&"Dropped { turns: 1, tokens: 21, used: 44, window: 64 }".to_owned()),
            "{events:?}"
        );
        let cache = shown(&session.engine.cache);
        assert_eq!(cache, format!("U: two\nA: {}", outcome.text));
    }
}

#[test]
fn an_answer_longer_than_the_window_loses_its_oldest_half_again_and_again() {
    let long: String = (0..400).map(|i| char::from(b'a' + u8::try_from(i % 26).unwrap())).collect();
    for (overflow, cannot_go_back) in
        [(Overflow::Slide, false), (Overflow::Slide, true), (Overflow::Rebuild, false)]
    {
        let mut session = session(64, &[&long, "next"]);
        session.engine.cannot_go_back = cannot_go_back;
        let options = Options { overflow, ..options() };
        let (outcome, events) = say(&mut session, "one", &options);
        let outcome = outcome.unwrap();
        assert_eq!((outcome.text.as_str(), outcome.finish), (long.as_str(), Finish::EndOfTurn));
        // 55 tokens beside the prompt, 28 of which go each time.
        let m = &outcome.metrics;
        assert_eq!((m.evictions, m.dropped_turns, m.dropped_tokens), (13, 0, 13 * 28));
        let tail = &long[13 * 28..];
        assert_eq!(shown(&session.engine.cache), format!("U: one\nA: {tail}"));
        let said: Vec<_> = (0..events.len()).filter(|at| events[*at].starts_with("Unshiftable")).collect();
        assert_eq!(said.len(), usize::from(cannot_go_back), "said once");
        assert!(said.iter().all(|at| events[at + 1].starts_with("Dropped")), "before what it explains");
        // The prompt is evaluated once, and each time the token that found no room. Rebuilding adds the other 26
        // that stay, and without going back also the last token of the prompt.
        let again = match (overflow, cannot_go_back) {
            (Overflow::Slide, false) => 0,
            (_, true) => 27,
            (_, false) => 26,
        };
        assert_eq!(m.evaluated, 10 + 13 * (1 + again), "{overflow:?} {cannot_go_back}");
        // The whole turn has to go, because it never fits.
        let (outcome, events) = say(&mut session, "two", &options);
        assert_eq!(outcome.unwrap().text, "next");
        assert!(events[0].starts_with("Dropped { turns: 1,"), "{events:?}");
        assert_eq!(shown(&session.engine.cache), "U: two\nA: next");
    }
}

#[test]
fn the_window_is_accounted_for_to_the_last_token() {
    let mut session = session(200, &["1"; 40]);
    session.set_system("Brief.");
    let options = Options { overflow: Overflow::Slide, ..options() };
    let usage = session.context(&options).unwrap();
    // `S: Brief.` and its line end, and `U: ` of the first message.
    assert_eq!((usage.system, usage.used(), usage.window, usage.turns.len()), (13, 13, 200, 0));
    for i in 0..25 {
        say(&mut session, &format!("{i:02}"), &options).0.unwrap();
    }
    let usage = session.context(&options).unwrap();
    assert_eq!(usage.used(), session.encode(&options).unwrap().tokens.len());
    let shown = session.visible().iter().filter(|m| m.role == Role::User).count();
    assert_eq!(usage.dropped + usage.earlier.0 + usage.turns.len(), 25);
    assert_eq!(usage.earlier.0 + usage.turns.len(), shown);
    assert_eq!(usage.turns.last().unwrap(), &("24".to_owned(), 11));
    session.clear();
    for i in 0..22 {
        session.messages.push(Message::new(Role::User, format!("{i}")));
        session.messages.push(Message::new(Role::Assistant, "ok"));
    }
    let usage = session.context(&options).unwrap();
    assert_eq!((usage.earlier.0, usage.turns.len()), (2, 20));
    assert_eq!(usage.used(), session.encode(&options).unwrap().tokens.len());
}

#[test]
fn what_the_next_message_will_drop_is_known_before() {
    for (window, keep, overflow, leaving) in [
        (200, 0, Overflow::Slide, 0),
        (64, 0, Overflow::Slide, 4),
        (64, 14, Overflow::Rebuild, 4),
        (64, 0, Overflow::Stop, 0),
    ] {
        let mut session = session(window, &["ok"]);
        session.set_system("S");
        let mut messages = session.messages().to_vec();
        for i in 0..7 {
            messages.push(Message::new(Role::User, format!("{i}")));
            messages.push(Message::new(Role::Assistant, "ok"));
        }
        session.set_messages(messages);
        let options = Options { overflow, keep, ..options() };
        let usage = session.context(&options).unwrap();
        assert_eq!((usage.leaving, usage.dropped, usage.turns.len()), (leaving, 0, 7), "{window} {keep}");
        if overflow != Overflow::Stop {
            let (_, events) = say(&mut session, "x", &options);
            assert_eq!(session.dropped_turns(), leaving, "{events:?}");
        }
    }
}

#[test]
fn under_stop_a_full_window_ends_the_answer() {
    let mut session = session(64, &[&"x".repeat(200)]);
    let outcome = say(&mut session, "one", &options()).0.unwrap();
    assert_eq!((outcome.text.len(), outcome.finish), (55, Finish::Window));
}

#[test]
fn the_turns_of_the_first_tokens_stay_when_that_is_wanted() {
    for (keep, first) in [
        (0, "U: thr\nA: 3\nU: fou"),
        (3, "U: thr\nA: 3\nU: fou"),
        (4, "U: one\nA: 1\nU: fou"),
        (12, "U: one\nA: 1\nU: fou"),
        (13, "U: one\nA: 1\nU: two\nA: 2\nU: fiv"),
    ] {
        let mut session = session(48, &["1", "2", "3", "4", "5"]);
        let options = Options { overflow: Overflow::Slide, keep, ..options() };
        for text in ["one", "two", "thr", "fou", "fiv"] {
            say(&mut session, text, &options).0.unwrap();
        }
        let cache = shown(&session.engine.cache);
        assert!(cache.starts_with(first), "{keep}: {cache}");
    }
}

#[test]
fn a_first_turn_longer_than_half_of_the_window_does_not_stay() {
    // The turn ends behind `U: `, as many `x`, and nine more.
    for (len, first) in [(15, "U: xxxxxxxxxxxxxxx\nA: 1\nU: "), (16, "U: two\nA: 2\nU: ")] {
        let mut session = session(48, &["1", "2", "3", "4"]);
        let options = Options { overflow: Overflow::Slide, keep: 4, ..options() };
        for text in [&*"x".repeat(len), "two", "thr", "fou"] {
            say(&mut session, text, &options).0.unwrap();
        }
        let cache = shown(&session.engine.cache);
        assert!(cache.starts_with(first), "{len}: {cache}");
    }
}

#[test]
fn a_raw_text_keeps_its_beginning_and_its_end() {
    let long = "x".repeat(100) + "end";
    for (keep, shows) in [(0, "0123"), (10, "0123456789")] {
        let mut session = session(64, &[&long]);
        let options = Options { overflow: Overflow::Slide, keep, ..options() };
        let mut quiet = |_: Event<'_>| ControlFlow::Continue(());
        let outcome = session.complete("0123456789abcdef", &options, &mut quiet).unwrap();
        assert_eq!((outcome.text.as_str(), outcome.finish), (long.as_str(), Finish::EndOfTurn));
        let cache = shown(&session.engine.cache);
        assert!(cache.starts_with(&format!("{shows}x")) && cache.ends_with("end"), "{keep}: {cache}");
    }
}

#[test]
fn breaking_keeps_the_part_and_the_turns() {
    let mut session = session(1000, &["abcdef", "next"]);
    let mut seen = String::new();
    let outcome = session.say("a", &options(), &mut |event| match event {
        Event::Text(text) => {
            seen += text;
            if seen == "abc" { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        _ => ControlFlow::Continue(()),
    });
    assert_eq!(outcome.unwrap().finish, Finish::Interrupted);
    assert_eq!(contents(&session), ["a", "abc"]);
    say(&mut session, "b", &options()).0.unwrap();
    assert_eq!(shown(&session.engine.cache), "U: a\nA: abc\nU: b\nA: next");
}

#[test]
fn the_brake_during_prefill_leaves_the_conversation_as_it_was() {
    let mut session = session(1000, &["abc"]);
    session.engine.brake_after = Some(5);
    let outcome = say(&mut session, "hello", &options()).0.unwrap();
    assert_eq!((outcome.finish, outcome.text.as_str()), (Finish::Interrupted, ""));
    assert_eq!((contents(&session).len(), shown(&session.engine.cache).as_str()), (0, "U: he"));
    let m = say(&mut session, "hello", &options()).0.unwrap().metrics;
    assert_eq!((m.cached, m.evaluated), (5, 7), "what was evaluated is used");
}

#[test]
fn a_state_that_was_left_half_done_is_not_used_again() {
    let mut session = session(1000, &["one", "two"]);
    session.engine.cannot_go_back = true;
    say(&mut session, "a", &options()).0.unwrap();
    session.engine.brake_after = Some(session.engine.fed + 3);
    assert_eq!(say(&mut session, "bcdef", &options()).0.unwrap().finish, Finish::Interrupted);
    assert_eq!(shown(&session.engine.cache), "U: a\nA: one", "the last mark");
    let m = say(&mut session, "bcdef", &options()).0.unwrap().metrics;
    assert_eq!((m.cached, m.evaluated), (11, m.prompt - 11));
}

#[test]
fn what_is_evaluated_again_is_said() {
    let mut session = session(1000, &["one", "two"]);
    session.engine.cannot_go_back = true;
    say(&mut session, "a", &options()).0.unwrap();
    session.undo();
    let (_, events) = say(&mut session, "ab", &options());
    assert_eq!(events[0], "Reread { tokens: 1 }");
}

#[test]
fn a_long_conversation_finds_the_turns_to_drop_and_listens_to_the_brake() {
    let mut session = session(64, &["x"]);
    for i in 0..500 {
        session.messages.push(Message::new(Role::User, format!("{i:04}")));
        session.messages.push(Message::new(Role::Assistant, "ok"));
    }
    let options = Options { overflow: Overflow::Rebuild, ..options() };
    let outcome = session.say("now", &options, &mut |_| ControlFlow::Break(())).unwrap();
    assert_eq!(
        (outcome.finish, session.shown.dropped, session.messages.len()),
        (Finish::Interrupted, 0, 1000)
    );
    let (outcome, events) = say(&mut session, "now", &options);
    // 14 tokens a turn, 10 for the last message and the head of the answer: two old turns fit into 48.
    assert_eq!(events[0], "Dropped { turns: 498, tokens: 6972, used: 38, window: 64 }");
    assert_eq!(outcome.unwrap().metrics.dropped_turns, 498);
}

#[test]
fn a_refused_message_drops_and_announces_nothing() {
    let mut session = session(64, &["one", "no"]);
    let options = Options { overflow: Overflow::Rebuild, ..options() };
    say(&mut session, "a", &options).0.unwrap();
    let (outcome, events) = say(&mut session, &"b".repeat(80), &options);
    assert_eq!((outcome.unwrap_err().kind, events.len(), session.shown.dropped), (Kind::PromptTooLong, 0, 0));
}

#[test]
fn a_failing_engine_leaves_the_conversation_as_it_was() {
    let mut session = session(1000, &["abc"]);
    session.engine.fail_after = Some(14);
    assert_eq!(say(&mut session, "hello", &options()).0.unwrap_err().message, "the script says so");
    assert_eq!(contents(&session).len(), 0);
}

#[test]
fn undo_takes_back_a_whole_turn_also_a_dropped_one() {
    let mut session = session(1000, &["x", "y"]);
    session.set_system("S");
    say(&mut session, "a", &options()).0.unwrap();
    say(&mut session, "b", &options()).0.unwrap();
    session.shown.dropped = 4;
    assert_eq!(session.undo().as_deref(), Some("b"));
    assert_eq!((contents(&session), session.shown.dropped), (vec!["S", "a", "x"], 2));
    assert_eq!(session.undo().as_deref(), Some("a"));
    assert_eq!((session.undo(), contents(&session)), (None, vec!["S"]));
}

#[test]
fn undo_brings_back_what_the_turn_had_pushed_out_of_the_window() {
    let visible = |session: &Session<Scripted>| {
        session.visible().iter().map(|m| m.content.clone()).collect::<Vec<_>>().join(" ")
    };
    for overflow in [Overflow::Slide, Overflow::Rebuild] {
        let options = Options { overflow, ..options() };
        // The second and third time it is the answer that needs the room.
        let long = "abcdefghijklmnopqrstuvwxyzabcdef";
        let mut session = session(64, &["1", "2", "3", "3", long, long, "6"]);
        session.set_system("S");
        for text in ["one", "two"] {
            say(&mut session, text, &options).0.unwrap();
        }
        let (outcome, events) = say(&mut session, "three and three and two", &options);
        outcome.unwrap();
        assert_eq!(events[0], "Dropped { turns: 1, tokens: 12, used: 47, window: 64 }");
        assert_eq!(session.dropped_turns(), 1);
        session.undo();
        assert_eq!((visible(&session).as_str(), session.dropped_turns()), ("S one 1 two 2", 0));
        // Everything that is shown is evaluated or was, and nothing is dropped for a message that fits.
        let (_, events) = say(&mut session, "thr", &options);
        assert!(events.iter().all(|event| !event.starts_with("Dropped")), "{events:?}");
        let cache = "S: S\nU: one\nA: 1\nU: two\nA: 2\nU: thr\nA: 3";
        assert_eq!(shown(&session.engine.cache), cache);
        for text in ["four", "five"] {
            say(&mut session, text, &options).0.unwrap();
        }
        assert_eq!((visible(&session), session.dropped_turns()), (format!("S five {long}"), 4));
        session.undo();
        assert_eq!((visible(&session), session.dropped_turns()), (format!("S thr 3 four {long}"), 2));
        session.undo();
        assert_eq!((visible(&session).as_str(), session.dropped_turns()), ("S one 1 two 2 thr 3", 0));
        // One that gets no answer changes nothing.
        say(&mut session, "four", &options).0.unwrap();
        let before = session.shown.clone();
        session.engine.fail_after = Some(session.engine.fed);
        let mut quiet = |_: Event<'_>| ControlFlow::Continue(());
        session.answer_again(Some("other"), &options, &mut quiet).unwrap_err();
        assert_eq!(session.shown, before);
    }
}

#[test]
fn undo_brings_back_what_a_pinned_turn_outlived() {
    let mut session = session(48, &["1", "2", "3", "4"]);
    let options = Options { overflow: Overflow::Slide, keep: 4, ..options() };
    for text in ["one", "two", "thr", "fou"] {
        say(&mut session, text, &options).0.unwrap();
    }
    assert_eq!((session.shown.pinned, session.dropped_turns()), (2, 1));
    session.undo();
    assert_eq!((session.shown.pinned, session.dropped_turns()), (0, 0));
    assert_eq!(contents(&session), ["one", "1", "two", "2", "thr", "3"]);
}

/// A session that is kept in a file.
fn kept(window: usize, answers: &[&str]) -> (tempfile::TempDir, Session<Scripted>) {
    let folder = tempfile::tempdir().unwrap();
    let claim = transcript::Claim::take(&folder.path().join("a.jsonl")).unwrap().unwrap();
    let mut session = session(window, answers);
    session.keep_in(Journal::open(claim).unwrap()).unwrap();
    (folder, session)
}

fn on_file(folder: &tempfile::TempDir) -> Vec<String> {
    let read = transcript::read(&folder.path().join("a.jsonl")).unwrap();
    let messages = read.map_or(Vec::new(), |read| read.transcript.messages);
    messages.into_iter().map(|message| message.content).collect()
}

#[test]
fn a_message_is_on_file_before_it_is_evaluated_and_an_answer_when_it_is_whole() {
    let (folder, mut session) = kept(1000, &["one", "two"]);
    let mut seen = Vec::new();
    let mut quiet = |event: Event<'_>| {
        if matches!(event, Event::Prefill { .. } | Event::Text(_)) {
            seen.push(on_file(&folder));
        }
        ControlFlow::Continue(())
    };
    session.say("a", &options(), &mut quiet).unwrap();
    assert!(!seen.is_empty() && seen.iter().all(|held| held == &["a"]), "{seen:?}");
    assert_eq!(on_file(&folder), ["a", "one"]);
    // The old answer stays until the new one is there.
    seen.clear();
    let mut quiet = |_: Event<'_>| {
        seen.push(on_file(&folder));
        ControlFlow::Continue(())
    };
    session.answer_again(None, &options(), &mut quiet).unwrap();
    assert!(!seen.is_empty() && seen.iter().all(|held| held == &["a", "one"]), "{seen:?}");
    assert_eq!(on_file(&folder), ["a", "two"]);
}

#[test]
fn a_message_that_got_no_answer_is_not_kept() {
    let (folder, mut session) = kept(30, &["one"]);
    say(&mut session, "a", &options()).0.unwrap();
    say(&mut session, "0123456789012", &options()).0.unwrap_err();
    assert_eq!(on_file(&folder), ["a", "one"]);
    session.engine.brake_after = Some(session.engine.fed + 1);
    assert_eq!(say(&mut session, "b", &options()).0.unwrap().finish, Finish::Interrupted);
    assert_eq!(on_file(&folder), ["a", "one"]);
}

#[test]
fn a_message_that_cannot_be_kept_is_not_answered() {
    let (folder, mut session) = kept(1000, &["one", "two"]);
    say(&mut session, "a", &options()).0.unwrap();
    let fed = session.engine.fed;
    // A folder where the new file is to be written.
    std::fs::create_dir(folder.path().join(".a.jsonl.infer~")).unwrap();
    session.undo();
    let (outcome, _) = say(&mut session, "b", &options());
    assert!(outcome.unwrap_err().message.starts_with("cannot write `"));
    assert_eq!((session.engine.fed, contents(&session).len()), (fed, 0));
    assert_eq!(on_file(&folder), ["a", "one"], "nothing earlier is lost");
    std::fs::remove_dir(folder.path().join(".a.jsonl.infer~")).unwrap();
    session.record().unwrap();
    assert_eq!(on_file(&folder), [""; 0]);
}

#[test]
fn a_message_without_an_answer_is_answered_or_makes_room() {
    for again in [true, false] {
        let (folder, mut session) = kept(1000, &["one"]);
        session.set_messages(vec![Message::new(Role::User, "a")]);
        assert!(session.is_unanswered());
        let mut quiet = |_: Event<'_>| ControlFlow::Continue(());
        let question = if again { "a" } else { "b" };
        if again {
            session.answer_again(None, &options(), &mut quiet).unwrap();
        } else {
            session.say(question, &options(), &mut quiet).unwrap();
        }
        assert_eq!(contents(&session), [question, "one"]);
        assert_eq!(on_file(&folder), [question, "one"]);
    }
}

#[test]
fn a_message_without_an_answer_comes_back_when_what_replaced_it_got_none() {
    let mut session = session(1000, &["one"]);
    session.set_messages(vec![Message::new(Role::User, "a")]);
    session.engine.brake_after = Some(2);
    say(&mut session, "b", &options()).0.unwrap();
    assert_eq!(contents(&session), ["a"]);
}

#[test]
fn thoughts_are_kept_apart_also_when_their_tags_are_control_tokens() {
    let template = Template::new(&format!("{TEMPLATE}{{# </think> #}}"), "", "").unwrap();
    let engine = Scripted::new(1000, &["<think>\nhm\n</think>\n\nyes"]);
    let mut session = Session::new(engine, Some(template));
    let outcome = say(&mut session, "a", &options()).0.unwrap();
    assert_eq!((outcome.thought.as_str(), outcome.text.as_str()), ("hm", "yes"));
    assert_eq!(contents(&session), ["a", "yes"]);
}

#[test]
fn control_tokens_are_not_part_of_the_text() {
    let mut session = session(1000, &["a<|other|>b"]);
    assert_eq!(say(&mut session, "x", &options()).0.unwrap().text, "ab");
}

#[test]
fn a_raw_text_is_continued_without_a_template() {
    let mut engine = Scripted::new(1000, &[" time."]);
    engine.adds_bos = true;
    let mut session = Session::new(engine, None);
    let mut quiet = |_: Event<'_>| ControlFlow::Continue(());
    let outcome = session.complete("Once upon a", &options(), &mut quiet).unwrap();
    assert_eq!((outcome.text.as_str(), outcome.metrics.prompt), (" time.", 12));
    assert_eq!(shown(&session.engine.cache), "<s>Once upon a time.");
}
