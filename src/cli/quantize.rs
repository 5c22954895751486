//! `infer quantize`: a plan before, the work in a process of its own, and a verdict after.

use std::fmt::Write;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::verdict::Verdict;
use self::worker::{Job, Worker};
use super::args::QuantizeArgs;
use super::models::columns;
use super::pull::{self, Found};
use super::ui::Ui;
use crate::engine::calibrate::{Progress, calibrate};
use crate::engine::quantize::LONGEST_TEXT;
use crate::error::{Error, Kind, Result};
use crate::human::{Bytes, Count, Escaped, Params};
use crate::machine;
use crate::model::gguf::Header;
use crate::model::imatrix::Imatrix;
use crate::model::quant;
use crate::model::recipe::{Recipe, Target, recipe};
use crate::model::store::Store;

mod verdict;
pub(crate) mod worker;

/// Where the file says what was measured of it; room for it is kept while it is made.
const VERDICT: &str = "infer.quantize.verdict";

/// Room that the work leaves on the disk.
const MARGIN: u64 = 64 << 20;

/// The most memory for one tensor's buffers where there is little, and where there is enough.
const SMALL_BUFFER: u64 = 1 << 30;
const LARGE_BUFFER: u64 = 8 << 30;

/// `infer quantize`.
pub(crate) fn run(ui: &mut Ui, args: &QuantizeArgs) -> Result<()> {
    if let Some(names) = &args.compare {
        return compare(ui, args, names);
    }
    let name = args
        .model
        .as_deref()
        .ok_or_else(|| Error::usage("no model").hint("`infer quantize MODEL --to int4`"))?;
    let work = Work::prepare(ui, name, args)?;
    if args.dry_run {
        // Whether all of it could be written is asked once, at the end.
        let _ = if args.json { ui.json(&work.json()) } else { ui.page(&work.text()) };
        return Ok(());
    }
    if !args.json {
        ui.status(work.text().trim_end());
    }
    work.check_room(ui, args)?;
    work.make(ui, args)
}

/// Everything that is known before the work begins.
struct Work {
    name: String,
    source: PathBuf,
    header: Header,
    recipe: Recipe,
    output: PathBuf,
    requantizes: bool,
}

impl Work {
    fn prepare(ui: &mut Ui, name: &str, args: &QuantizeArgs) -> Result<Self> {
        let places = pull::places()?;
        let Found { path: source, .. } = pull::obtain(ui, name, args.yes)?;
        let header = Header::open(&source)?.with_parts(&source)?;
        header.check_runnable(&source)?;
        let requantizes = check_precision(name, &header, args.allow_requantize)?;
        let recipe = recipe(&header, args.to, args.imatrix.is_some() || args.calibrate.is_some());
        let output = output(&places.store, &source, args)?;
        Ok(Self { name: name.to_owned(), source, header, recipe, output, requantizes })
    }

    /// The plan for a person.
    fn text(&self) -> String {
        let recipe = &self.recipe;
        let mut text = format!(
            "{} to {}: {} to {}, {:.2} bits per weight\n",
            Escaped(&self.name),
            recipe.target,
            Bytes(self.header.file_bytes),
            Bytes(recipe.file_bytes),
            recipe.bits_per_weight()
        );
        text.push_str(&columns(&self.table()));
        // Writing to a string cannot fail.
        let _ = match recipe.fallen_back() {
            0 => Ok(()),
            some => {
                let count = recipe.steps.iter().filter(|step| step.instead_of.is_some()).count() as u64;
                writeln!(
                    text,
                    "{} ({} of {} parameters) fall back: their rows are no multiple of {}{}",
                    Count(count, "tensor"),
                    Params(some),
                    Params(recipe.elements()),
                    self.missed_block(),
                    self.better()
                )
            }
        };
        let _ = writeln!(
            text,
            "into {}; needs {} on the disk and {} of memory",
            super::hub::shown(&self.output),
            Bytes(recipe.file_bytes),
            Bytes(recipe.working_bytes(Self::buffer()))
        );
        text
    }

