//! Which files of a repository are which model: helpers set aside, parts of one model together, quants told by name.
//!
//! A quant is read from a file's name as a whole token, so that `F16` is not found in `BF16` nor `Q2` in `AVQ2`.

use std::collections::BTreeMap;

use super::name::{Pick, is_gguf};

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteFile {
    pub(crate) path: String,
    pub(crate) size: Option<u64>,
}

/// One model among the files of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variant {
    /// The quant, as written, with `UD-` where that is before it.
    pub(crate) label: Option<String>,
    /// Its files, in the order of their numbers.
    pub(crate) files: Vec<RemoteFile>,
    /// The numbers of files that are not there, the first hundred. Such a model is of no use.
    pub(crate) missing: Vec<u32>,
}

/// Why no variant was picked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unpicked<'a> {
    NoGguf,
    NoSuch { wanted: String, nearest: Option<&'a Variant> },
    Ambiguous(Vec<&'a Variant>),
    NoDefault,
    Holes(&'a Variant),
}

/// What is taken when nothing is asked for, the first of these that is there.
const USUAL: [&str; 12] = [
    "Q4_K_M",
    "UD-Q4_K_XL",
    "Q4_K_XL",
    "MXFP4",
    "MXFP4_MOE",
    "Q4_K_S",
    "IQ4_NL",
    "IQ4_XS",
    "Q4_0",
    "Q5_K_M",
    "Q6_K",
    "Q8_0",
];

const SHORT: [(&str, &str); 4] = [("q4", "Q4_K_M"), ("q5", "Q5_K_M"), ("q6", "Q6_K"), ("q8", "Q8_0")];

/// Types with one name, and how the others may end.
const FLOATS: [&str; 7] = ["F32", "F16", "BF16", "FP32", "FP16", "MXFP4", "NVFP4"];
const SIZES: [&str; 12] = ["XXS", "XS", "S", "M", "L", "XL", "XXL", "NL", "MOE", "P", "KS", "KT"];

/// A name may claim 99,999 parts, and a repository may have many such names.
const MOST_MISSING: usize = 100;

/// Unsloth's dynamic quants.
const DYNAMIC: &str = "UD-";

impl Variant {
    /// All its bytes, where every file's size is known.
    pub(crate) fn size(&self) -> Option<u64> {
        self.files.iter().try_fold(0_u64, |sum, file| sum.checked_add(file.size?))
    }

    /// The quant, or the name of its files without number and ending.
    pub(crate) fn name(&self) -> &str {
        self.label.as_deref().unwrap_or_else(|| self.stem())
    }

    fn stem(&self) -> &str {
        self.files.first().map_or("", |file| base(stem(&file.path)))
    }

    fn is_labelled(&self, label: &str) -> bool {
        self.label.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(label))
    }

    /// The label without `UD-` is this one.
    fn is_plainly(&self, label: &str) -> bool {
        self.label.as_deref().is_some_and(|own| without_dynamic(own).eq_ignore_ascii_case(label))
    }
}

/// The models among a repository's files, sorted by path.
pub(crate) fn variants(files: &[RemoteFile]) -> Vec<Variant> {
    let mut groups: BTreeMap<(&str, u32), BTreeMap<u32, &RemoteFile>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_gguf(&file.path) && !is_sidecar(&file.path)) {
        let (key, number) = match shard(&file.path) {
            Some((stem, number, count)) => ((stem, count), number),
            None => ((file.path.as_str(), 1), 1),
        };
        groups.entry(key).or_default().insert(number, file);
    }
    let variant = |((_, count), group): (_, BTreeMap<u32, &RemoteFile>)| Variant {
        missing: (1..=count).filter(|number| !group.contains_key(number)).take(MOST_MISSING).collect(),
        label: group.values().next().and_then(|file| quant_of(&file.path)),
        files: group.into_values().cloned().collect(),
    };
    let mut variants: Vec<Variant> = groups.into_iter().map(variant).collect();
    variants.sort_by(|a, b| a.files[0].path.cmp(&b.files[0].path));
    variants
}

/// Choose what was asked for: exactly it, or nothing.
pub(crate) fn pick<'a>(all: &'a [Variant], pick: &Pick) -> Result<&'a Variant, Unpicked<'a>> {
    if all.is_empty() {
        return Err(Unpicked::NoGguf);
    }
    let (found, wanted) = match pick {
        Pick::Default => (usual(all)?, ""),
        Pick::Quant(tag) => (by_tag(all, tag), tag.as_str()),
        Pick::File(path) => (by_file(all, path), path.as_str()),
    };
    match *found.as_slice() {
        [] => Err(Unpicked::NoSuch { wanted: wanted.to_owned(), nearest: nearest(all, wanted) }),
        [one] if one.missing.is_empty() => Ok(one),
        [one] => Err(Unpicked::Holes(one)),
        _ => Err(Unpicked::Ambiguous(found)),
    }
}

