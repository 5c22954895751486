use std::io::Cursor;

use super::*;
use crate::model::gguf::Header;
use crate::model::gguf::tiny_gguf::{Tensor as Put, Tiny, Value};

fn parse(bytes: &[u8]) -> Result<Imatrix> {
    Imatrix::parse(Cursor::new(bytes), bytes.len() as u64, "`i`")
}

#[track_caller]
fn refuses(bytes: &[u8], message: &str) {
    assert_eq!(parse(bytes).unwrap_err().message, format!("`i` {message}"));
}

fn squares(sums: &[f32], counts: &[u64]) -> Squares {
    Squares { sums: sums.to_vec(), counts: counts.to_vec() }
}

/// A matrix of two experts, one of which was never used, and a plain one.
fn small() -> Imatrix {
    let entries = [
        ("blk.0.attn_q.weight", squares(&[2.0, 4.0, 7.0], &[2])),
        ("blk.0.ffn_up_exps.weight", squares(&[1.0, 2.0, 0.0, 0.0], &[4, 0])),
    ];
    Imatrix {
        entries: entries.map(|(name, squares)| (name.to_owned(), squares)).into(),
        datasets: vec!["a.txt".to_owned(), "ü.txt".to_owned()],
        chunks: 3,
        chunk_size: 512,
    }
}

fn floats_of(name: &str, dims: &[u64], floats: &[f32]) -> Put {
    let data = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
    Put { name: name.to_owned(), dims: dims.to_vec(), kind: 0, data }
}

/// The same as llama.cpp writes it, with statistics that are not read.
fn small_gguf() -> Tiny {
    let mut tiny = Tiny::empty()
        .set("general.type", Value::Text("imatrix".into()))
        .set("imatrix.datasets", Value::Texts(vec!["a.txt".into(), "ü.txt".into()]))
        .set("imatrix.chunk_count", Value::U32(3))
        .set("imatrix.chunk_size", Value::U32(512))
        .set("imatrix.stats_schema", Value::Texts(vec!["mean".into()]));
    tiny.tensors = vec![
        floats_of("blk.0.attn_q.weight.in_sum2", &[3, 1], &[2.0, 4.0, 7.0]),
        floats_of("blk.0.attn_q.weight.counts", &[1, 1], &[2.0]),
        floats_of("blk.0.attn_q.weight.in_sum", &[3, 1], &[-1.0, 2.0, f32::NAN]),
        floats_of("blk.0.attn_q.weight.stats", &[1], &[f32::NAN]),
        floats_of("blk.0.ffn_up_exps.weight.in_sum2", &[2, 2], &[1.0, 2.0, 0.0, 0.0]),
        floats_of("blk.0.ffn_up_exps.weight.counts", &[1, 2], &[4.0, 0.0]),
    ];
    tiny
}

/// Names, calls and values, as the older form has them.
fn legacy(entries: &[(&str, i32, &[f32])], end: Option<(i32, &str)>) -> Vec<u8> {
    let int = |n: usize| i32::try_from(n).unwrap().to_le_bytes();
    let mut out = int(entries.len()).to_vec();
    for (name, calls, values) in entries {
        out.extend(int(name.len()));
        out.extend(name.as_bytes());
        out.extend(calls.to_le_bytes());
        out.extend(int(values.len()));
        values.iter().for_each(|value| out.extend(value.to_le_bytes()));
    }
    if let Some((chunks, dataset)) = end {
        out.extend(chunks.to_le_bytes());
        out.extend(int(dataset.len()));
        out.extend(dataset.as_bytes());
    }
    out
}

fn small_legacy() -> Vec<u8> {
    legacy(&[("blk.0.attn_q.weight", 2, &[2.0, 4.0, 7.0]), ("b", 0, &[5.0])], Some((9, "t.txt")))
}

#[test]
fn reads_what_llama_cpp_writes() {
    let read = parse(&small_gguf().bytes()).unwrap();
    assert_eq!(read, small());
    let means = read.means();
    assert_eq!(means["blk.0.attn_q.weight"], [1.0, 2.0, 3.5]);
    assert_eq!(means["blk.0.ffn_up_exps.weight"], [0.25, 0.5, 1.0, 1.0], "an unused expert counts evenly");
}

#[test]
fn reads_the_older_form() {
    let read = parse(&small_legacy()).unwrap();
    assert_eq!((read.chunks, read.chunk_size, read.datasets.as_slice()), (9, 0, &["t.txt".to_owned()][..]));
    assert_eq!(read.means()["blk.0.attn_q.weight"], [1.0, 2.0, 3.5]);
    assert_eq!(read.means()["b"], [5.0], "no calls: as it is");
    let oldest = parse(&legacy(&[("a", 1, &[1.0])], None)).unwrap();
    assert_eq!((oldest.chunks, oldest.datasets.len()), (0, 0));
    assert_eq!(parse(&legacy(&[("a", 1, &[1.0])], Some((2, "")))).unwrap().datasets.len(), 0);
}

