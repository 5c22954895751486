//! `infer bench`: rows as they come, in every form. What the figures are worth is for `make bench` to say.

use serde_json::{Value, json};

use crate::support::{Infer, Stream};

/// Two tests of few tokens, without an answer.
const SHORT: [&str; 10] = ["-p", "8", "-g", "4", "-a", "0+0", "-r", "2", "--threads", "1"];

fn bench(args: &[&str]) -> Infer {
    // A busy machine has noisy rows, which is said.
    Infer::new().args(["bench", "demo", "-q"]).args(args.iter().copied()).stderr_is(|_| true)
}

fn rows(text: &str) -> Vec<Value> {
    serde_json::from_str(text).expect("an array of rows")
}

/// The rows that a run prints with `-o json`.
fn measured(args: &[&str]) -> Vec<Value> {
    rows(&bench(args).args(["-o", "json"]).stdout_is(|_| true).run().stdout)
}

#[test]
fn each_test_is_a_row_with_what_it_did() {
    let rows = measured(&["-p", "8,16", "-g", "4", "-d", "0,32", "-a", "8+4", "-r", "3", "-t", "1"]);
    let tests: Vec<[&Value; 3]> =
        rows.iter().map(|row| ["n_prompt", "n_gen", "n_depth"].map(|key| &row[key])).collect();
    let expected = [[8, 0, 0], [16, 0, 0], [0, 4, 0], [8, 4, 0], [8, 0, 32], [16, 0, 32], [0, 4, 32]];
    assert_eq!(json!(tests), json!(expected));
    for row in &rows {
        let samples: Vec<f64> =
            row["samples_ns"].as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect();
        assert_eq!(samples.len(), 3);
        assert!(samples.iter().all(|n| *n > 0.0), "{samples:?}");
        let tokens = row["n_prompt"].as_f64().unwrap() + row["n_gen"].as_f64().unwrap();
        let mut rates: Vec<f64> = samples.iter().map(|ns| tokens / ns * 1e9).collect();
        rates.sort_by(f64::total_cmp);
        assert!((row["median_ts"].as_f64().unwrap() / rates[1] - 1.0).abs() < 1e-3, "{row}");
        assert_eq!(
            (&row["n_threads"], &row["type_k"], &row["n_batch"]),
            (&json!(1), &json!("f16"), &json!(512))
        );
        assert!(row["load_ms"].as_f64().unwrap() > 0.0);
    }
    let is_answer = |row: &&Value| row["ttft_ms"].is_f64();
    let answers: Vec<&Value> = rows.iter().filter(is_answer).collect();
    assert_eq!(answers.len(), 1);
    let answer = answers[0];
    assert_eq!((&answer["n_prompt"], &answer["n_gen"]), (&json!(8), &json!(4)));
    assert!(answer["tpot_p95_ms"].as_f64() >= answer["tpot_ms"].as_f64());
    // All but the last token, which is always evaluated.
    assert_eq!(answer["cache_hit"], json!(7.0 / 8.0));
}

#[test]
fn lists_are_combined() {
    let rows = measured(&[&SHORT[..8], &["-t", "1,2", "--flash", "on,off", "-b", "4"]].concat());
    let settings: Vec<[&Value; 4]> = rows
        .iter()
        .map(|row| ["flash_attn", "n_threads", "n_batch", "n_ubatch"].map(|key| &row[key]))
        .collect();
    let expected: Vec<[i32; 4]> = [[1, 1, 4, 4], [1, 2, 4, 4], [0, 1, 4, 4], [0, 2, 4, 4]]
        .into_iter()
        .flat_map(|row| [row, row])
        .collect();
    assert_eq!(json!(settings), json!(expected));
}

