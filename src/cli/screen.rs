//! An answer on its way to the person: events to text, thoughts, bars and notes; and its statistics afterwards.

use std::ops::ControlFlow;
use std::time::Duration;

use super::ui::{Bar, Ui};
use crate::engine::Engine;
use crate::human::{Bytes, Count, Escaped, Rate, Seconds, Thousands};
use crate::session::metrics::{NOTHING_CACHED, Source};
use crate::session::{Event, Options, Outcome, Overflow, Session, Usage};

/// So many tokens evaluated again are news; fewer take no time.
const MANY: usize = 32;

/// Shows the events of one answer.
pub(crate) struct Screen<'u> {
    ui: &'u mut Ui,
    bar: Option<Bar>,
    /// With `--json` the text is printed later, as a whole.
    shows_text: bool,
}

impl<'u> Screen<'u> {
    pub(crate) fn new(ui: &'u mut Ui, shows_text: bool) -> Self {
        Self { ui, bar: None, shows_text }
    }

    pub(crate) fn show(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        match *event {
            Event::Prefill { done, total } => self.prefill(done, total),
            Event::Text(text) if self.shows_text => self.ui.say(text)?,
            Event::Thought(text) if self.shows_text => self.ui.thought(text),
            Event::Text(_) | Event::Thought(_) => {}
            Event::FoldedSystem => self.ui.note(
                "the model's template takes no system prompt: it was put in front of the first message",
            ),
            Event::Reread { tokens } => {
                let tokens_again = Count(tokens as u64, "token");
                let line = format!(
                    "window: evaluating {tokens_again} again, this model's memory cannot go back to them"
                );
                if tokens < MANY { self.ui.detail(&line) } else { self.ui.note(&line) }
            }
            Event::Cache(note) => self.ui.detail(note),
            Event::Keeping => {
                let ui = &self.ui;
                let bar = self.bar.get_or_insert_with(|| ui.watching());
                bar.say("keeping what was read, for the next run; Ctrl-C skips it");
            }
            Event::Unshiftable { reason } => self.ui.note(&format!(
                "window: this model's memory cannot slide, {reason}; what stays is evaluated again"
            )),
            Event::Dropped { turns, tokens, used, window } => self.ui.note(&format!(
                "window: dropped {}, {} tokens; {} of {} in use",
                if turns == 0 {
                    "the oldest part of the answer".to_owned()
                } else {
                    Count(turns as u64, "turn").to_string()
                },
                Thousands(tokens as u64),
                Thousands(used as u64),
                Thousands(window as u64)
            )),
        }
        if self.ui.is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Keep on disk what the next run can begin with. A person need not wait for it.
    pub(crate) fn keep<E: Engine>(ui: &'u mut Ui, session: &mut Session<E>, options: &Options) {
        let mut screen = Self::new(ui, false);
        let flow = session.keep(options, &mut |event| screen.show(&event));
        screen.bar = None;
        if flow.is_break() {
            screen.ui.clear_echo();
            screen.ui.status("skipped: the next run reads it all again");
        }
    }

    fn prefill(&mut self, done: usize, total: usize) {
        if done == total {
            self.bar = None;
        } else {
            let ui = &self.ui;
            self.bar.get_or_insert_with(|| ui.progress("reading", total as u64)).set(done as u64);
        }
    }
}

/// The statistics of an answer in one line.
pub(crate) fn stats_line(outcome: &Outcome, load: Option<Duration>) -> String {
    let m = &outcome.metrics;
    let mut parts = Vec::new();
    if let Some(load) = load {
        parts.push(format!("load {}", Seconds(load.as_secs_f64())));
    }
    let why_not = m.not_cached.as_ref().filter(|reason| *reason != NOTHING_CACHED);
    parts.push(format!(
        "prompt {} ({} cached{}{})",
        Count(m.prompt as u64, "token"),
        Thousands(m.cached as u64),
        if m.cached_from == Some(Source::Disk) { " on disk" } else { "" },
        why_not.map_or(String::new(), |reason| format!("; {reason}"))
    ));
    if let Some(rate) = m.prefill_rate() {
        parts.push(format!("prefill {} tokens/s", Rate(rate)));
    }
    if let Some(ttft) = m.ttft {
        parts.push(format!("TTFT {}", Seconds(ttft.as_secs_f64())));
    }
    parts.push(Count(m.generated as u64, "token").to_string());
    if let (Some(rate), Some(tpot)) = (m.decode_rate(), m.tpot()) {
        parts.push(format!("decode {} tokens/s", Rate(rate)));
        let millis = |time: Duration| time.as_secs_f64() * 1000.0;
        let slow = m.steps.percentile(95).map_or(String::new(), |p95| format!(" (p95 {:.1})", millis(p95)));
        parts.push(format!("TPOT {:.1} ms{slow}", millis(tpot)));
    }
    parts.extend(m.vram.map(|vram| format!("VRAM {}", Bytes(vram))));
    parts.push(format!("finish {}", outcome.finish.as_str()));
    parts.join(", ")
}

/// That an answer ended because the window is full.
pub(crate) fn full_line(window: usize, overflow: Overflow) -> String {
    let goes_on = if overflow == Overflow::Stop { " or `--overflow slide`" } else { "" };
    format!(
        "window: all {} tokens are in use, the answer ends here; try a larger `--ctx`{goes_on}",
        Thousands(window as u64)
    )
}

/// The most characters of a message in a table.
pub(crate) const WORDS: usize = 40;

/// The window, part by part.
pub(crate) fn usage_table(usage: &Usage) -> String {
    let mut lines = vec![format!("window: {} tokens", Thousands(usage.window as u64))];
    let tokens = |tokens: usize| Thousands(tokens as u64).to_string();
    let mut row = |tokens: String, what: &str| lines.push(format!("{tokens:>9}  {what}"));
    row(tokens(usage.system), "system prompt and template");
    if usage.dropped > 0 {
        row("-".to_owned(), &format!("{} dropped", Count(usage.dropped as u64, "turn")));
    }
    let (earlier, held) = usage.earlier;
    if earlier > 0 {
        row(tokens(held), &format!("{} before these", Count(earlier as u64, "turn")));
    }
    for (text, held) in &usage.turns {
        row(tokens(*held), &Escaped(&first_words(text)).to_string());
    }
    let used = usage.used();
    match usage.window.checked_sub(used) {
        Some(free) => row(tokens(free), "free"),
        None => row(tokens(used - usage.window), "more than it holds"),
    }
    if usage.leaving > 0 {
        row(String::new(), &format!("the next message drops {}", Count(usage.leaving as u64, "turn")));
    } else if used >= usage.window {
        row(String::new(), "the next message is refused; `/undo` or `/clear` makes room");
    }
    lines.join("\n")
}

/// The beginning of a message, on one line.
pub(crate) fn first_words(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(WORDS) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Finish, Metrics};

