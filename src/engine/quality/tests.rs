use std::path::Path;

use super::*;
use crate::engine::llama::Brake;
use crate::engine::{KvType, LoadPlan};

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/demo-f16.gguf");
const CHECK: &str = include_str!("../../../assets/check/check.txt");

/// A model that always expects the same: `probabilities`, whatever came before. `a` is token 0, `b` is token 1 …
struct Fixed {
    logits: Vec<f32>,
    bos: Option<Token>,
    hash: u64,
    chunks: Vec<Vec<Token>>,
}

impl Fixed {
    fn new(probabilities: &[f32]) -> Self {
        // Any constant may be added to logits.
        let row: Vec<f32> = probabilities.iter().map(|p| p.ln() + 3.0).collect();
        Self { logits: row.repeat(CHUNK - FIRST), bos: None, hash: 0, chunks: Vec::new() }
    }
}

impl Evaluate for Fixed {
    fn bos(&self) -> Option<Token> {
        self.bos
    }

    fn vocabulary(&self) -> Vocabulary {
        Vocabulary { len: self.logits.len() / (CHUNK - FIRST), hash: self.hash }
    }

    fn tokenize(&self, text: &str) -> Result<Vec<Token>> {
        Ok(text.bytes().map(|byte| Token::from(byte) - Token::from(b'a')).collect())
    }

    fn logits(&mut self, chunk: &[Token]) -> Result<&[f32]> {
        self.chunks.push(chunk.to_vec());
        Ok(&self.logits)
    }
}