/// The quant that a file's name tells, or else its folder's name.
pub(crate) fn quant_of(path: &str) -> Option<String> {
    let stem = stem(path);
    let folder = stem.rsplit_once('/').map_or("", |(folder, _)| folder);
    label_in(base(stem)).or_else(|| label_in(folder)).map(str::to_owned)
}

/// Whether a word is a quant, whatever the repository: `q4_k_m`, `UD-IQ2_M`, or short `q4`.
pub(crate) fn is_quant(word: &str) -> bool {
    label_in(word) == Some(word) || long_form(word).is_some()
}

/// Files that go with a model but are none.
fn is_sidecar(path: &str) -> bool {
    let name = base(path).to_ascii_lowercase();
    ["mmproj", "imatrix", "-lora", "-vocab"].iter().any(|word| name.contains(word))
        || ["mtp-", "eagle3-", "dflash-", "dspark-"].iter().any(|start| name.starts_with(start))
}

/// `NAME-00001-of-00003.gguf` as name, number and count.
fn shard(path: &str) -> Option<(&str, u32, u32)> {
    let path = path.get(..path.len().checked_sub(".gguf".len())?)?;
    let (rest, count) = path.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let (number, count) = (five_digits(number)?, five_digits(count)?);
    ((1..=count).contains(&number) && !base(stem).is_empty()).then_some((stem, number, count))
}

fn five_digits(text: &str) -> Option<u32> {
    let digits = text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

/// A path without `.gguf` and the number of a part.
fn stem(path: &str) -> &str {
    match shard(path) {
        Some((stem, ..)) => stem,
        None if is_gguf(path) => &path[..path.len() - ".gguf".len()],
        None => path,
    }
}

fn base(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, base)| base)
}

fn without_dynamic(label: &str) -> &str {
    let (start, rest) = label.split_at_checked(DYNAMIC.len()).unwrap_or(("", label));
    if start.eq_ignore_ascii_case(DYNAMIC) { rest } else { label }
}

/// The last quant in a name that is a token of its own.
fn label_in(name: &str) -> Option<&str> {
    let starts_token =
        |at: usize| at.checked_sub(1).is_none_or(|before| is_boundary(name.as_bytes()[before]));
    let (mut found, mut at) = (None, 0);
    while at < name.len() {
        let length = if starts_token(at) { quant_length(&name[at..]) } else { None };
        if let Some(length) = length {
            found = Some((at, at + length));
        }
        at += length.unwrap_or(1);
    }
    let (start, end) = found?;
    let dynamic = start.checked_sub(DYNAMIC.len()).filter(|before| {
        name.get(*before..start).is_some_and(|text| text.eq_ignore_ascii_case(DYNAMIC))
            && starts_token(*before)
    });
    Some(&name[dynamic.unwrap_or(start)..end])
}

fn is_boundary(byte: u8) -> bool {
    matches!(byte, b'-' | b'_' | b'.' | b'/')
}

/// The length of the longest quant that a text begins with.
fn quant_length(text: &str) -> Option<usize> {
    let end = text.find(['-', '.', '/']).unwrap_or(text.len());
    let upper = text[..end].to_ascii_uppercase();
    let words: Vec<&str> = upper.split('_').collect();
    let count = (1..=words.len().min(4)).rev().find(|&count| is_type(&words[..count]))?;
    Some(words[..count].join("_").len())
}

/// `Q4_K_M`, `IQ4_NL`, `TQ1_0`, `Q4_0_4_4`, `BF16`, `MXFP4_MOE`, in words.
fn is_type(words: &[&str]) -> bool {
    let [first, rest @ ..] = words else { return false };
    let family = first.strip_suffix(|c: char| c.is_ascii_digit());
    match (family, rest) {
        (
            Some("Q"),
            ["K" | "0" | "1" | "2" | "3"] | ["0", "4", "4" | "8"] | ["0", "8", "8"] | ["1", "SOME", "F16"],
        )
        | (Some("TQ"), ["0"])
        | (Some("IQ"), ["K"]) => true,
        (Some("Q"), ["K" | "0" | "1", size]) | (Some("IQ"), [size]) => SIZES.contains(size),
        _ if FLOATS.contains(first) => matches!(rest, []) || matches!(rest, [size] if SIZES.contains(size)),
        _ => false,
    }
}

fn long_form(tag: &str) -> Option<&'static str> {
    SHORT.iter().find(|(short, _)| short.eq_ignore_ascii_case(tag)).map(|(_, long)| *long)
}

