//! Tiny models of every kind of memory, through the whole program.

use crate::support::Infer;
use crate::support::tiny_gguf::{KINDS, Tiny};

fn infer(verb: &str, tiny: &Tiny) -> Infer {
    Infer::new().args([verb, "tiny.gguf", "-t", "1", "--temp", "0"]).file("tiny.gguf", tiny.bytes())
}

/// Why the memory of a kind cannot slide, if it cannot.
fn unshiftable(name: &str, kv: &str) -> Option<&'static str> {
    match name {
        "recurrent" | "hybrid" => Some("it sums up all that it has read"),
        "sliding" => Some("some of its layers keep the last tokens only"),
        "m-rope" => Some("its positions are not plain rotations"),
        _ if kv != "f16" => Some("its quantized keys cannot be turned"),
        _ => None,
    }
}

#[test]
fn every_kind_keeps_talking_when_its_window_is_full() {
    let lines = "abcdefghij abcdefghij abcdefghij abcdefghij abcdefghij\n".repeat(20);
    for (name, make) in KINDS {
        for kv in ["f16", "q8_0", "q4_0"] {
            let ran = infer("chat", &make())
                .args(["-c", "256", "-n", "10", "--kv", kv])
                .stdin(lines.clone())
                .stdout_is(|_| true)
                .stderr_is(|_| true)
                .run();
            let lines_with = |words: &str| ran.stderr.lines().filter(|line| line.contains(words)).count();
            assert!(lines_with("window: dropped 1 turn, ") > 10, "{name} {kv}\n{}", ran.stderr);
            let (all, reason) = (lines_with("cannot slide"), unshiftable(name, kv));
            assert_eq!(all, usize::from(reason.is_some()), "{name} {kv}\n{}", ran.stderr);
            assert!(reason.is_none_or(|reason| lines_with(reason) == 1), "{name} {kv}\n{}", ran.stderr);
        }
    }
}

#[test]
fn the_load_line_says_what_the_context_costs() {
    let run = |tiny: &Tiny| infer("run", tiny).args(["-v", "-n", "1", "x"]).stdout_is(|_| true);
    for (tiny, args, cost) in [
        (Tiny::one_layer(), vec![], "context 512, KV f16 65.5 KB (128 B a token)\n"),
        (Tiny::one_layer(), vec!["-c", "100"], "context 100, KV f16 32.8 KB (128 B a token)\n"),
        (Tiny::one_layer(), vec!["--kv", "q8_0"], "context 512, KV q8_0 34.8 KB (68 B a token)\n"),
        (Tiny::hybrid(), vec![], "context 512, KV f16 65.5 KB (128 B a token), state 768 B\n"),
        (Tiny::recurrent(), vec![], "context 512, state 19.5 KB\n"),
    ] {
        run(&tiny).args(args).stderr_is(move |err| err.contains(&format!("; {cost}"))).run();
    }
}

#[test]
fn a_type_that_a_model_cannot_have_is_refused_before_it_is_loaded() {
    let run = |tiny: &Tiny| infer("run", tiny).args(["--kv", "q4_0", "-n", "1", "x"]);
    let refused = "error: a q4_0 KV cache needs heads of a multiple of 32 values; here they have 16\n\
                   hint: leave `--kv` out\n";
    run(&Tiny::llama()).stderr(refused).status(2).run();
    let no_keys = "the model keeps no keys and values: `--kv q4_0` changes nothing\n";
    run(&Tiny::recurrent()).stdout_is(|_| true).stderr(no_keys).run();
}