fn go_on(_: usize, _: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn compared(reference: &mut Fixed, candidate: &mut Fixed, text: &str) -> Result<Comparison> {
    compare(Reference::Model(reference), candidate, text, 2, &mut go_on)
}

fn close(what: &str, got: f64, wanted: f64, within: f64) {
    assert!((got - wanted).abs() <= within, "{what}: {got} is not {wanted}");
}

#[test]
fn perplexity_of_a_fair_guess_is_the_number_of_choices() {
    let text = "abcd".repeat(300);
    let uniform = perplexity(&mut Fixed::new(&[0.25; 4]), &text, 2, &mut go_on).unwrap();
    close("perplexity", uniform.perplexity.value, 4.0, 1e-6);
    assert_eq!(uniform.tokens, 2 * 255);
    // ln 2, 2 ln 2, 3 ln 2, 3 ln 2 in turn nats, over 255 tokens twice.
    let skewed = perplexity(&mut Fixed::new(&[0.5, 0.25, 0.125, 0.125]), &text, 3, &mut go_on).unwrap();
    close("perplexity", skewed.perplexity.value, 4.773_018_6, 1e-5);
    close("standard error", skewed.perplexity.error, 0.121_283_6, 1e-5);
}

#[test]
fn two_models_that_always_expect_the_same_differ_by_a_known_divergence() {
    let text = "abcd".repeat(256);
    let (mut p, mut q) = (Fixed::new(&[0.5, 0.25, 0.125, 0.125]), Fixed::new(&[0.25, 0.5, 0.125, 0.125]));
    let all = compared(&mut p, &mut q, &text).unwrap();
    // 0.5 ln(0.5 / 0.25) + 0.25 ln(0.25 / 0.5)
    close("KL divergence", all.kl.value, 0.173_286_795, 1e-4);
    close("its error", all.kl.error, 0.0, 1e-6);
    for one in [all.kl_median, all.kl_90, all.kl_95, all.kl_99, all.kl_max] {
        close("a single divergence", one.into(), 0.173_286_795, 1e-4);
    }
    assert_eq!((all.top1, all.tokens), (Estimate { value: 0.0, error: 0.0 }, 510));
    // Every second token has 0.25 more or less: `a` and `b` of `abcd`.
    close("Δp", all.rms_dp.value, 0.176_429_7, 1e-4);
    let same =
        compared(&mut Fixed::new(&[0.7, 0.3]), &mut Fixed::new(&[0.7, 0.3]), &"ab".repeat(512)).unwrap();
    close("KL divergence", same.kl.value, 0.0, 1e-5);
    assert_eq!((same.ratio.value, same.reference), (1.0, same.candidate));
    close("its error", same.ratio.error, 0.0, 1e-6);
    assert_eq!(same.top1, Estimate { value: 1.0, error: 0.0 });
}

#[test]
fn a_chunk_begins_with_bos_and_the_rest_of_the_text_is_left_out() {
    let text = format!("{}dddd\n", "abc".repeat(400));
    let mut model = Fixed { bos: Some(3), ..Fixed::new(&[0.25; 4]) };
    let mut seen = Vec::new();
    let mut report = |done, all| {
        seen.push((done, all));
        ControlFlow::Continue(())
    };
    perplexity(&mut model, &text, 1, &mut report).unwrap();
    assert_eq!(seen, [(1, 2), (2, 2)]);
    // BOS stands in front of the text, which moves it by one, and then in place of the second chunk's first token.
    let at = |place: usize| {
        if place.is_multiple_of(CHUNK) { 3 } else { Token::try_from((place - 1) % 3).unwrap() }
    };
    let wanted: Vec<Token> = (0..2 * CHUNK).map(at).collect();
    assert_eq!(model.chunks.concat(), wanted);
    let short = perplexity(&mut model, &"a".repeat(1022), 1, &mut go_on).unwrap_err();
    assert_eq!(short.message, "the text has 1023 tokens, measuring takes 1024 at least");
    assert!(perplexity(&mut model, &"a".repeat(1023), 1, &mut go_on).is_ok());
}

#[test]
fn a_recording_gives_the_very_same_figures() {
    let text = "abcdefg".repeat(300);
    let model = |skew: f32| Fixed::new(&[0.3 + skew, 0.2 - skew, 0.1, 0.1, 0.1, 0.1, 0.1]);
    let live = compared(&mut model(0.0), &mut model(0.05), &text).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut counts = Vec::new();
    let mut report = |done, all| {
        counts.push((done, all));
        ControlFlow::Continue(())
    };
    let recording = record(&mut model(0.0), &text, folder.path(), 3, &mut report).unwrap();
    let later = compare(Reference::Recording(recording), &mut model(0.05), &text, 1, &mut report).unwrap();
    assert_eq!(live, later);
    assert_eq!(counts, [(1, 4), (2, 4), (3, 4), (4, 4)].repeat(2));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    let nowhere = record(&mut model(0.0), &text, &folder.path().join("x"), 1, &mut go_on).err().unwrap();
    assert!(nowhere.message.starts_with("cannot write a temporary file to `"), "{nowhere}");
}

#[test]
fn models_that_cannot_be_compared_are_told_apart() {
    let text = "abab".repeat(300);
    let mut model = Fixed::new(&[0.5, 0.5]);
    let error = |reference: &mut Fixed, mut other: Fixed| {
        let error = compared(reference, &mut other, &text).unwrap_err().message;
        error.strip_prefix("the models cannot be compared: ").unwrap().to_owned()
    };
    let longer = Fixed::new(&[0.5, 0.25, 0.25]);
    assert_eq!(error(&mut model, longer), "one has a vocabulary of 2 tokens, the other of 3");
    let renamed = Fixed { hash: 1, ..Fixed::new(&[0.5, 0.5]) };
    assert_eq!(error(&mut model, renamed), "both vocabularies have 2 tokens, but not the same ones");
    let with_bos = Fixed { bos: Some(0), ..Fixed::new(&[0.5, 0.5]) };
    assert_eq!(error(&mut model, with_bos), "they cut the text differently from token 1 on");
    let unknown = perplexity(&mut model, &"c".repeat(1024), 1, &mut go_on).unwrap_err();
    assert_eq!(unknown.message, "token 2 is not in the model's vocabulary of 2");
}

#[test]
fn a_report_can_stop_the_work_and_a_broken_model_does() {
    let text = "ab".repeat(600);
    let mut model = Fixed::new(&[0.5, 0.5]);
    let stopped = perplexity(&mut model, &text, 1, &mut |_, _| ControlFlow::Break(())).unwrap_err();
    assert_eq!((stopped.kind, model.chunks.len()), (Kind::Interrupted, 1));
    let mut broken = Fixed::new(&[0.5, 0.5]);
    broken.logits[77] = f32::NAN;
    let message = "the model's output is not a number; the weights or the device are faulty";
    assert_eq!(compared(&mut model, &mut broken, &text).unwrap_err().message, message);
    assert_eq!(compared(&mut broken, &mut model, &text).unwrap_err().message, message);
    assert_eq!(perplexity(&mut broken, &text, 2, &mut go_on).unwrap_err().message, message);
    broken.logits.truncate(100);
    assert!(perplexity(&mut broken, &text, 2, &mut go_on).is_err());
}

fn plan(threads: usize) -> LoadPlan {
    LoadPlan::on_cpu(4096, KvType::Q4_0, threads)
}

#[test]
fn the_demo_model_is_like_itself() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Path::new(DEMO);
    let text: String = CHECK.chars().take(4000).collect();
    let measured = |together, threads| {
        let plan = plan(threads);
        let brake = Brake::default();
        let how = Measuring { plan: &plan, text: &text, together, folder: folder.path(), brake };
        let mut counts = Vec::new();
        let all = compare_files(demo, demo, &how, &mut |event| {
            if let Event::Evaluated(done, all) = event {
                counts.push((done, all));
            }
            ControlFlow::Continue(())
        });
        (all.unwrap(), counts)
    };
    let (all, counts) = measured(true, 1);
    let steps = counts.len();
    assert!(steps >= 4 && counts.iter().copied().eq((1..=steps).map(|done| (done, steps))), "{counts:?}");
    assert_eq!(all.tokens, steps / 2 * SCORED);
    close("KL divergence", all.kl.value, 0.0, 1e-5);
    close("greatest divergence", all.kl_max.into(), 0.0, 2e-4);
    assert_eq!((all.ratio.value, all.reference), (1.0, all.candidate));
    close("its error", all.ratio.error, 0.0, 1e-6);
    assert!(all.top1.value > 0.999, "{all:?}");
    assert_eq!(judge(&all), Grade::Good);
    assert_eq!(measured(false, 1), (all, counts), "apart or together is the same");

    let plan = plan(1);
    let brake = Brake::default();
    let how = Measuring { plan: &plan, text: &text, together: true, folder: folder.path(), brake };
    let weights = how.load(demo, &mut |_| ControlFlow::Continue(())).unwrap();
    let alone = perplexity(&mut how.open(&weights).unwrap(), &text, 1, &mut go_on).unwrap();
    close("perplexity", alone.perplexity.value / all.candidate.value, 1.0, 1e-6);
    close("its error", alone.perplexity.error / all.candidate.error, 1.0, 1e-4);
    how.brake.store(true, std::sync::atomic::Ordering::Relaxed);
    let stopped = perplexity(&mut how.open(&weights).unwrap(), &text, 1, &mut go_on).unwrap_err();
    assert_eq!(stopped.kind, Kind::Interrupted);
}
