use super::*;

const GB: u64 = 1_000_000_000;

fn files(paths: &[&str]) -> Vec<RemoteFile> {
    paths.iter().map(|path| RemoteFile { path: (*path).to_owned(), size: Some(GB) }).collect()
}

fn paths(variant: &Variant) -> Vec<&str> {
    variant.files.iter().map(|file| file.path.as_str()).collect()
}

/// What a tag (or `""` for none) picks among files: the first file's path, or why nothing.
fn picked(names: &[&str], tag: &str) -> String {
    let wanted = if tag.is_empty() { Pick::Default } else { Pick::Quant(tag.to_owned()) };
    outcome(names, &wanted)
}

fn outcome(names: &[&str], wanted: &Pick) -> String {
    let first = |variant: &Variant| variant.files[0].path.clone();
    match pick(&variants(&files(names)), wanted) {
        Ok(variant) => first(variant),
        Err(Unpicked::NoGguf) => "no gguf".to_owned(),
        Err(Unpicked::NoDefault) => "no default".to_owned(),
        Err(Unpicked::Holes(variant)) => format!("holes in {}", first(variant)),
        Err(Unpicked::NoSuch { nearest, .. }) => {
            format!("none, nearest {}", nearest.map_or("-".to_owned(), first))
        }
        Err(Unpicked::Ambiguous(found)) => {
            format!("either {}", found.into_iter().map(first).collect::<Vec<_>>().join(" or "))
        }
    }
}

#[test]
fn quants_of_names_that_exist() {
    for (path, label) in [
        ("gemma-4-E4B_q4_0-it.gguf", Some("q4_0")),
        ("gpt-oss-20b-mxfp4.gguf", Some("mxfp4")),
        ("smollm2-1.7b-instruct-q4_k_m.gguf", Some("q4_k_m")),
        ("SmolLM3-Q4_K_M.gguf", Some("Q4_K_M")),
        ("Qwen3.6-35B-A3B-UD-Q4_K_M.gguf", Some("UD-Q4_K_M")),
        ("UD-Q6_K/Qwen3-Coder-Next-UD-Q6_K-00001-of-00003.gguf", Some("UD-Q6_K")),
        ("Meta-Llama-3.1-8B-Instruct.Q4_K_M.gguf", Some("Q4_K_M")),
        ("Q4_K_M-00001-of-00004.gguf", Some("Q4_K_M")),
        ("Step-3.7-Flash-APEX-I-Compact.gguf", None),
        ("LFM2-1.2B-F16.gguf", Some("F16")),
        ("Qwen3.6-27B-NVFP4-MTP-GGUF.gguf", Some("NVFP4")),
        ("phi-4-Q6_K_L.gguf", Some("Q6_K_L")),
        ("Llama-3.2-3B-Instruct-Q4_0_4_4.gguf", Some("Q4_0_4_4")),
        ("gemma-3-270m-it-qat-Q4_0.gguf", Some("Q4_0")),
        ("gemma-4-12b-it-qat-q4_0.gguf", Some("q4_0")),
    ] {
        assert_eq!(quant_of(path).as_deref(), label, "{path}");
    }
}

#[test]
fn quants_are_whole_tokens() {
    for (path, label) in [
        ("m-BF16.gguf", Some("BF16")),
        ("m-bf16.gguf", Some("bf16")),
        ("m-AVQ2.gguf", None),
        ("m-AVQ2_K.gguf", None),
        ("m-55IQ2_XXS-34Q2_K.gguf", None),
        ("m-IQ4_NL.gguf", Some("IQ4_NL")),
        ("m-IQ4_XS.gguf", Some("IQ4_XS")),
        ("m-IQ3_XXS.gguf", Some("IQ3_XXS")),
        ("m-UD-IQ1_S.gguf", Some("UD-IQ1_S")),
        ("m-ud-q4_k_xl.gguf", Some("ud-q4_k_xl")),
        ("CLOUD-Q4_K_M.gguf", Some("Q4_K_M")),
        ("m-TQ1_0.gguf", Some("TQ1_0")),
        ("m-Q8_K_XL.gguf", Some("Q8_K_XL")),
        ("m-MXFP4_MOE.gguf", Some("MXFP4_MOE")),
        ("m-Q4_1_SOME_F16.gguf", Some("Q4_1_SOME_F16")),
        ("m-Q4_K.gguf", Some("Q4_K")),
        ("m-Q4_K_M_v2.gguf", Some("Q4_K_M")),
        ("m_Q5_K_S_it.gguf", Some("Q5_K_S")),
        ("m-f16-q8_0.gguf", Some("q8_0")), // the last one
        ("m-q4.gguf", None),
        ("m-Q4_K_Mx.gguf", Some("Q4_K")),
        ("m-xQ4_K_M.gguf", None),
        ("Q4_K_M.gguf", Some("Q4_K_M")),
        ("BF16/m-00001-of-00002.gguf", Some("BF16")),
        ("Q8_0/m-Q4_K_M.gguf", Some("Q4_K_M")),
        ("a/UD-Q2_K_XL/m.gguf", Some("UD-Q2_K_XL")),
        ("é-Q4_K_M-你.gguf", Some("Q4_K_M")),
        ("m.gguf", None),
        ("", None),
    ] {
        assert_eq!(quant_of(path).as_deref(), label, "{path}");
    }
}

