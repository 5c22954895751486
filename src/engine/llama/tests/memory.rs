//! What must hold of the memory of each kind of model when tokens leave it from the middle or from the end.

use super::*;
use crate::engine::log::lines_of;
use crate::engine::tiny_gguf::{KINDS, Tensor, Tiny, Value};

fn load(tiny: &Tiny, ctx: u32, kv: KvType) -> Weights {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    tiny.write(&path);
    let plan = LoadPlan::on_cpu(ctx, kv, 1);
    Weights::load(&path, &plan, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn open(weights: &Weights) -> Llama<'_> {
    weights.open(Brake::default()).unwrap()
}

/// Some ordinary tokens of the tiny vocabulary, others for each seed.
fn some(count: usize, seed: u64) -> Vec<Token> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut token = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        4 + Token::try_from((state >> 33) % 256).unwrap()
    };
    (0..count).map(|_| token()).collect()
}

/// The logits after these tokens at the end of the cache.
fn logits(llama: &mut Llama<'_>, tokens: &[Token]) -> Vec<f32> {
    assert_eq!(llama.feed(tokens, true).unwrap(), Fed::All);
    llama.logits().unwrap().to_vec()
}

/// The logits after each of these texts in turn, in a context of their own.
fn fresh(weights: &Weights, parts: &[&[Token]]) -> Vec<f32> {
    let mut llama = open(weights);
    let parts = parts.iter().filter(|part| !part.is_empty());
    parts.map(|part| logits(&mut llama, part)).last().unwrap()
}

/// The largest difference of two rows of logits, as a share of what lies between the least and the greatest.
fn distance(a: &[f32], b: &[f32]) -> f32 {
    let (low, high) =
        b.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
    a.iter().zip(b).fold(0.0_f32, |most, (a, b)| most.max((a - b).abs())) / (high - low)
}

/// The first and the last position in the cache.
fn positions(llama: &Llama<'_>) -> (i32, i32) {
    // SAFETY: a valid memory, sequence 0 exists.
    unsafe {
        (sys::llama_memory_seq_pos_min(llama.memory, 0), sys::llama_memory_seq_pos_max(llama.memory, 0))
    }
}

#[test]
fn each_kind_says_what_its_memory_can_do() {
    let sums_up = Some("it sums up all that it has read");
    for (tiny, goes_back, unshiftable) in [
        (Tiny::llama(), true, None),
        (Tiny::one_layer(), true, None),
        (Tiny::latent(), true, None),
        (Tiny::mrope(), true, Some("its positions are not plain rotations")),
        (Tiny::sliding(), false, Some("some of its layers keep the last tokens only")),
        (Tiny::recurrent(), false, sums_up),
        (Tiny::hybrid(), false, sums_up),
    ] {
        let weights = load(&tiny, 256, KvType::F16);
        let llama = open(&weights);
        assert_eq!(
            (llama.goes_back(), llama.unshiftable()),
            (goes_back, unshiftable),
            "{:?}",
            tiny.metadata[0]
        );
    }
}

#[test]
fn what_cannot_move_is_left_as_it_was() {
    for tiny in [Tiny::mrope(), Tiny::sliding(), Tiny::recurrent(), Tiny::hybrid()] {
        let weights = load(&tiny, 256, KvType::F16);
        let (text, more) = (some(100, 1), some(3, 2));
        let mut llama = open(&weights);
        llama.feed(&text, false).unwrap();
        let why = llama.unshiftable().unwrap();
        let error = llama.remove(10..20).unwrap_err();
        assert_eq!(error.message, format!("this model's memory cannot be moved: {why}"));
        assert_eq!((llama.len(), llama.shift_pending), (100, false));
        assert_eq!(logits(&mut llama, &more), fresh(&weights, &[&text, &more]));
    }
}

#[test]
fn positions_close_up_behind_what_is_removed() {
    for tiny in [Tiny::llama(), Tiny::one_layer(), Tiny::latent()] {
        let weights = load(&tiny, 512, KvType::F16);
        let mut llama = open(&weights);
        llama.feed(&some(300, 1), true).unwrap();
        llama.remove(10..110).unwrap();
        assert_eq!((llama.len(), positions(&llama), llama.shift_pending), (200, (0, 199), true));
        assert_eq!(llama.feed(&some(5, 2), true).unwrap(), Fed::All);
        assert_eq!((llama.len(), positions(&llama), llama.shift_pending), (205, (0, 204), false));
        // At either end.
        llama.remove(0..5).unwrap();
        llama.remove(195..200).unwrap();
        assert_eq!((llama.len(), positions(&llama)), (195, (0, 194)));
        assert_eq!(llama.feed(&some(512 - 195, 3), true).unwrap(), Fed::All);
        assert_eq!(positions(&llama), (0, 511));
        // What goes from the end moves nothing.
        llama.remove(500..512).unwrap();
        assert_eq!((positions(&llama), llama.shift_pending), ((0, 499), false));
        assert_eq!(llama.remove(490..501).unwrap_err().message, "the cache holds 500 tokens, not 501");
    }
}