/// The usual choice. A model with holes is none, as nobody asked for it.
fn usual(all: &[Variant]) -> Result<Vec<&Variant>, Unpicked<'_>> {
    let whole: Vec<&Variant> = all.iter().filter(|variant| variant.missing.is_empty()).collect();
    let matching = |is: fn(&Variant, &str) -> bool| {
        USUAL.iter().map(|label| only(&whole, |variant| is(variant, label))).find(|found| !found.is_empty())
    };
    match matching(Variant::is_labelled).or_else(|| matching(Variant::is_plainly)) {
        Some(found) => Ok(found),
        None if whole.len() == 1 => Ok(whole),
        None => Err(if whole.is_empty() { Unpicked::Holes(&all[0]) } else { Unpicked::NoDefault }),
    }
}

/// By what follows the colon: a file's name, a quant, a short form, or the end of a name that tells no quant.
fn by_tag<'a>(all: &'a [Variant], tag: &str) -> Vec<&'a Variant> {
    let all: Vec<&Variant> = all.iter().collect();
    let is_file = |variant: &Variant| {
        let same = |name: &str| name.eq_ignore_ascii_case(tag);
        same(variant.stem()) || variant.files.iter().any(|file| same(base(&file.path)))
    };
    let long = long_form(tag).unwrap_or(tag);
    let ends = |variant: &Variant| variant.label.is_none() && ends_in_token(variant.stem(), tag);
    let rules: [&dyn Fn(&Variant) -> bool; 6] = [
        &is_file,
        &|variant| variant.is_labelled(tag),
        &|variant| variant.is_plainly(tag),
        &|variant| variant.is_labelled(long),
        &|variant| variant.is_plainly(long),
        &ends,
    ];
    rules.iter().map(|rule| only(&all, rule)).find(|found| !found.is_empty()).unwrap_or_default()
}

/// By path, then in any letter case, then by the file's name alone. Any part of a model means all of it.
fn by_file<'a>(all: &'a [Variant], path: &str) -> Vec<&'a Variant> {
    let all: Vec<&Variant> = all.iter().collect();
    let rules: [&dyn Fn(&str) -> bool; 3] =
        [&|own| own == path, &|own| own.eq_ignore_ascii_case(path), &|own| {
            base(own).eq_ignore_ascii_case(path)
        }];
    let has =
        |rule: &dyn Fn(&str) -> bool| only(&all, |variant| variant.files.iter().any(|file| rule(&file.path)));
    rules.into_iter().map(has).find(|found| !found.is_empty()).unwrap_or_default()
}

fn only<'a>(all: &[&'a Variant], rule: impl Fn(&Variant) -> bool) -> Vec<&'a Variant> {
    all.iter().copied().filter(|variant| rule(variant)).collect()
}

fn ends_in_token(name: &str, token: &str) -> bool {
    let Some((before, end)) = name.len().checked_sub(token.len()).and_then(|at| name.split_at_checked(at))
    else {
        return false;
    };
    end.eq_ignore_ascii_case(token) && before.ends_with(['-', '.'])
}

/// What somebody may have meant: the same bits first, else the most that is less, else the least that is more.
fn nearest<'a>(all: &'a [Variant], wanted: &str) -> Option<&'a Variant> {
    let wanted = base(stem(wanted));
    let asked = label_in(wanted).unwrap_or(wanted);
    let Some(bits) = bits(asked) else { return most_alike(all, wanted) };
    let rank = |variant: &&Variant| {
        let label = variant.label.as_deref().unwrap_or_default();
        let own = self::bits(label)?;
        let far = if own > bits { 100 + own - bits } else { bits - own };
        let begins = without_dynamic(label).to_ascii_uppercase().starts_with(&asked.to_ascii_uppercase());
        let place = USUAL.iter().position(|usual| usual.eq_ignore_ascii_case(label)).unwrap_or(USUAL.len());
        Some((far, !begins, place))
    };
    let ranked = all.iter().filter_map(|variant| rank(&variant).map(|rank| (rank, variant)));
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, variant)| variant)
}

/// Roughly how many bits a weight has: the number behind the letters.
fn bits(label: &str) -> Option<u32> {
    let word = without_dynamic(label).split('_').next()?;
    let digits = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    (digits.len() < word.len()).then(|| digits.parse().ok())?
}

fn most_alike<'a>(all: &'a [Variant], wanted: &str) -> Option<&'a Variant> {
    let wanted = wanted.to_lowercase();
    let alike = |variant: &Variant| {
        let names = [variant.stem(), variant.name()];
        names.map(|name| strsim::jaro_winkler(&name.to_lowercase(), &wanted)).into_iter().fold(0.0, f64::max)
    };
    let ranked = all.iter().map(|variant| (alike(variant), variant)).filter(|(alike, _)| *alike >= 0.8);
    ranked.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, variant)| variant)
}

#[cfg(test)]
mod tests;