#[test]
fn words_that_are_quants_by_themselves() {
    for word in ["q4_k_m", "UD-Q4_K_XL", "q8", "Q5", "bf16", "iq4_nl"] {
        assert!(is_quant(word), "{word}");
    }
    for word in ["", "9b", "0.6b", "e4b", "latest", "q3", "x-q4_k_m", "q4_k_m-x", "30b-a3b"] {
        assert!(!is_quant(word), "{word}");
    }
}

#[test]
fn helpers_are_never_the_model() {
    let found = variants(&files(&[
        "README.md",
        "config.json",
        "gemma-4-E4B-it-mmproj.gguf",
        "mmproj-F16.gguf",
        "MMPROJ-model.gguf",
        "mtp-gemma-4-E4B-it.gguf",
        "eagle3-m.gguf",
        "dflash-m.gguf",
        "DSpark-m.gguf",
        "m-imatrix.gguf",
        "imatrix_unsloth.gguf",
        "m-LoRA-f16.gguf",
        "ggml-vocab-llama.gguf",
        "imatrix.dat",
        "Qwen3.6-27B-NVFP4-MTP-GGUF.gguf",
        "mtp/m.gguf",
    ]));
    let names: Vec<_> = found.iter().map(paths).collect();
    assert_eq!(names, [["Qwen3.6-27B-NVFP4-MTP-GGUF.gguf"], ["mtp/m.gguf"]]);
}

#[test]
fn parts_are_one_model() {
    let found = variants(&files(&[
        "Q8_0/m-Q8_0-00002-of-00002.gguf",
        "b-00001-of-00003.gguf",
        "Q8_0/m-Q8_0-00001-of-00002.gguf",
        "b-00003-of-00003.gguf",
        "m-Q8_0-00001-of-00002.gguf", // another folder, another model
        "a.gguf",
        "c-00000-of-00002.gguf", // not the name of a part
        "c-00003-of-00002.gguf",
        "c-1-of-2.gguf",
    ]));
    let rows: Vec<_> = found.iter().map(|v| (paths(v), v.missing.clone(), v.name())).collect();
    let single = |path, name| (vec![path], vec![], name);
    assert_eq!(
        rows,
        [
            (vec!["Q8_0/m-Q8_0-00001-of-00002.gguf", "Q8_0/m-Q8_0-00002-of-00002.gguf"], vec![], "Q8_0"),
            single("a.gguf", "a"),
            (vec!["b-00001-of-00003.gguf", "b-00003-of-00003.gguf"], vec![2], "b"),
            single("c-00000-of-00002.gguf", "c-00000-of-00002"),
            single("c-00003-of-00002.gguf", "c-00003-of-00002"),
            single("c-1-of-2.gguf", "c-1-of-2"),
            (vec!["m-Q8_0-00001-of-00002.gguf"], vec![2], "Q8_0"),
        ]
    );
}

#[test]
fn a_size_is_the_sum_of_known_sizes() {
    let sized = |sizes: &[Option<u64>]| Variant {
        label: None,
        files: sizes.iter().map(|size| RemoteFile { path: "m.gguf".to_owned(), size: *size }).collect(),
        missing: vec![],
    };
    assert_eq!(sized(&[Some(1), Some(2)]).size(), Some(3));
    assert_eq!(sized(&[Some(1), None]).size(), None);
    assert_eq!(sized(&[Some(u64::MAX), Some(1)]).size(), None);
}