    /// Tensors by what becomes of them.
    fn table(&self) -> Vec<[String; 5]> {
        let mut rows: Vec<([&str; 3], u64, u64, u64)> = Vec::new();
        for step in &self.recipe.steps {
            let key = [step.from.name, step.to.name, step.instead_of.map_or("", |meant| meant.name)];
            match rows.iter_mut().find(|row| row.0 == key) {
                Some(row) => {
                    row.1 += 1;
                    row.2 += step.elements;
                    row.3 += step.bytes;
                }
                None => rows.push((key, 1, step.elements, step.bytes)),
            }
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.3));
        rows.into_iter()
            .map(|([from, to, meant], tensors, elements, bytes)| {
                let what = if from == to { format!("  {from} stays") } else { format!("  {from} to {to}") };
                let why = if meant.is_empty() { String::new() } else { format!("instead of {meant}") };
                [
                    what,
                    Count(tensors, "tensor").to_string(),
                    format!("{} parameters", Params(elements)),
                    Bytes(bytes).to_string(),
                    why,
                ]
            })
            .collect()
    }

    fn missed_block(&self) -> u64 {
        self.recipe
            .steps
            .iter()
            .filter_map(|step| step.instead_of)
            .map(|meant| meant.block)
            .max()
            .unwrap_or(256)
    }

    /// The nearest type for which nothing falls back, when more than a quarter would.
    fn better(&self) -> String {
        if self.recipe.fallen_back() * 4 <= self.recipe.elements() {
            return String::new();
        }
        let bits = self.recipe.bits_per_weight();
        let others = Target::all()
            .filter(|target| !target.is_float())
            .map(|target| recipe(&self.header, target, false));
        let whole = others.filter(|other| other.fallen_back() == 0);
        let nearest = whole.min_by(|a, b| {
            let far = |other: &Recipe| (other.bits_per_weight() - bits).abs();
            far(a).total_cmp(&far(b))
        });
        nearest.map_or_else(String::new, |other| {
            format!(
                "; {} would not ({:.2} bits per weight)",
                other.target.name().to_lowercase(),
                other.bits_per_weight()
            )
        })
    }

    fn buffer() -> u64 {
        let enough = machine::memory_available().is_none_or(|memory| memory > 2 * LARGE_BUFFER);
        if enough { LARGE_BUFFER } else { SMALL_BUFFER }
    }

    fn json(&self) -> Value {
        json!({
            "model": self.name,
            "target": self.recipe.target.name(),
            "output": self.output.to_string_lossy(),
            "bytes": { "before": self.header.file_bytes, "after": self.recipe.file_bytes },
            "bits_per_weight": self.recipe.bits_per_weight(),
            "memory": self.recipe.working_bytes(Self::buffer()),
            "requantizes": self.requantizes,
            "tensors": self.recipe.steps.iter().map(|step| json!({
                "name": step.name, "from": step.from.name, "to": step.to.name, "bytes": step.bytes,
                "instead_of": step.instead_of.map(|meant| meant.name),
            })).collect::<Vec<_>>(),
        })
    }

    /// That the result has a place, and is not the source.
    fn check_room(&self, ui: &mut Ui, args: &QuantizeArgs) -> Result<()> {
        if is_same_file(&self.source, &self.output) {
            return Err(Error::usage("the result would take the place of the source")
                .hint("give another file with `-o`, or a name with `--as`"));
        }
        let folder = folder_of(&self.output);
        fs::create_dir_all(folder)
            .map_err(|e| Error::failed(format!("cannot create `{}`: {e}", folder.display())))?;
        tempfile::tempfile_in(folder).map_err(|e| {
            Error::failed(format!("cannot write into `{}`: {e}", folder.display()))
                .hint("write elsewhere with `-o FILE`")
        })?;
        let (needed, free) = (self.recipe.file_bytes.saturating_add(MARGIN), Store::free_space(folder)?);
        if needed > free {
            let message = format!(
                "the result needs {}, {} are free in `{}`",
                Bytes(needed),
                Bytes(free),
                folder.display()
            );
            return Err(
                Error::new(Kind::TooBig, message).hint("free some space, or write elsewhere with `-o FILE`")
            );
        }
        if self.output.exists() && !args.yes {
            let shown = super::hub::shown(&self.output);
            let replace = ui.can_ask() && ui.confirm(&format!("`{shown}` is there. Replace it?"), false)?;
            if !replace {
                return Err(Error::failed(format!("`{shown}` is there already"))
                    .hint("`--yes` replaces it; `-o FILE` or `--as NAME` writes another"));
            }
        }
        if self.requantizes {
            ui.note("the source has lost precision before: the result will be worse than one made from F16");
        }
        Ok(())
    }

    fn make(&self, ui: &mut Ui, args: &QuantizeArgs) -> Result<()> {
        ui.stop_with_brake();
        let imatrix = self.imatrix(ui, args)?;
        let temporary = temporary(&self.output);
        let job = self.job(args, &temporary, imatrix.as_deref())?;
        let mut worker = Worker::start(&job)?;
        let made = self.quantize(ui, &mut worker, &temporary).and_then(|made| {
            let verdict = self.verdict(ui, args, &temporary)?;
            let line = verdict.as_ref().map_or_else(|| "not measured".to_owned(), Verdict::line);
            worker::overwrite(&temporary, made.meta_bytes(), VERDICT, &cut(&line))?;
            publish(&temporary, &self.output)?;
            Ok((made, verdict))
        });
        drop(worker);
        if let Err(error) = &made
            && error.kind == Kind::Interrupted
            && !args.json
        {
            ui.clear_echo();
            ui.note(&error.message);
        }
        let (made, verdict) = made?;
        self.report(ui, args, &made, verdict.as_ref());
        verdict.map_or(Ok(()), |verdict| verdict.check(args.fail_below))
    }

    /// The importance matrix to use, as a file: one at hand, or one that is computed now and kept beside the result.
    fn imatrix(&self, ui: &mut Ui, args: &QuantizeArgs) -> Result<Option<PathBuf>> {
        if let Some(path) = &args.imatrix {
            self.check_imatrix(ui, &Imatrix::read(path)?)?;
            return Ok(Some(path.clone()));
        }
        let Some(text) = &args.calibrate else { return Ok(None) };
        let imatrix = self.calibrate(ui, args, text)?;
        self.check_imatrix(ui, &imatrix)?;
        let path = self.output.with_extension("imatrix.gguf");
        imatrix.write(&path)?;
        ui.status(&format!("importance matrix: {}", super::hub::shown(&path)));
        Ok(Some(path))
    }

    /// One of another model is refused; what lacks an entry is named.
    fn check_imatrix(&self, ui: &mut Ui, imatrix: &Imatrix) -> Result<()> {
        let coverage = imatrix.fit(&self.header)?;
        if !coverage.missing.is_empty() {
            ui.note(&format!(
                "the importance matrix says nothing of {}, such as `{}`",
                Count(coverage.missing.len() as u64, "tensor"),
                Escaped(&coverage.missing[0])
            ));
        }
        Ok(())
    }

    fn calibrate(&self, ui: &mut Ui, args: &QuantizeArgs, text: &Path) -> Result<Imatrix> {
        let name = text.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let text = super::load::read_text(text)?;
        let mut bar = ui.progress("calibrating", 1000);
        let result = calibrate(&self.source, &text, &verdict::load_plan(args), &mut |progress| {
            if let Progress::Chunks { done, all } = progress {
                bar.set(u64::from(done) * 1000 / u64::from(all.max(1)));
            }
            if ui.is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        bar.clear();
        if ui.is_interrupted() {
            return Err(Error::new(Kind::Interrupted, "interrupted while calibrating; nothing was written"));
        }
        result.map(|calibrated| Imatrix::new(calibrated, &name))
    }

    fn job(&self, args: &QuantizeArgs, output: &Path, imatrix: Option<&Path>) -> Result<Job> {
        Ok(Job {
            source: absolute(&self.source)?,
            output: absolute(output)?,
            ftype: self.recipe.target.ftype(),
            threads: args.threads.map_or_else(machine::threads, usize::from),
            requantize: args.allow_requantize,
            imatrix: imatrix.map(absolute).transpose()?,
            texts: self.texts(imatrix),
            realign: self.header.u64("general.alignment").is_some_and(|alignment| alignment != 32),
            buffer: usize::try_from(Self::buffer()).unwrap_or(usize::MAX),
        })
    }

    /// Wait until the file is made, and read its header back.
    fn quantize(&self, ui: &mut Ui, worker: &mut Worker, output: &Path) -> Result<Header> {
        let mut bar = ui.progress("quantizing", self.header.file_bytes.max(1));
        let mut done = 0;
        let result = worker.wait(&mut |tensor| {
            let step = tensor.and_then(|name| self.recipe.steps.iter().find(|step| step.name == name));
            done += step.map_or(0, |step| step.elements / step.from.block * step.from.bytes);
            bar.set(done);
            if ui.is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        bar.clear();
        result.and_then(|()| Header::open(output))
    }

    /// What the file says of how it was made. No time: the same work gives the same bytes.
    fn texts(&self, imatrix: Option<&Path>) -> Vec<(String, String)> {
        let name = |path: &Path| {
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let mut texts = vec![
            ("infer.quantize.source".to_owned(), cut(&name(&self.source))),
            ("infer.quantize.source_type".to_owned(), source_type(&self.header)),
            ("infer.quantize.type".to_owned(), self.recipe.target.name().to_owned()),
            ("infer.quantize.version".to_owned(), concat!("infer ", env!("CARGO_PKG_VERSION")).to_owned()),
        ];
        texts.extend(imatrix.map(|path| ("infer.quantize.imatrix".to_owned(), cut(&name(path)))));
        texts.push((VERDICT.to_owned(), " ".repeat(LONGEST_TEXT)));
        texts
    }

    fn verdict(&self, ui: &mut Ui, args: &QuantizeArgs, made: &Path) -> Result<Option<Verdict>> {
        if args.no_check {
            return Ok(None);
        }
        verdict::measure(ui, args, &self.source, made).map(Some)
    }

    fn report(&self, ui: &mut Ui, args: &QuantizeArgs, made: &Header, verdict: Option<&Verdict>) {
        if args.json {
            let mut value = self.json();
            value["bytes"]["after"] = json!(made.file_bytes);
            value["verdict"] = verdict.map_or(Value::Null, Verdict::json);
            // A reader that is gone needs no object.
            let _ = ui.json(&value);
            return;
        }
        match verdict {
            Some(verdict) => say_verdict(ui, verdict),
            None => ui.status("not measured"),
        }
        // A reader that is gone needs no path.
        let _ = ui.page(&self.output.to_string_lossy());
    }
}

fn say_verdict(ui: &mut Ui, verdict: &Verdict) {
    ui.status(&verdict.tokens());
    ui.status(verdict.text().trim_end());
}

/// `--compare A B`: the verdict alone, which is then the product.
fn compare(ui: &mut Ui, args: &QuantizeArgs, names: &[String]) -> Result<()> {
    let mut paths = Vec::with_capacity(2);
    for name in names {
        paths.push(pull::obtain(ui, name, args.yes)?.path);
    }
    let [reference, candidate] = paths.as_slice() else {
        return verdict::alone(ui, args, &paths[0]);
    };
    let verdict = verdict::measure(ui, args, reference, candidate)?;
    // Whether all of it could be written is asked once, at the end.
    let _ = if args.json {
        ui.json(&verdict.json())
    } else {
        ui.status(&verdict.tokens());
        ui.page(&verdict.text())
    };
    verdict.check(args.fail_below)
}

/// Where most numbers came from, as the file says.
fn source_type(header: &Header) -> String {
    header.shape().file_type.unwrap_or("unknown").to_owned()
}

/// As much as a text of the metadata can hold.
fn cut(text: &str) -> String {
    let mut end = text.len().min(LONGEST_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// Refuse to lose precision twice, unless that is wanted. Whether it is.
fn check_precision(name: &str, header: &Header, allowed: bool) -> Result<bool> {
    let lossy = header.tensors.iter().filter(|tensor| tensor.kind.block > 1).count() as u64;
    if lossy == 0 || allowed {
        return Ok(lossy > 0);
    }
    let kind = source_type(header);
    let repo = name.split_once(':').map_or(name, |(repo, _)| repo);
    let hint = if repo.matches('/').count() == 1 && !Path::new(repo).exists() {
        format!("take its F16 file: `infer quantize {repo}:F16`, or give `--allow-requantize`")
    } else {
        "take the F16 file of the model (`infer pull ORG/REPO:F16`), or give `--allow-requantize`".to_owned()
    };
    let message =
        format!("`{}` is quantized already ({kind}, {})", Escaped(name), Count(lossy, "quantized tensor"));
    Err(Error::failed(message).hint(hint))
}

/// Where the result goes.
fn output(store: &Store, source: &Path, args: &QuantizeArgs) -> Result<PathBuf> {
    if let Some(file) = &args.output {
        if file.is_dir() {
            return Err(Error::usage(format!("`{}` is a folder", file.display())).hint("`-o` takes a file"));
        }
        return Ok(file.clone());
    }
    let name = match &args.name {
        Some(name) => name.to_lowercase(),
        None => derived_name(source, args.to),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty()
        || name.len() > 100
        || !name.chars().all(plain)
        || name.starts_with('.')
        || Path::new(&name).extension().is_some_and(|ext| ext == "gguf")
    {
        return Err(Error::usage(format!("`{}` cannot be the name of a model", Escaped(&name)))
            .hint("`--as` takes letters, digits, `-`, `_` and `.`; `-o FILE` takes a path"));
    }
    Ok(store.ours().join(format!("{name}.gguf")))
}

/// `SmolLM2-135M-Instruct.Q4_1.gguf` to `Q4_K_M` is `smollm2-135m-instruct-q4_k_m`.
fn derived_name(source: &Path, target: Target) -> String {
    let stem = source.file_stem().map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default();
    let stem = stem.split_once("-00001-of-").map_or(stem.as_str(), |(stem, _)| stem);
    let words: Vec<&str> = stem.split(['-', '.']).collect();
    let kept: Vec<&str> =
        words.iter().copied().filter(|word| !quant::is_quant(word) && !word.is_empty()).collect();
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '-' };
    let stem: String = kept.join("-").chars().map(plain).collect();
    format!("{}-{}", if stem.is_empty() { "model" } else { &stem }, target.name().to_lowercase())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| Error::failed(format!("cannot use `{}`: {e}", path.display())))
}

/// The same bytes under two names: by path, by a hard link or by a symbolic one.
fn is_same_file(a: &Path, b: &Path) -> bool {
    same_file::is_same_file(a, b).unwrap_or(false)
}

/// A name beside the result that nothing else has. The file itself is made by who can also remove it.
fn temporary(output: &Path) -> PathBuf {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    folder_of(output).join(format!(".infer-{}-{now:x}.gguf.tmp", std::process::id()))
}

/// The file appears under its name, whole and on the disk.
fn publish(temporary: &Path, output: &Path) -> Result<()> {
    let publish = || {
        fs::File::open(temporary)?.sync_all()?;
        fs::rename(temporary, output)
    };
    publish().map_err(|e| Error::failed(format!("cannot write `{}`: {e}", output.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_of_the_sources() {
        for (source, target, name) in [
            ("SmolLM2-135M-Instruct.Q4_1.gguf", Target::Q4KM, "smollm2-135m-instruct-q4_k_m"),
            ("gemma-3-270m-q4_k_m.gguf", Target::Q8_0, "gemma-3-270m-q8_0"),
            ("Qwen3-0.6B-F16-00001-of-00002.gguf", Target::Q4_0, "qwen3-0-6b-q4_0"),
            ("f16.gguf", Target::Q8_0, "model-q8_0"),
        ] {
            assert_eq!(derived_name(Path::new(source), target), name);
        }
    }
}