#[test]
fn what_was_written_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("i.gguf");
    for imatrix in [small(), parse(&small_legacy()).unwrap(), Imatrix { datasets: vec![], ..small() }] {
        imatrix.write(&path).unwrap();
        assert_eq!(Imatrix::read(&path).unwrap(), imatrix);
    }
    let long = Imatrix { entries: [("n".repeat(56), squares(&[1.0], &[1]))].into(), ..small() };
    let error = long.write(&path).unwrap_err().message;
    assert_eq!(error, format!("the name `{}` is too long for an importance matrix", "n".repeat(56)));
    Imatrix::read(&path).expect("the file before stays");
    let error = small().write(&folder.path().join("none/i.gguf")).unwrap_err().message;
    assert!(error.starts_with("cannot write `") && error.contains("none"), "{error}");
    let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["i.gguf"], "nothing else is left");
}

#[test]
fn says_what_cannot_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let error = Imatrix::read(&folder.path().join("none")).unwrap_err();
    assert_eq!((error.kind, error.message.starts_with("no such file: `")), (Kind::NotFound, true));
    let error = Imatrix::read(folder.path()).unwrap_err();
    assert!(error.message.ends_with("is not a regular file"), "{error}");
}

#[test]
fn says_what_a_file_is_not() {
    let other = "is not an importance matrix, neither in GGUF nor in the older form";
    for bytes in [&b""[..], b"abc", b"PK\x03\x04aaaaaaaaaaaaaaaaaaaaaaaaa", &[0; 40], &[255; 40]] {
        refuses(bytes, other);
    }
    let mut text = 1_i32.to_le_bytes().to_vec();
    text.extend(b"a small number and then some text that is anything but a name");
    refuses(&text, other);
    refuses(&Tiny::llama().bytes(), "is a GGUF file, but not an importance matrix");
    refuses(&Tiny::empty().bytes(), "is a GGUF file, but not an importance matrix");
}

#[test]
fn a_gguf_that_contradicts_itself_is_refused() {
    let sums = "blk.0.attn_q.weight.in_sum2";
    let put = |floats: &'static [f32]| {
        small_gguf().change_tensor(sums, |tensor| *tensor = floats_of(sums, &[3], floats)).bytes()
    };
    let counts = "blk.0.ffn_up_exps.weight.counts";
    let count = |dims: &'static [u64], floats: &'static [f32]| {
        small_gguf().change_tensor(counts, |tensor| *tensor = floats_of(counts, dims, floats)).bytes()
    };
    for (bytes, clause) in [
        (put(&[1.0, f32::NAN, 1.0]), "`blk.0.attn_q.weight` has the value NaN"),
        (put(&[1.0, f32::INFINITY, 1.0]), "`blk.0.attn_q.weight` has the value inf"),
        (put(&[1.0, -2.0, 1.0]), "`blk.0.attn_q.weight` has the value -2"),
        (count(&[2], &[1.0, -1.0]), "`blk.0.ffn_up_exps.weight` has the count -1"),
        (
            count(&[2], &[1e30, 1.0]),
            "`blk.0.ffn_up_exps.weight` has the count 1000000000000000000000000000000",
        ),
        (count(&[3], &[1.0, 1.0, 1.0]), "`blk.0.ffn_up_exps.weight` has 4 sums and 3 counts"),
        (small_gguf().without_tensor(counts).bytes(), "it has no tensor `blk.0.ffn_up_exps.weight.counts`"),
        (small_gguf().without_tensor(sums).bytes(), "it has no tensor `blk.0.attn_q.weight.in_sum2`"),
        (small_gguf().without_tensors().bytes(), "it has no entries"),
        (
            small_gguf().without("imatrix.chunk_size").bytes(),
            "`imatrix.chunk_size` is missing or no whole number of 32 bits",
        ),
        (
            small_gguf().set("imatrix.chunk_count", Value::U64(1 << 32)).bytes(),
            "`imatrix.chunk_count` is missing or no whole number of 32 bits",
        ),
        (
            small_gguf().set("imatrix.datasets", Value::U32(1)).bytes(),
            "`imatrix.datasets` is missing or no list of texts",
        ),
        (
            small_gguf().change_tensor(sums, |t| (t.kind, t.data) = (1, vec![0; 6])).bytes(),
            "the sums and counts of `blk.0.attn_q.weight` must be F32",
        ),
    ] {
        refuses(&bytes, &format!("is damaged: {clause}"));
    }
}