#[test]
fn a_tag_is_a_whole_quant_in_any_letter_case() {
    let names =
        ["m-BF16.gguf", "m-IQ4_NL.gguf", "m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m-Q8_0.gguf", "m-UD-Q4_K_M.gguf"];
    for (tag, expected) in [
        ("Q4_K_M", "m-Q4_K_M.gguf"),
        ("q4_k_m", "m-Q4_K_M.gguf"),
        ("UD-Q4_K_M", "m-UD-Q4_K_M.gguf"),
        ("ud-q4_k_m", "m-UD-Q4_K_M.gguf"),
        ("q4", "m-Q4_K_M.gguf"),
        ("Q8", "m-Q8_0.gguf"),
        ("IQ4_NL", "m-IQ4_NL.gguf"),
        ("bf16", "m-BF16.gguf"),
        ("F16", "none, nearest m-BF16.gguf"),
        ("Q4_K", "none, nearest m-Q4_K_M.gguf"),
        ("q5", "none, nearest m-Q4_K_M.gguf"),
        ("Q4_0", "none, nearest m-Q4_K_M.gguf"),
        ("Q2_K", "none, nearest m-Q4_K_M.gguf"),
        ("IQ2_M", "none, nearest m-Q4_K_M.gguf"),
        ("Q6_K", "none, nearest m-Q4_K_M.gguf"),
        ("NL", "none, nearest -"),
        ("m-Q4_K_S", "m-Q4_K_S.gguf"),
        ("M-q4_k_s.GGUF", "m-Q4_K_S.gguf"),
    ] {
        assert_eq!(picked(&names, tag), expected, "{tag}");
    }
}

#[test]
fn a_plain_tag_takes_a_dynamic_quant_only_for_want_of_a_plain_one() {
    let names = ["m-UD-Q4_K_XL.gguf", "m-UD-Q4_K_M.gguf", "m-Q5_K_M.gguf", "m-UD-Q5_K_M.gguf"];
    for (tag, expected) in [
        ("Q4_K_XL", "m-UD-Q4_K_XL.gguf"),
        ("q4", "m-UD-Q4_K_M.gguf"),
        ("Q5_K_M", "m-Q5_K_M.gguf"),
        ("UD-Q8_0", "none, nearest m-Q5_K_M.gguf"),
    ] {
        assert_eq!(picked(&names, tag), expected, "{tag}");
    }
}

#[test]
fn a_name_without_a_quant_is_picked_by_its_end() {
    let compact = ["Step-APEX-Compact.gguf", "Step-APEX-I-Compact.gguf", "Step-APEX-I-Quality.gguf"];
    for (tag, expected) in [
        ("Compact", "either Step-APEX-Compact.gguf or Step-APEX-I-Compact.gguf"),
        ("COMPACT", "either Step-APEX-Compact.gguf or Step-APEX-I-Compact.gguf"),
        ("I-Compact", "Step-APEX-I-Compact.gguf"),
        ("i-quality", "Step-APEX-I-Quality.gguf"),
        ("APEX-Compact", "Step-APEX-Compact.gguf"),
        ("ompact", "none, nearest -"),
        ("Step-APEX-Compat", "none, nearest Step-APEX-Compact.gguf"),
    ] {
        assert_eq!(picked(&compact, tag), expected, "{tag}");
    }
    assert_eq!(picked(&["m-q4.gguf", "m-q8.gguf"], "q4"), "m-q4.gguf");
    assert_eq!(picked(&["a-x-Q4_K_M.gguf", "a-x-Q8_0.gguf"], "x"), "none, nearest -");
}

