use super::*;
use crate::model::gguf::tiny_gguf::{Tiny, Value};
use crate::model::gguf::{Header, Shape};

fn shape(tiny: &Tiny) -> Shape {
    Header::from_bytes(&tiny.bytes()).unwrap().shape()
}

fn gpu(name: &str, free: u64) -> Device {
    let text = String::new;
    Device {
        kind: DeviceKind::Gpu,
        index: 0,
        name: name.to_owned(),
        description: text(),
        backend: text(),
        total: free,
        free,
    }
}

/// Two layers with keys and values of 256 bytes a token, trained on 32,768.
fn model() -> Shape {
    shape(&Tiny::llama().set("llama.context_length", Value::U32(32_768)))
}

/// What it needs on the CPU.
fn needed(shape: &Shape, ctx: u32) -> u64 {
    let wish = Wish { ctx: Some(ctx), ..Wish::default() };
    plan(shape, Room { devices: &[], memory: None }, &wish).unwrap().all(Part::needed)
}

#[test]
fn everything_on_the_cpu_is_counted() {
    let shape = model();
    let plan = plan(&shape, Room { devices: &[], memory: None }, &Wish::default()).unwrap();
    let [part] = &plan.parts[..] else { panic!("{plan:?}") };
    assert_eq!((plan.ctx, plan.layers, plan.gpu_layers(), part.layers), (8192, 3, 0, 3));
    assert_eq!(part.weights, shape.tensor_bytes);
    assert_eq!(part.cache, 8192 * 256);
    assert_eq!(part.output, 268 * 4);
    assert_eq!(part.compute, shape.compute.bytes(&shape.cache, 8192, 512, KvType::F16, true));
    assert_eq!((part.marks, part.margin), (0, 128 << 20));
    assert_eq!(part.used(), part.weights + part.cache + part.output + part.compute);
}

#[test]
fn the_usual_window_is_halved_until_it_fits() {
    let shape = model();
    for (free, expected) in [
        (None, 8192),
        (Some(needed(&shape, 8192)), 8192),
        (Some(needed(&shape, 8192) - 1), 4096),
        (Some(needed(&shape, 512)), 512),
    ] {
        let room = Room { devices: &[], memory: free };
        assert_eq!(plan(&shape, room, &Wish::default()).unwrap().ctx, expected, "{free:?}");
    }
    for (trained, expected) in [(300, 300), (0, 1), (2048, 2048)] {
        let shape = self::shape(&Tiny::llama().set("llama.context_length", Value::U32(trained)));
        let room = Room { devices: &[], memory: None };
        assert_eq!(plan(&shape, room, &Wish::default()).unwrap().ctx, expected);
    }
}

#[test]
fn a_wanted_window_is_given_or_refused_with_what_would_fit() {
    let shape = shape(&Tiny::one_layer().set("llama.context_length", Value::U32(32_768)));
    let wish = Wish { ctx: Some(100_000), ..Wish::default() };
    assert_eq!(plan(&shape, Room { devices: &[], memory: None }, &wish).unwrap().ctx, 100_000);
    let too_big = |free| plan(&shape, Room { devices: &[], memory: Some(free) }, &wish).unwrap_err();
    let half = too_big(needed(&shape, 50_000));
    assert_eq!(half.ways, [Way::Context(50_000)]);
    let error = half.error(|_| unreachable!());
    assert_eq!(error.kind, Kind::TooBig);
    assert_eq!(error.message, "the model needs 251.2 MB at context 100,000; 193.7 MB is free");
    assert_eq!(error.hint.as_deref(), Some("try `--ctx 50000`"));
    // With keys and values of eight bits all of it fits.
    let nearly = too_big(needed(&shape, 100_000) - 1);
    assert_eq!(nearly.ways, [Way::Context(50_000), Way::Kv(KvType::Q8_0)]);
    assert_eq!(nearly.error(|_| unreachable!()).hint.as_deref(), Some("try `--ctx 50000` or `--kv q8_0`"));
}

#[test]
fn what_fits_with_no_window_leaves_other_models() {
    let shape = model();
    let least = needed(&shape, 512);
    let room = Room { devices: &[], memory: Some(least - 1) };
    let too_big = plan(&shape, room, &Wish::default()).unwrap_err();
    assert_eq!((too_big.ways.len(), too_big.room), (0, shape.tensor_bytes - 1));
    let error = too_big.error(|room| format!("{room} bytes of weights"));
    assert_eq!(error.hint, Some(format!("{} bytes of weights", shape.tensor_bytes - 1)));
}