#[test]
fn every_form_has_the_rows() {
    let lines = |form: &str| -> Vec<String> {
        let ran = bench(&SHORT).args(["-o", form]).stdout_is(|_| true).run();
        ran.stdout.lines().map(str::to_owned).collect()
    };
    let csv = lines("csv");
    assert!(csv.len() == 3 && csv[0].starts_with("build_commit,build_number,cpu_info"), "{csv:?}");
    let jsonl = lines("jsonl");
    assert_eq!(jsonl.len(), 2);
    assert!(jsonl.iter().all(|line| serde_json::from_str::<Value>(line).is_ok_and(|v| v.is_object())));
    let md = lines("md");
    assert!(
        md.len() == 6 && md[1].starts_with("| -") && md[2].contains("pp8") && md[3].contains("tg4"),
        "{md:?}"
    );
    let table = lines("table").join("\n");
    assert!(table.contains("pp8") && table.contains("tg4"), "{table}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_the_rows_that_are_there() {
    let ran = bench(&["-p", "8", "-g", "100000", "-a", "0+0", "-r", "2", "-o", "json"])
        .interrupt_after(Stream::Stdout, "\"n_prompt\": 8")
        .stdout_is(|_| true)
        .status(130)
        .run();
    let rows = rows(&ran.stdout);
    assert_eq!(rows.len(), 1);
    assert_eq!((&rows[0]["n_prompt"], &rows[0]["n_gen"]), (&json!(8), &json!(0)));
}

#[test]
fn a_reader_that_is_gone_ends_it() {
    // The last test would take minutes.
    bench(&["-p", "8,16,32", "-g", "100000", "-a", "0+0", "-r", "50", "-d", "0", "-o", "jsonl"])
        .hang_up_after(10)
        .stdout_is(|_| true)
        .run();
}

#[test]
fn an_error_is_an_object_where_rows_would_be() {
    let ran = bench(&["-o", "json", "--device", "cuda7"]).stdout_is(|_| true).status(1).run();
    let error: Value = serde_json::from_str(&ran.stdout).expect("an object");
    assert!(error["error"]["message"].as_str().is_some_and(|text| text.starts_with("no device `cuda7`")));
}

#[test]
fn a_baseline_is_compared_row_by_row() {
    let before = measured(&SHORT);
    let with = |factor: f64| {
        let mut rows = before.clone();
        for row in &mut rows {
            for key in ["avg_ts", "median_ts"] {
                row[key] = json!(row[key].as_f64().unwrap() * factor);
            }
            let samples = row["samples_ts"].as_array_mut().expect("samples");
            for sample in samples {
                *sample = json!(sample.as_f64().unwrap() * factor);
            }
        }
        json!(rows).to_string()
    };
    for (factor, status) in [(1e-6, 0), (1e6, 1)] {
        let ran = bench(&SHORT)
            .file("before.json", with(factor))
            .args(["--baseline", "before.json", "--fail-slower", "10"])
            .stdout_is(|_| true)
            .status(status)
            .run();
        assert_eq!(ran.stderr.contains("slower"), status == 1, "{}", ran.stderr);
    }
}

#[test]
fn what_cannot_be_measured_is_said_before_anything_is() {
    for (args, status, said) in [
        (&["-p", "0", "-g", "0", "-a", "0+0"][..], 2, "error: no test is left"),
        (&["--baseline", "none.json"], 2, "error: cannot read `none.json`"),
        (&["--plot", "none/a.svg"], 2, "error: `none` is not a folder"),
        (&["-p", "0", "-g", "0", "--plot", "a.svg"], 2, "error: there is nothing to plot"),
        (&["--fail-slower", "5"], 2, "error: the following required arguments were not provided"),
        (&["--device", "cuda7"], 1, "error: no device `cuda7`"),
        (&["--plot", "notes.txt"], 2, "error: `notes.txt` exists and is not a plot"),
        (&["--plot", "none/depth.svg"], 2, "error: `none` is not a folder"),
    ] {
        let ran = bench(args).file("notes.txt", "mine").status(status).run();
        let notes = std::fs::read_to_string(ran.home.path().join("notes.txt"));
        assert_eq!(notes.expect("the notes"), "mine");
        assert!(ran.stderr.starts_with(said), "{}", ran.stderr);
    }
    let ran = Infer::new().args(["bench", "demo", "nosuchmodel"]).stderr_is(|_| true).status(3).run();
    assert!(ran.stderr.contains("nosuchmodel"), "{}", ran.stderr);
}

#[test]
fn a_plot_is_a_drawing() {
    let ran = bench(&SHORT).args(["-d", "0,16", "--plot", "depth.svg"]).stdout_is(|_| true).run();
    let path = ran.home.path().join("depth.svg");
    let drawing = std::fs::read_to_string(&path).expect("a plot");
    assert!(drawing.starts_with("<svg") && drawing.contains("tg4"), "{drawing}");
    #[cfg(unix)]
    {
        // As readable as any file made here.
        let mode = |path: &std::path::Path| {
            std::os::unix::fs::PermissionsExt::mode(&path.metadata().expect("a file").permissions())
        };
        let other = ran.home.path().join("other");
        std::fs::write(&other, "").expect("a file");
        assert_eq!(mode(&path), mode(&other));
    }
}