#[test]
fn one_quant_of_two_models_is_a_question() {
    let names = ["a-Q4_K_M.gguf", "b-Q4_K_M.gguf", "b-Q8_0.gguf", "x/b-Q8_0.gguf"];
    assert_eq!(picked(&names, "Q4_K_M"), "either a-Q4_K_M.gguf or b-Q4_K_M.gguf");
    assert_eq!(picked(&names, ""), "either a-Q4_K_M.gguf or b-Q4_K_M.gguf");
    assert_eq!(picked(&names, "b-q4_k_m"), "b-Q4_K_M.gguf");
    let file = |path: &str| outcome(&names, &Pick::File(path.to_owned()));
    assert_eq!(file("b-Q8_0.gguf"), "b-Q8_0.gguf");
    assert_eq!(file("X/B-q8_0.gguf"), "x/b-Q8_0.gguf");
    assert_eq!(file("B-q8_0.gguf"), "b-Q8_0.gguf");
    assert_eq!(file("c-Q8_0.gguf"), "none, nearest b-Q8_0.gguf");
}

#[test]
fn a_file_is_found_by_path_then_by_name() {
    let names = [
        "Q8_0/m-Q8_0-00001-of-00002.gguf",
        "Q8_0/m-Q8_0-00002-of-00002.gguf",
        "a/n.gguf",
        "b/n.gguf",
        "a/o.gguf",
    ];
    let first = names[0];
    for (path, expected) in [
        (first, first),
        (names[1], first), // any part means the model
        ("m-q8_0-00002-of-00002.gguf", first),
        ("O.gguf", "a/o.gguf"),
        ("n.gguf", "either a/n.gguf or b/n.gguf"),
        ("b/N.gguf", "b/n.gguf"),
        ("c/o.gguf", "none, nearest a/o.gguf"),
        ("m-Q8_0.gguf", "none, nearest Q8_0/m-Q8_0-00001-of-00002.gguf"),
    ] {
        assert_eq!(outcome(&names, &Pick::File(path.to_owned())), expected, "{path}");
    }
}

#[test]
fn without_a_tag_the_usual_order_decides() {
    for (names, expected) in [
        (&["m-Q2_K.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf"][..], "m-Q4_K_M.gguf"),
        (&["m-Q4_K_M.gguf", "m-UD-Q4_K_XL.gguf"], "m-Q4_K_M.gguf"),
        (&["m-Q4_K_S.gguf", "m-UD-Q4_K_XL.gguf"], "m-UD-Q4_K_XL.gguf"),
        (&["m-Q4_K_XL.gguf", "m-mxfp4.gguf"], "m-Q4_K_XL.gguf"),
        (&["m-MXFP4_MOE.gguf", "m-Q4_K_S.gguf"], "m-MXFP4_MOE.gguf"),
        (&["m-IQ4_XS.gguf", "m-IQ4_NL.gguf"], "m-IQ4_NL.gguf"),
        (&["m-IQ4_XS.gguf", "m-Q4_0.gguf"], "m-IQ4_XS.gguf"),
        (&["m-BF16.gguf", "m-Q8_0.gguf"], "m-Q8_0.gguf"),
        (&["m-BF16.gguf", "m-Q6_K.gguf", "m-Q8_0.gguf"], "m-Q6_K.gguf"),
        (&["m-BF16.gguf", "m-UD-Q4_K_M.gguf", "m-UD-Q2_K_XL.gguf"], "m-UD-Q4_K_M.gguf"),
        (&["m-BF16.gguf"], "m-BF16.gguf"),
        (&["m.gguf", "mmproj-m.gguf"], "m.gguf"),
        (&["m-BF16.gguf", "m-F16.gguf"], "no default"),
        (&["a.gguf", "b.gguf"], "no default"),
        (&["README.md", "mmproj.gguf"], "no gguf"),
        (&[], "no gguf"),
    ] {
        assert_eq!(picked(names, ""), expected, "{names:?}");
    }
}

#[test]
fn a_model_with_holes_is_refused_and_never_the_usual_one() {
    let names = ["m-Q4_K_M-00002-of-00002.gguf", "m-Q8_0.gguf"];
    assert_eq!(picked(&names, "Q4_K_M"), "holes in m-Q4_K_M-00002-of-00002.gguf");
    assert_eq!(picked(&names, ""), "m-Q8_0.gguf");
    assert_eq!(picked(&names[..1], ""), "holes in m-Q4_K_M-00002-of-00002.gguf");
    assert_eq!(variants(&files(&names))[0].missing, [1]);
    assert_eq!(variants(&files(&["m-00003-of-99999.gguf"]))[0].missing.len(), 100);
}
