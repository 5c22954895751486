//! What sliding and a quantized cache cost: how likely a long text is to a real model. The table is that of the README.

use super::*;

/// Tokens of the text that are read.
const LENGTH: usize = 2000;
/// Tokens evaluated at once.
const STEP: usize = 50;
/// Tokens that stay at the beginning when the window slides.
const SINKS: usize = 4;

/// The log-probability of each token of the text but the first, after all that a window of so many tokens holds of
/// those before it.
fn log_probabilities(window: usize, kv: KvType) -> Vec<f64> {
    let ctx = u32::try_from(window).unwrap();
    let plan = LoadPlan::on_cpu(ctx, kv, 2);
    let folder = std::env::var("INFER_TEST_MODELS").expect("`make test-real` sets it");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join("SmolLM2-135M-Instruct.Q4_1.gguf");
    let weights = Weights::load(&path, &plan, &mut |_| ControlFlow::Continue(())).unwrap();
    let mut llama = weights.open_for(u32::try_from(STEP).unwrap(), Brake::default()).unwrap();
    let text = include_str!("../../../../assets/check/check.txt");
    let tokens = &llama.tokenize(text, false).unwrap()[..LENGTH];
    let mut all = Vec::new();
    for (step, chunk) in tokens.chunks(STEP).enumerate() {
        if llama.len() + chunk.len() > window {
            let half = (llama.len() - SINKS) / 2;
            llama.remove(SINKS..SINKS + half).unwrap();
        }
        assert_eq!(llama.decode(chunk, &mut vec![1; chunk.len()]), 0);
        let rows = llama.rows(0, chunk.len()).unwrap().chunks_exact(llama.vocabulary_len());
        let next = &tokens[step * STEP + 1..];
        all.extend(rows.zip(next).map(|(row, next)| log_probability(row, *next)));
    }
    all
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / f64::from(u32::try_from(values.len()).unwrap())
}

/// The natural logarithm of a token's share in the softmax of a row of logits.
fn log_probability(logits: &[f32], token: Token) -> f64 {
    let most = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - most).exp()).sum();
    f64::from(logits[usize::try_from(token).unwrap()]) - most - sum.ln()
}

#[test]
#[ignore = "needs a real model"]
fn sliding_and_fewer_bits_cost_little_on_a_long_text() {
    let full = log_probabilities(LENGTH, KvType::F16);
    for (window, kv, from, most) in [
        (1024, KvType::F16, 1024, 0.05),
        (512, KvType::F16, 512, 0.05),
        (LENGTH, KvType::Q8_0, 0, 0.01),
        (LENGTH, KvType::Q4_0, 0, 0.05),
    ] {
        let (expected, found) = (mean(&full[from..]), mean(&log_probabilities(window, kv)[from..]));
        let change = found / expected - 1.0;
        println!(
            "{window} {kv:?} from token {from}: {found:.4}, full {expected:.4}, {:+.2} %",
            100.0 * change
        );
        assert!(change.abs() <= most, "{window} {kv:?}: {found} instead of {expected}");
    }
}