/// The tiny one-layer model with a head of 64 numbers, the fewest that llama.cpp can turn quantized.
fn wide() -> Tiny {
    let double = |tensor: &mut Tensor| {
        tensor.dims[1] *= 2;
        tensor.data.extend(tensor.data.clone());
    };
    Tiny::one_layer()
        .set("llama.attention.head_count", Value::U32(1))
        .set("llama.rope.dimension_count", Value::U32(64))
        .change_tensor("blk.0.attn_k.weight", double)
        .change_tensor("blk.0.attn_v.weight", double)
}

/// A one-layer model with another kind of positions.
fn scaled(kind: &str, factor: f32, stretch: f32) -> Tiny {
    Tiny::one_layer()
        .set("llama.rope.scaling.type", Value::Text(kind.into()))
        .set("llama.rope.scaling.factor", Value::F32(factor))
        .set("llama.rope.scaling.attn_factor", Value::F32(stretch))
}

/// How tokens are taken out of the middle.
#[derive(Clone, Copy)]
enum Removal {
    /// As the engine does it.
    Engine,
    /// As llama.cpp does it, without asking whether it can.
    Forced,
    /// With those behind the hole left where they were.
    Gap,
}

/// Take tokens out of a text, and measure how far the logits after more text are from those after what is left.
fn error_after(removal: Removal, weights: &Weights) -> f32 {
    let (text, more, hole) = (some(300, 1), some(8, 2), 20..120);
    let mut llama = open(weights);
    llama.feed(&text, false).unwrap();
    if let Removal::Engine = removal {
        llama.remove(hole.clone()).unwrap();
    } else {
        // SAFETY: a valid memory, sequence 0 exists.
        assert!(unsafe { sys::llama_memory_seq_rm(llama.memory, 0, 20, 120) });
    }
    if let Removal::Forced = removal {
        // SAFETY: as above, and the memory can shift.
        unsafe { sys::llama_memory_seq_add(llama.memory, 0, 120, -1, -100) }
    }
    let left = fresh(weights, &[&text[..hole.start], &text[hole.end..], &more]);
    distance(&logits(&mut llama, &more), &left)
}

#[test]
fn one_layer_cannot_tell_moved_tokens_from_fresh_ones() {
    for (name, tiny, kv, most) in [
        ("plain", Tiny::one_layer(), KvType::F16, 0.002),
        ("latent", Tiny::latent(), KvType::F16, 0.002),
        ("linear", scaled("linear", 4.0, 1.0), KvType::F16, 0.002),
        ("wide", wide(), KvType::F16, 0.002),
        ("wide", wide(), KvType::Q8_0, 0.01),
        ("wide", wide(), KvType::Q4_0, 0.15),
    ] {
        let weights = load(&tiny, 512, kv);
        let error = error_after(Removal::Engine, &weights);
        assert!(error < most, "{name} {kv}: {error}");
        let gap = error_after(Removal::Gap, &weights);
        assert!(gap > 0.16, "{name} {kv}: a forgotten move is an error of {gap} only");
    }
}

#[test]
fn what_llama_cpp_turns_wrongly_is_not_moved() {
    let wrongly = "llama.cpp would turn its keys wrongly";
    for (name, tiny) in [
        ("yarn", scaled("yarn", 4.0, 1.0)),
        ("stretched", scaled("linear", 1.0, 1.2)),
        ("without positions", Tiny::without_positions()),
    ] {
        let weights = load(&tiny, 512, KvType::F16);
        assert_eq!(open(&weights).unshiftable(), Some(wrongly), "{name}");
        // When this fails, llama.cpp has learned it.
        let error = error_after(Removal::Forced, &weights);
        assert!(error > 0.03, "{name}: {error}");
    }
}