#[test]
fn a_gpu_gets_what_fits_from_the_output_down() {
    let shape = model();
    let margin = 1 << 30;
    let wish = Wish { ctx: Some(1024), ..Wish::default() };
    let compute = shape.compute.bytes(&shape.cache, 1024, 512, KvType::F16, true);
    let output = shape.spread.output + shape.spread.copied;
    let layer = shape.spread.layers[0] + 1024 * 128;
    let on = |free: u64| {
        let devices = [gpu("CUDA0", free)];
        plan(&shape, Room { devices: &devices, memory: None }, &wish).unwrap()
    };
    for (free, layers) in [
        (margin + compute + output - 1, 0),
        (margin + compute + output, 1),
        (margin + compute + output + layer, 2),
        (margin + compute + output + 2 * layer, 3),
    ] {
        let plan = on(free);
        assert_eq!((plan.gpu_layers(), plan.layers), (layers, 3));
        assert!(plan.gpus().all(|part| part.needed() <= free && part.name == "CUDA0"));
        // The table of embeddings stays, and the output is a copy of it.
        let weights = shape.tensor_bytes + if layers > 0 { shape.spread.copied } else { 0 };
        assert_eq!(plan.all(|part| part.weights), weights);
        assert_eq!(plan.all(|part| part.cache), 1024 * 256);
    }
}

#[test]
fn layers_that_are_wanted_on_a_gpu_go_there_or_are_refused() {
    let shape = model();
    let compute = shape.compute.bytes(&shape.cache, 512, 512, KvType::F16, true);
    let wish = |gpu_layers| Wish { ctx: Some(512), gpu_layers, ..Wish::default() };
    let devices = [gpu("CUDA0", (1 << 30) + 2 * compute)];
    let room = Room { devices: &devices, memory: None };
    for (layers, expected) in
        [(GpuLayers::Count(0), 0), (GpuLayers::Count(2), 2), (GpuLayers::Count(99), 3), (GpuLayers::All, 3)]
    {
        assert_eq!(plan(&shape, room, &wish(layers)).unwrap().gpu_layers(), expected);
    }
    let devices = [gpu("CUDA0", compute)];
    let too_big = plan(&shape, Room { devices: &devices, memory: None }, &wish(GpuLayers::All)).unwrap_err();
    assert_eq!(too_big.ways, [Way::GpuLayers(0)]);
    let message = too_big.message();
    assert!(message.ends_with(" is free on CUDA0"), "{message}");
    assert_eq!(too_big.error(|_| unreachable!()).hint.as_deref(), Some("try `--gpu-layers 0`"));
}

#[test]
fn a_second_gpu_gets_what_the_first_has_no_room_for() {
    let shape = model();
    let wish = Wish { ctx: Some(512), ..Wish::default() };
    let compute = shape.compute.bytes(&shape.cache, 512, 512, KvType::F16, true);
    let first = (1 << 30) + compute + shape.spread.output + shape.spread.copied;
    let devices = [gpu("CUDA0", first), gpu("CUDA1", 4 << 30)];
    let plan = plan(&shape, Room { devices: &devices, memory: None }, &wish).unwrap();
    let layers: Vec<(&str, u64)> = plan.parts.iter().map(|part| (part.name.as_str(), part.layers)).collect();
    assert_eq!(layers, [("CUDA0", 1), ("CUDA1", 2), ("CPU", 0)]);
}

#[test]
fn copies_of_what_cannot_go_back_are_counted() {
    let room = Room { devices: &[], memory: None };
    let marks = |tiny: &Tiny| plan(&shape(tiny), room, &Wish::default()).unwrap().parts[0].marks;
    assert_eq!(marks(&Tiny::one_layer()), 0);
    // Two of the layers keep 512 tokens of 128 bytes; states are 19,456 bytes.
    assert_eq!(marks(&Tiny::sliding()), 8 * 2 * 512 * 128);
    assert_eq!(marks(&Tiny::recurrent()), 8 * 19_456);
}

#[test]
fn a_smaller_batch_and_all_scores_at_once_change_the_compute_buffer() {
    let shape = model();
    let room = Room { devices: &[], memory: None };
    let compute = |wish: Wish| plan(&shape, room, &wish).unwrap().parts[0].compute;
    let usual = compute(Wish::default());
    assert!(compute(Wish { ubatch: 128, ..Wish::default() }) < usual / 3);
    // Four heads of 8192 scores for each of 512 tokens, and a mask of 32 bits.
    let scores = compute(Wish { flash: false, ..Wish::default() });
    assert!(scores > 4 * 8192 * 512 * 4 && scores > usual, "{scores}");
}
