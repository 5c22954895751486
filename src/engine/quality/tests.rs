use super::super::*;
use super::*;
use std::ops::ControlFlow;
use std::path::Path;

/// Compare the files that the environment names, for a person to hold against llama.cpp's own tool.
#[test]
#[ignore = "a tool for a person"]
fn compare_two_files() {
    let var = |name: &str| std::env::var(name).unwrap();
    let text = std::fs::read_to_string(var("QUALITY_TEXT")).unwrap();
    let plan =
        LoadPlan { gpu_layers: GpuLayers::Count(0), device: None, ctx: 0, threads: 2, kv: KvType::F16 };
    let how = Measuring {
        plan: &plan,
        text: &text,
        together: std::env::var("QUALITY_APART").is_err(),
        folder: Path::new("/tmp"),
        brake: Default::default(),
    };
    let mut sink = |_: Event<'_>| ControlFlow::Continue(());
    let (a, b) = (var("QUALITY_A"), var("QUALITY_B"));
    if std::env::var("QUALITY_PPL").is_ok() {
        let weights = how.load(Path::new(&b), &mut sink).unwrap();
        let t = std::time::Instant::now();
        println!(
            "{:.6?}",
            perplexity(&mut how.open(&weights).unwrap(), &text, 2, &mut |_, _| ControlFlow::Continue(()))
                .unwrap()
        );
        println!("{:?}", t.elapsed());
        return;
    }
    let t = std::time::Instant::now();
    println!("{:#?}", compare_files(Path::new(&a), Path::new(&b), &how, &mut sink).unwrap());
    println!("{:?}", t.elapsed());
}