#[test]
fn quantized_keys_move_only_where_llama_cpp_can_turn_them() {
    let cannot = Some("its quantized keys cannot be turned");
    // llama.cpp would crash on a head of 32 numbers, and turn half of one of 64 wrongly.
    for (tiny, kv, expected) in [
        (Tiny::one_layer(), KvType::F16, None),
        (Tiny::one_layer(), KvType::Q8_0, cannot),
        (Tiny::one_layer(), KvType::Q4_0, cannot),
        (Tiny::latent(), KvType::Q8_0, cannot),
        (wide(), KvType::Q8_0, None),
        (wide(), KvType::Q4_0, None),
    ] {
        let weights = load(&tiny, 256, kv);
        assert_eq!(open(&weights).unshiftable(), expected, "{kv}");
    }
}

#[test]
fn to_remove_nothing_changes_nothing() {
    let weights = load(&Tiny::llama(), 512, KvType::F16);
    let (text, more) = (some(100, 1), some(3, 2));
    let mut llama = open(&weights);
    llama.feed(&text, false).unwrap();
    for nothing in [0..0, 50..50, 100..100] {
        llama.remove(nothing).unwrap();
    }
    assert_eq!((llama.len(), llama.shift_pending), (100, false));
    assert_eq!(logits(&mut llama, &more), fresh(&weights, &[&text, &more]));
}

/// Take a hundred tokens out of a text. How often in its last hundred tokens is the same one expected next as without
/// them? With `moved` the rest moves up.
fn agreement(weights: &Weights, text: &[Token], moved: bool) -> usize {
    let (past, next) = text.split_at(text.len() - 100);
    let (mut cut, mut left) = (open(weights), open(weights));
    left.feed(&[&past[..20], &past[120..]].concat(), false).unwrap();
    cut.feed(past, false).unwrap();
    if moved {
        cut.remove(20..120).unwrap();
    } else {
        // SAFETY: a valid memory, sequence 0 exists.
        assert!(unsafe { sys::llama_memory_seq_rm(cut.memory, 0, 20, 120) });
    }
    let agree =
        |&&token: &&Token| argmax(&logits(&mut cut, &[token])) == argmax(&logits(&mut left, &[token]));
    next.iter().filter(agree).count()
}

#[test]
fn several_layers_mostly_agree() {
    let tiny = load(&Tiny::llama(), 512, KvType::F16);
    let (moved, gap) = (agreement(&tiny, &some(400, 1), true), agreement(&tiny, &some(400, 1), false));
    assert!(moved >= 55 && moved > gap + 10, "{moved} and {gap} of 100");
    let demo = weights(1024, KvType::F16);
    let sentence = "Once upon a time there was a fox named Lily. She lived in a forest with her mother. ";
    let text = open(&demo).tokenize(&sentence.repeat(14), false).unwrap();
    let moved = agreement(&demo, &text[..400], true);
    assert!(moved >= 95, "{moved} of 100");
}

#[test]
fn an_answer_of_ten_windows_keeps_going_in_the_same_memory() {
    for (tiny, kv) in [(Tiny::llama(), KvType::F16), (Tiny::latent(), KvType::F16), (wide(), KvType::Q8_0)] {
        let said = lines_of(|| {
            let weights = load(&tiny, 256, kv);
            fill_ten_times(&mut open(&weights));
        });
        // What llama.cpp says when a context ends: of the memory reserved when it began.
        let grown = said.iter().rfind(|line| line.contains("compute buffer size")).unwrap();
        assert!(grown.contains(", matches expectation of "), "{grown}");
    }
}

/// Read ten times as many tokens as the window has, and drop the older half of them whenever it is full.
fn fill_ten_times(llama: &mut Llama<'_>) {
    let mut evictions = 0;
    for chunk in some(10 * llama.window(), 1).chunks(7) {
        let before = llama.len();
        if before + chunk.len() > llama.window() {
            let half = (before - 4) / 2;
            llama.remove(4..4 + half).unwrap();
            assert_eq!(llama.len(), before - half);
            evictions += 1;
        }
        assert_eq!(llama.feed(chunk, true).unwrap(), Fed::All);
        assert_eq!(positions(llama), (0, i32::try_from(llama.len()).unwrap() - 1));
        assert!(llama.logits().is_ok());
    }
    assert!(evictions >= 18, "{evictions}");
}