    #[test]
    fn statistics_say_where_tokens_were_cached_or_why_not() {
        for (cached_from, not_cached, expected) in [
            (None, Some(NOTHING_CACHED), "prompt 3,012 tokens (10 cached), 0 tokens, finish stop"),
            (Some(Source::Memory), None, "prompt 3,012 tokens (10 cached), 0 tokens, finish stop"),
            (Some(Source::Disk), None, "prompt 3,012 tokens (10 cached on disk), 0 tokens, finish stop"),
            (None, Some("it is new"), "prompt 3,012 tokens (10 cached; it is new), 0 tokens, finish stop"),
        ] {
            let not_cached = not_cached.map(Into::into);
            let metrics = Metrics { prompt: 3012, cached: 10, cached_from, not_cached, ..Metrics::default() };
            let (text, thought) = (String::new(), String::new());
            let outcome = Outcome { finish: Finish::Stop, text, thought, metrics };
            assert_eq!(stats_line(&outcome, None), expected);
        }
        let metrics = Metrics { vram: Some(5_100_000_000), ..Metrics::default() };
        let outcome = Outcome { finish: Finish::Stop, text: String::new(), thought: String::new(), metrics };
        assert_eq!(
            stats_line(&outcome, None),
            "prompt 0 tokens (0 cached), 0 tokens, VRAM 5.1 GB, finish stop"
        );
    }

    #[test]
    fn the_window_is_shown_part_by_part() {
        let usage = Usage {
            window: 8192,
            system: 12,
            dropped: 3,
            earlier: (2, 1840),
            turns: vec![("What\nis  it?".to_owned(), 40), ("é".repeat(60), 1000)],
            leaving: 0,
        };
        let expected =
            "window: 8,192 tokens\n       12  system prompt and template\n        -  3 turns dropped\n    \
                        1,840  2 turns before these\n       40  What is it?\n    1,000  "
                .to_owned()
                + &"é".repeat(WORDS)
                + "…\n    5,300  free";
        assert_eq!(usage_table(&usage), expected);
        for (window, leaving, end) in [
            (3000, 1, "      108  free\n           the next message drops 1 turn"),
            (
                2892,
                0,
                "        0  free\n           the next message is refused; `/undo` or `/clear` makes room",
            ),
            (2092, 3, "      800  more than it holds\n           the next message drops 3 turns"),
        ] {
            let table = usage_table(&Usage { window, leaving, turns: usage.turns.clone(), ..usage });
            assert!(table.ends_with(&format!("…\n{end}")), "{table}");
        }
    }
}
