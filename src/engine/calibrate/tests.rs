use super::*;
use crate::engine::tiny_gguf::{FEED_FORWARD, LAYERS, Tensor, Tiny, Value, WIDTH};

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/demo-f16.gguf");
const EXPERTS: u64 = 4;

fn plan() -> LoadPlan {
    LoadPlan::on_cpu(0, KvType::Q8_0, 2)
}

/// A text of so many different sentences.
fn text(sentences: usize) -> String {
    let animals = ["fox", "hen", "owl", "cat", "bee", "ant", "dog"];
    let sentence =
        |n: usize| format!("The {} saw {n} of the {}s at the river.\n", animals[n % 7], animals[n / 7 % 7]);
    (0..sentences).map(sentence).collect()
}

fn run(path: &str, text: &str) -> Result<Calibrated> {
    calibrate(Path::new(path), text, &plan(), &mut |_| ControlFlow::Continue(()))
}

/// The tiny model with four experts in each layer, two of which are used.
fn tiny_moe() -> Tiny {
    let mut tiny = Tiny::llama()
        .set("llama.expert_count", Value::U32(EXPERTS.try_into().unwrap()))
        .set("llama.expert_used_count", Value::U32(2));
    tiny.tensors
        .retain(|tensor| !["ffn_gate", "ffn_up", "ffn_down"].iter().any(|name| tensor.name.contains(name)));
    let mut state = 1_u64;
    let mut number = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f32::from(u16::try_from(state >> 48).unwrap()) / 65_536.0 - 0.5
    };
    for layer in 0..LAYERS {
        for (name, dims) in [
            ("ffn_gate_inp", vec![WIDTH, EXPERTS]),
            ("ffn_gate_exps", vec![WIDTH, FEED_FORWARD, EXPERTS]),
            ("ffn_up_exps", vec![WIDTH, FEED_FORWARD, EXPERTS]),
            ("ffn_down_exps", vec![FEED_FORWARD, WIDTH, EXPERTS]),
        ] {
            let data = (0..dims.iter().product()).flat_map(|_| number().to_le_bytes()).collect();
            tiny.tensors.push(Tensor { name: format!("blk.{layer}.{name}.weight"), dims, kind: 0, data });
        }
    }
    tiny
}

fn file(tiny: &Tiny) -> tempfile::TempPath {
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    tiny.write(&path);
    path
}

#[test]
fn every_matrix_of_the_layers_gets_its_inputs_and_twice_the_same() {
    let text = text(120);
    let calibrated = run(DEMO, &text).unwrap();
    let (chunks, size) = (calibrated.chunks, calibrated.chunk_size);
    assert!(chunks >= 2 && size == 512, "{chunks} of {size}");
    let rows = u64::from(chunks * size);
    let kinds = ["attn_k", "attn_output", "attn_q", "attn_v", "ffn_down", "ffn_gate", "ffn_up"];
    let layers = calibrated.tensors.len() / kinds.len();
    let expected: std::collections::BTreeSet<String> =
        (0..layers).flat_map(|layer| kinds.map(|kind| format!("blk.{layer}.{kind}.weight"))).collect();
    assert!(layers >= 2 && calibrated.tensors.keys().eq(&expected), "{:?}", calibrated.tensors.keys());
    for (name, squares) in &calibrated.tensors {
        assert_eq!(squares.counts, [rows], "{name}");
        assert!(squares.sums.iter().all(|&sum| sum > 0.0), "{name}");
    }
    let sums = |name: &str| &calibrated.tensors[&format!("blk.1.{name}.weight")].sums;
    assert_eq!((sums("attn_q"), sums("ffn_gate")), (sums("attn_k"), sums("ffn_up")), "they share an input");
    assert_eq!(run(DEMO, &text).unwrap(), calibrated);
    // Chunks know nothing of each other, so a longer text adds to the sums.
    let one = run(DEMO, &text[..text.len() / 2]).unwrap();
    assert!(one.chunks < chunks && one.tensors["blk.0.attn_q.weight"].sums[0] < sums("attn_q")[0] * 10.0);
}

#[test]
fn each_expert_gets_what_was_sent_to_it() {
    let path = file(&tiny_moe());
    let calibrated = run(path.to_str().unwrap(), &text(60)).unwrap();
    assert_eq!(calibrated.chunk_size, 256, "the model was trained on no more");
    let rows = u64::from(calibrated.chunks) * 256;
    assert!(calibrated.chunks >= 2);
    assert_eq!(calibrated.tensors.len(), 8 * usize::try_from(LAYERS).unwrap());
    for layer in 0..LAYERS {
        let squares = |name: &str| &calibrated.tensors[&format!("blk.{layer}.{name}.weight")];
        assert_eq!((&squares("ffn_gate_inp").counts, squares("ffn_gate_inp").width()), (&vec![rows], 64));
        let gate = squares("ffn_gate_exps");
        assert_eq!((gate.counts.len(), gate.counts.iter().sum::<u64>()), (4, 2 * rows));
        assert_eq!((&gate.counts, gate.width()), (&squares("ffn_down_exps").counts, 64));
        assert_eq!(squares("ffn_down_exps").width(), 128);
        // The router and the experts have the same input, which two experts get.
        for column in 0..64 {
            let experts: f32 = gate.sums.iter().skip(column).step_by(64).sum();
            let whole = 2.0 * squares("ffn_gate_inp").sums[column];
            assert!((experts - whole).abs() <= 1e-3 * whole, "{experts} {whole}");
        }
    }
}

#[test]
fn progress_is_told_and_can_break() {
    let mut seen = Vec::new();
    let text = text(120);
    calibrate(Path::new(DEMO), &text, &plan(), &mut |progress| {
        if seen.last() != Some(&progress) && matches!(progress, Progress::Chunks { .. }) {
            seen.push(progress);
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let all = u32::try_from(seen.len() - 1).unwrap();
    let expected: Vec<_> = (0..=all).map(|done| Progress::Chunks { done, all }).collect();
    assert_eq!(seen, expected);
    for last in
        [Progress::Loading(0.0), Progress::Chunks { done: 0, all }, Progress::Chunks { done: all, all }]
    {
        let mut calls = 0;
        let error = calibrate(Path::new(DEMO), &text, &plan(), &mut |progress| {
            // In the middle of a chunk, where there is one.
            calls += u32::from(progress == last);
            if progress == last && (calls == 5 || last != expected[0]) {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        assert_eq!(error.unwrap_err().kind, Kind::Interrupted, "{last:?}");
    }
}

#[test]
fn a_panic_in_the_report_is_an_error() {
    let mut calls = 0;
    let error = calibrate(Path::new(DEMO), &text(60), &plan(), &mut |progress| {
        calls += u32::from(matches!(progress, Progress::Chunks { .. }));
        assert!(calls < 3, "inside the callback of llama.cpp");
        ControlFlow::Continue(())
    });
    assert_eq!(error.unwrap_err().message, "the calibration failed");
}

#[test]
fn a_text_that_is_too_short_and_weights_that_are_no_numbers_are_errors() {
    let error = run(DEMO, "One word.").unwrap_err().message;
    assert!(error.ends_with(" tokens, 512 are the least to calibrate with"), "{error}");
    let spoil = |tensor: &mut Tensor| tensor.data[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    let path = file(&Tiny::llama().change_tensor("blk.0.attn_norm.weight", spoil));
    let error = run(path.to_str().unwrap(), &text(60)).unwrap_err().message;
    assert_eq!(
        error,
        "the input of `blk.0.attn_k.weight` is not a number; the weights or the device are faulty"
    );
}