/// Kinds that cannot go back by themselves, with a window that they leave.
fn marked() -> [(&'static str, Weights); 3] {
    [("sliding", Tiny::sliding()), ("recurrent", Tiny::recurrent()), ("hybrid", Tiny::hybrid())]
        .map(|(name, tiny)| (name, load(&tiny, 4096, KvType::F16)))
}

/// The logits after more tokens at the end of the cache are those of a context that read nothing else, up to what it
/// makes to read in other batches. Other texts differ by twenty times as much at least.
fn assert_as_fresh(llama: &mut Llama<'_>, weights: &Weights, past: &[Token], what: &str) {
    let more = some(5, 99);
    let error = distance(&logits(llama, &more), &fresh(weights, &[past, &more]));
    assert!(error < 1e-3, "{what}: {error}");
}

#[test]
fn a_mark_brings_back_what_was_overwritten() {
    for (name, weights) in marked() {
        let (text, other) = (some(1000, 1), some(900, 2));
        let mut llama = open(&weights);
        llama.feed(&text, false).unwrap();
        llama.mark().unwrap();
        llama.feed(&other, false).unwrap();
        // Without the mark, it would not do.
        let mut unmarked = open(&weights);
        unmarked.feed(&text, false).unwrap();
        unmarked.feed(&other, false).unwrap();
        assert_eq!((unmarked.truncate(1000).unwrap(), unmarked.len()), (0, 0), "{name}");
        // To the mark, and once more; a place behind it is as far as it goes.
        for back in [1000, 1000, 1003] {
            assert_eq!((llama.truncate(back).unwrap(), llama.len()), (1000, 1000), "{name}");
            assert_as_fresh(&mut llama, &weights, &text, name);
            llama.feed(&other, false).unwrap();
        }
        let more = some(5, 99);
        let wrong = distance(&fresh(&weights, &[&text, &other, &more]), &fresh(&weights, &[&text, &more]));
        assert!(wrong > 0.02, "{name}: {wrong}");
        // Before the mark there is nothing.
        assert_eq!((llama.truncate(999).unwrap(), llama.len()), (0, 0), "{name}");
        assert_as_fresh(&mut llama, &weights, &[], name);
    }
}

#[test]
fn of_several_marks_the_last_that_fits_is_taken() {
    for (name, weights) in marked() {
        let text = some(3000, 1);
        let mut llama = open(&weights);
        for part in text.chunks(500) {
            llama.feed(part, false).unwrap();
            llama.mark().unwrap();
            llama.mark().unwrap();
        }
        assert_eq!(llama.truncate(2200).unwrap(), 2000, "{name}");
        assert_as_fresh(&mut llama, &weights, &text[..2000], name);
        llama.mark().unwrap();
        llama.feed(&some(900, 3), false).unwrap();
        // The marks beyond are gone with what they stood for, and one is where five more tokens came.
        let five = [&text[..2000], &some(5, 99)].concat();
        assert_eq!(llama.truncate(2100).unwrap(), 2005, "{name}");
        assert_as_fresh(&mut llama, &weights, &five, name);
        assert_eq!(llama.truncate(1400).unwrap(), 1000, "{name}");
        assert_as_fresh(&mut llama, &weights, &text[..1000], name);
    }
}

#[test]
fn when_there_are_too_many_marks_the_first_and_the_latest_stay() {
    for (name, weights) in marked() {
        let text = some(3600, 1);
        let mut llama = open(&weights);
        for part in text.chunks(300) {
            llama.feed(part, false).unwrap();
            llama.mark().unwrap();
        }
        // Of twelve there is room for eight.
        assert_eq!(llama.marks.places(), [300, 1800, 2100, 2400, 2700, 3000, 3300, 3600], "{name}");
        llama.feed(&some(200, 3), false).unwrap();
        assert_eq!(llama.truncate(1900).unwrap(), 1800, "{name}");
        assert_as_fresh(&mut llama, &weights, &text[..1800], name);
        assert_eq!(llama.truncate(1700).unwrap(), 300, "{name}");
        assert_as_fresh(&mut llama, &weights, &text[..300], name);
    }
}

#[test]
fn a_window_goes_back_by_itself_as_far_as_it_still_sees() {
    let weights = load(&Tiny::sliding(), 4096, KvType::F16);
    let text = some(2000, 1);
    let mut llama = open(&weights);
    llama.feed(&text, false).unwrap();
    assert_eq!(llama.truncate(1990).unwrap(), 1990);
    assert_as_fresh(&mut llama, &weights, &text[..1990], "ten tokens");
}

#[test]
fn other_memories_go_back_to_any_place_by_themselves() {
    for (tiny, kv) in [
        (Tiny::llama(), KvType::F16),
        (Tiny::mrope(), KvType::F16),
        (Tiny::mrope(), KvType::Q8_0),
        (Tiny::latent(), KvType::Q4_0),
    ] {
        let weights = load(&tiny, 512, kv);
        let text = some(300, 1);
        let mut llama = open(&weights);
        llama.mark().unwrap();
        llama.feed(&text, false).unwrap();
        llama.mark().unwrap();
        assert!(llama.marks.places().is_empty());
        assert_eq!((llama.truncate(123).unwrap(), positions(&llama)), (123, (0, 122)));
        assert_as_fresh(&mut llama, &weights, &text[..123], "cut in the middle");
    }
}

#[test]
fn a_state_cannot_go_back_by_a_single_token() {
    for tiny in [Tiny::recurrent(), Tiny::hybrid()] {
        let weights = load(&tiny, 256, KvType::F16);
        let mut llama = open(&weights);
        llama.feed(&some(50, 1), false).unwrap();
        assert_eq!((llama.truncate(50).unwrap(), llama.len()), (50, 50));
        assert_eq!((llama.truncate(49).unwrap(), llama.len()), (0, 0));
    }
}

#[test]
fn a_batch_cut_short_leaves_nothing_behind() {
    let plain = ("plain", load(&Tiny::llama(), 4096, KvType::F16));
    for (name, weights) in marked().into_iter().chain([plain]) {
        let text = some(1000, 1);
        let mut llama = open(&weights);
        llama.feed(&text[..900], false).unwrap();
        llama.mark().unwrap();
        llama.feed(&text[900..], false).unwrap();
        llama.brake.store(true, Ordering::Relaxed);
        assert_eq!(llama.decode(&some(300, 2), &mut [0; 300]), 2, "{name}");
        llama.brake.store(false, Ordering::Relaxed);
        // A state that sums up has read some of the batch already.
        let stays = if llama.recurrent { 900 } else { 1000 };
        assert_eq!((llama.forget_half_done(1000).unwrap(), llama.len()), (stays, stays), "{name}");
        assert_as_fresh(&mut llama, &weights, &text[..stays], name);
    }
}

#[test]
fn keys_that_were_turned_in_part_are_forgotten() {
    let weights = load(&Tiny::one_layer(), 512, KvType::F16);
    let mut llama = open(&weights);
    let text = some(300, 1);
    llama.feed(&text, false).unwrap();
    llama.remove(20..120).unwrap();
    llama.brake.store(true, Ordering::Relaxed);
    // Before the batch nothing has been turned.
    assert_eq!(llama.feed(&some(50, 2), false).unwrap(), Fed::Interrupted(200));
    assert_eq!(llama.decode(&some(50, 2), &mut [0; 50]), 2);
    llama.brake.store(false, Ordering::Relaxed);
    assert_eq!((llama.forget_half_done(200).unwrap(), llama.len(), llama.shift_pending), (0, 0, false));
    assert_as_fresh(&mut llama, &weights, &[], "an empty cache");
}

#[test]
fn what_was_saved_goes_on_in_each_kind_as_if_nothing_had_happened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    for (name, make) in KINDS {
        let weights = load(&make(), 512, KvType::F16);
        // Short, and long enough for what slides to have lost its beginning.
        for len in [20, 300] {
            let (text, more) = (some(len, 1), [some(5, 2), some(1, 3)]);
            let mut llama = open(&weights);
            llama.feed(&text, false).unwrap();
            let size = llama.state_size().unwrap();
            llama.save(&path, &text).unwrap();
            assert_eq!(path.metadata().unwrap().len(), size, "{name}");
            let wanted = more.each_ref().map(|more| logits(&mut llama, more));
            let mut other = open(&weights);
            other.feed(&some(50, 4), true).unwrap();
            assert!(other.restore(&path, &text), "{name}");
            assert_eq!(other.len(), len, "{name}");
            other.mark().unwrap();
            assert_eq!(more.each_ref().map(|more| logits(&mut other, more)), wanted, "{name} {len}");
            // Where memory does not go back by itself it does to the mark.
            assert_eq!(other.truncate(len).unwrap(), len, "{name}");
            assert_eq!(more.each_ref().map(|more| logits(&mut other, more)), wanted, "{name} {len}, again");
            assert!(!other.restore(&path, &text[1..]), "{name}");
            assert_eq!(logits(&mut other, &text), fresh(&weights, &[&text]), "{name}, empty again");
        }
    }
}
