use super::*;

mod memory;
mod quality;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/demo-f16.gguf");
const PROMPT: &str =
    "<|im_start|>user\nTell me a story about a fox named Lily.<|im_end|>\n<|im_start|>assistant\n";

fn weights(ctx: u32, kv: KvType) -> Weights {
    let plan = LoadPlan::on_cpu(ctx, kv, 1);
    Weights::load(Path::new(DEMO), &plan, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// The next `count` tokens; the last one is not fed.
fn generate(llama: &mut Llama<'_>, sampling: &Sampling, count: usize) -> Vec<Token> {
    llama.begin(sampling, &[]).unwrap();
    let mut tokens = Vec::new();
    while tokens.len() < count {
        let token = llama.sample().unwrap();
        tokens.push(token);
        if tokens.len() < count {
            assert_eq!(llama.feed(&[token], true).unwrap(), Fed::All);
        }
    }
    tokens
}

fn greedy() -> Sampling {
    Sampling { temp: 0.0, ..Sampling::default() }
}

#[test]
fn going_back_gives_what_a_fresh_context_gives() {
    let weights = weights(1024, KvType::F16);
    let mut fresh = weights.open(Brake::default()).unwrap();
    let prompt = fresh.tokenize(PROMPT, true).unwrap();
    fresh.feed(&prompt, true).unwrap();
    let wanted = generate(&mut fresh, &greedy(), 30);
    assert_eq!(fresh.len(), prompt.len() + 29);
    assert_eq!(fresh.truncate(prompt.len() - 1).unwrap(), prompt.len() - 1);
    fresh.feed(&prompt[prompt.len() - 1..], true).unwrap();
    assert_eq!(generate(&mut fresh, &greedy(), 30), wanted);
    assert_eq!((fresh.truncate(0).unwrap(), fresh.len()), (0, 0));
    assert_eq!(fresh.truncate(5).unwrap(), 0, "there is nothing to keep");
}

#[test]
fn a_seed_decides_and_greedy_does_not_ask_it() {
    let weights = weights(1024, KvType::F16);
    let mut llama = weights.open(Brake::default()).unwrap();
    let prompt = llama.tokenize(PROMPT, true).unwrap();
    let mut tokens = |sampling: &Sampling| {
        llama.truncate(0).unwrap();
        llama.feed(&prompt, true).unwrap();
        generate(&mut llama, sampling, 20)
    };
    let hot = |seed| Sampling { temp: 2.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed, ..Sampling::default() };
    assert_eq!(tokens(&hot(1)), tokens(&hot(1)));
    assert_ne!(tokens(&hot(1)), tokens(&hot(2)));
    let cold = tokens(&greedy());
    assert_eq!(cold, tokens(&Sampling { seed: 9, ..greedy() }));
    assert_eq!(cold, tokens(&Sampling { top_k: 1, seed: 3, ..Sampling::default() }));
}

#[test]
fn a_repeat_penalty_knows_the_prompt_and_each_token_once() {
    let weights = weights(1024, KvType::F16);
    let mut llama = weights.open(Brake::default()).unwrap();
    let prompt = llama.tokenize(PROMPT, true).unwrap();
    llama.feed(&prompt, true).unwrap();
    let logits = llama.logits().unwrap().to_vec();
    let top = argmax(&logits);
    // What llama.cpp's penalty does: a positive logit is divided, a negative one multiplied.
    let mut penalized = logits.clone();
    let at = usize::try_from(top).unwrap();
    penalized[at] = if penalized[at] > 0.0 { penalized[at] / 9.0 } else { penalized[at] * 9.0 };
    let expected = argmax(&penalized);
    assert_ne!(expected, top, "the penalty must show");
    let sampling = Sampling { repeat_penalty: 9.0, ..greedy() };
    llama.begin(&sampling, &[top]).unwrap();
    assert_eq!(llama.sample().unwrap(), expected);
    llama.begin(&Sampling { repeat_last_n: 1, ..sampling }, &[top, expected]).unwrap();
    assert_eq!(llama.sample().unwrap(), top, "beyond the last n tokens there is no penalty");
}

#[test]
fn batches_are_cut_to_what_the_library_takes() {
    let weights = weights(1024, KvType::F16);
    let mut llama = weights.open(Brake::default()).unwrap();
    let tokens: Vec<Token> = (0..1024).map(|i| 3 + i % 200).collect();
    assert_eq!(llama.feed(&tokens, true).unwrap(), Fed::All);
    assert_eq!(llama.feed(&[3], true).unwrap_err().message, "the context of 1024 tokens is full");
}

#[test]
fn there_is_something_to_sample_only_where_it_was_asked_for() {
    let weights = weights(1024, KvType::F16);
    let mut llama = weights.open(Brake::default()).unwrap();
    llama.begin(&greedy(), &[]).unwrap();
    let prompt = llama.tokenize(PROMPT, true).unwrap();
    llama.feed(&prompt, false).unwrap();
    assert_eq!(llama.sample().unwrap_err().message, "nothing has been evaluated to sample from");
    llama.truncate(0).unwrap();
    llama.feed(&prompt[..3], false).unwrap();
    llama.feed(&prompt[3..], true).unwrap();
    assert!(llama.sample().is_ok());
}

#[test]
fn the_brake_stops_before_the_next_batch() {
    let weights = weights(1024, KvType::F16);
    let brake = Brake::default();
    let mut llama = weights.open(Arc::clone(&brake)).unwrap();
    brake.store(true, Ordering::Relaxed);
    assert_eq!(llama.feed(&[3, 4, 5], true).unwrap(), Fed::Interrupted(0));
    brake.store(false, Ordering::Relaxed);
    assert_eq!((llama.feed(&[3, 4, 5], true).unwrap(), llama.len()), (Fed::All, 3));
    brake.store(true, Ordering::Relaxed);
    assert_eq!(llama.feed(&[6], true).unwrap(), Fed::Interrupted(3));
    assert_eq!(llama.forget_half_done(2).unwrap(), 2);
}

#[test]
fn the_window_is_the_one_asked_for_not_the_padded_one() {
    let weights = weights(100, KvType::Q8_0);
    let mut llama = weights.open(Brake::default()).unwrap();
    assert_eq!(llama.window(), 100);
    assert!(llama.feed(&[3; 101], true).is_err() && llama.feed(&[3; 100], true).is_ok());
}

#[test]
fn control_tokens_are_tokens_only_where_they_are_meant() {
    let weights = weights(256, KvType::F16);
    let llama = weights.open(Brake::default()).unwrap();
    assert_eq!(llama.control_texts(), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]);
    assert_eq!(llama.tokenize("<|im_end|>", true).unwrap(), [2]);
    let spelled = llama.tokenize("<|im_end|>", false).unwrap();
    let bytes: Vec<u8> = spelled.iter().flat_map(|&token| llama.piece(token, false)).collect();
    assert_eq!((spelled.len() > 3, bytes.as_slice()), (true, &b"<|im_end|>"[..]));
    assert_eq!((llama.piece(2, false), llama.piece(2, true)), (Vec::new(), b"<|im_end|>".to_vec()));
    assert!(llama.is_end(2) && !llama.is_end(1) && !llama.is_end(-1));
    assert_eq!((llama.bos(), llama.tokenize("", true).unwrap()), (None, Vec::new()));
}

#[test]
fn loading_stops_when_it_is_told_to_and_names_what_is_wrong() {
    let plan = LoadPlan::on_cpu(256, KvType::F16, 1);
    let stopped = Weights::load(Path::new(DEMO), &plan, &mut |_| ControlFlow::Break(())).err().unwrap();
    assert_eq!(stopped.kind, Kind::Interrupted);
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    let error = Weights::load(path, &plan, &mut |_| ControlFlow::Continue(())).err().unwrap();
    assert!(error.message.starts_with(&format!("cannot load `{}`: ", path.display())), "{}", error.message);
    let nowhere = LoadPlan { device: Some("cuda7".to_owned()), ..plan };
    let error = Weights::load(Path::new(DEMO), &nowhere, &mut |_| ControlFlow::Continue(())).err().unwrap();
    assert_eq!(error.message, "no device `cuda7`; this build sees `cpu`");
}

#[test]
fn all_layers_are_said_in_more_than_one_way() {
    for (on_gpu, expected) in [(-1, true), (-2, true), (31, true), (33, true), (30, false), (0, false)] {
        assert_eq!(is_whole(on_gpu, 30), expected, "{on_gpu}");
    }
}
