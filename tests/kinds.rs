//! Tiny models of every kind of memory, through the whole program.

use crate::support::Infer;
use crate::support::tiny_gguf::{KINDS, Tiny};
use crate::window::dropped_turns;

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

/// Where tokens cannot move, sliding is rebuilding. Where they can, these models cannot tell the difference: what is cached of a
/// token depends on that token alone, as they have one layer, and on its place.
#[test]
fn every_kind_keeps_talking_when_its_window_is_full_and_says_the_same_as_when_it_is_rebuilt() {
    let lines = "abcdefghij abcdefghij abcdefghij abcdefghij abcdefghij\n".repeat(20);
    for (name, make) in KINDS {
        for kv in ["f16", "q8_0", "q4_0"] {
            let chat = |overflow: &str| {
                let chat = infer("chat", &make()).args(["-c", "256", "-n", "10", "--kv", kv]);
                let chat = chat.args(["--overflow", overflow]).stdin(lines.clone());
                chat.stdout_is(|_| true).stderr_is(|_| true).run()
            };
            let (slide, rebuild) = (chat("slide"), chat("rebuild"));
            let about_kv = match name {
                "recurrent" if kv != "f16" => {
                    format!("the model keeps no keys and values: `--kv {kv}` changes nothing\n")
                }
                _ => String::new(),
            };
            let said = rebuild.stderr.strip_prefix(&about_kv).expect(name);
            // Two of the twenty turns have room, whatever was answered.
            assert_eq!(dropped_turns(said), Some(18), "{name} {kv}\n{said}");
            let reason = unshiftable(name, kv).map_or(String::new(), |reason| {
                format!("window: this model's memory cannot slide, {reason}; what stays is evaluated again\n")
            });
            assert_eq!(slide.stderr, about_kv + &reason + said, "{name} {kv}");
            assert_eq!(slide.stdout, rebuild.stdout, "{name} {kv}");
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