#[test]
fn an_older_file_that_contradicts_itself_is_refused() {
    for (bytes, clause) in [
        (legacy(&[("a", 1, &[f32::NAN])], None), "`a` has the value NaN"),
        (legacy(&[("a", 1, &[1.0]), ("b", 1, &[-1.0])], None), "`b` has the value -1"),
        (legacy(&[("a", 1, &[1.0]), ("a", 1, &[1.0])], None), "the entry `a` occurs twice"),
        (legacy(&[("a", 1, &[1.0, 1.0]), ("", 1, &[1.0])], None), "the length of a name is 0"),
        (legacy(&[("a", 1, &[1.0]), ("b\0", 1, &[1.0])], None), "a name is not text"),
        (legacy(&[("a", 1, &[]), ("b", 1, &[1.0, 1.0])], None), "the number of values of `a` is 0"),
        ([legacy(&[("a", 1, &[1.0])], Some((1, "t"))), vec![0; 3]].concat(), "3 bytes stand behind its end"),
    ] {
        refuses(&bytes, &format!("is damaged: {clause}"));
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let whole = small_legacy();
    let end = whole.len() - (4 + 4 + "t.txt".len());
    for len in (0..whole.len()).filter(|&len| len != end) {
        let message = parse(&whole[..len]).unwrap_err().message;
        assert!(
            message.contains(" is cut short: ") || message.contains(" is not an importance"),
            "{message}"
        );
    }
    let whole = small_gguf().bytes();
    for len in 0..whole.len() {
        parse(&whole[..len]).unwrap_err();
    }
}

/// A length far beyond the file is an error, not memory.
#[test]
fn huge_counts_are_refused_before_anything_is_allocated() {
    let whole = small_legacy();
    // Entries; the length of a name, calls, values; the length of the text's name.
    for at in [0, 4, 8 + 19 + 4, whole.len() - 9] {
        for n in [i32::MAX, 1 << 30, -1, i32::MIN] {
            let mut bytes = whole.clone();
            bytes[at..at + 4].copy_from_slice(&n.to_le_bytes());
            parse(&bytes).unwrap_err();
        }
    }
}

#[test]
fn survives_hostile_changes() {
    let mut random = fastrand::Rng::with_seed(4);
    for whole in [small_legacy(), small_gguf().bytes()] {
        let mut readable = 0;
        for round in 0..600 {
            let mut bytes = whole.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                match round % 3 {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes[at] ^= 1 << random.u8(..8),
                    _ => {
                        let end = bytes.len().min(at + 4);
                        bytes[at..end].fill(*random.choice(&[0, 0x7f, 0x80, 0xff]).unwrap());
                    }
                }
            }
            if let Ok(imatrix) = parse(&bytes) {
                readable += 1;
                assert!(imatrix.means().values().flatten().all(|mean| mean.is_finite()));
            }
        }
        assert!((50..590).contains(&readable), "{readable}");
    }
}

#[test]
fn a_model_is_matched_by_name_and_size() {
    let model = Header::from_bytes(&Tiny::llama().bytes()).unwrap();
    let matrices: Vec<_> =
        model.tensors.iter().filter(|t| t.name.starts_with("blk.") && t.dims.len() == 2).collect();
    let entry =
        |name: &str, len: u64| (name.to_owned(), squares(&vec![1.0; usize::try_from(len).unwrap()], &[1]));
    let mut imatrix =
        Imatrix { entries: matrices.iter().map(|t| entry(&t.name, t.dims[0])).collect(), ..small() };
    assert_eq!(
        imatrix.fit(&model).unwrap(),
        super::coverage::Coverage { matched: 14, ..super::coverage::Coverage::default() }
    );
    imatrix.entries.remove("blk.1.attn_q.weight");
    imatrix.entries.extend([entry("output.weight", 64)]);
    let coverage = imatrix.fit(&model).unwrap();
    assert_eq!(
        (coverage.matched, coverage.missing.len(), coverage.unknown),
        (13, 1, vec!["output.weight".to_owned()])
    );
    imatrix.entries.extend([entry("blk.0.ffn_down.weight", 64)]);
    assert_eq!(
        imatrix.fit(&model).unwrap_err().message,
        "the importance matrix was made for another model: of 14 entries 12 fit, 1 have another size and 1 belong to \
         no weight; `blk.0.ffn_down.weight` has 64 values there and 128 columns here"
    );
    assert_eq!(
        small().fit(&Header::from_bytes(&Tiny::empty().bytes()).unwrap()).unwrap_err().message,
        "the importance matrix was made for another model: of 2 entries 0 fit, 0 have another size and 2 belong to no \
         weight; there is no `blk.0.attn_q.weight` here"
    );
    assert!(Imatrix::default().fit(&model).is_err());
}

#[test]
fn experts_count_for_the_size() {
    let name = "blk.0.ffn_up_exps.weight";
    let model =
        |experts| Header::from_bytes(&Tiny::empty().with_zeros(name, &[2, 5, experts]).bytes()).unwrap();
    let mut imatrix = small();
    imatrix.entries.remove("blk.0.attn_q.weight");
    assert_eq!(imatrix.fit(&model(2)).unwrap().matched, 1);
    assert!(imatrix.fit(&model(3)).is_err());
}
