//! What `infer tune` has found, remembered in a file: for a machine, an architecture and a size.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ui::Ui;
use super::{dirs, load};
use crate::engine::llama::LLAMA_CPP_BUILD;
use crate::engine::{BATCH, DeviceKind, Flash, GpuLayers, KvType, LoadPlan, placement};
use crate::error::{Error, Result};
use crate::human::{Count, Params};
use crate::model::gguf::Shape;

/// The form of the file. Another number is a file of another version of this program.
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    tuned: Vec<Entry>,
}

/// One choice, and what it is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    #[serde(flatten)]
    pub(crate) key: Key,
    #[serde(flatten)]
    pub(crate) choice: Choice,
    /// The model that was measured.
    pub(crate) model: String,
    /// How many times as fast as llama.cpp's defaults it was, over all tests.
    pub(crate) gain: f64,
}

/// What a choice is for. Another release of llama.cpp has other speeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Key {
    pub(crate) machine: String,
    pub(crate) llama_cpp: String,
    pub(crate) architecture: String,
    /// The power of two that is nearest to the number of parameters, as people write it.
    pub(crate) parameters: String,
    pub(crate) gpu: bool,
}

/// What can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Choice {
    /// llama.cpp decides, or off.
    pub(crate) flash_attention: FlashChoice,
    pub(crate) threads: u16,
    pub(crate) threads_batch: u16,
    pub(crate) ubatch: u32,
    /// All layers stay on the CPU, although there is a GPU.
    pub(crate) cpu_only: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FlashChoice {
    Auto,
    Off,
}

impl Key {
    /// For a model on this machine, with a device as `--device` takes it.
    pub(crate) fn here(shape: &Shape, device: Option<&str>) -> Self {
        let devices = placement::devices();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let names = devices.iter().filter(|d| d.kind != DeviceKind::Other).map(|d| d.description.trim());
        let names: Vec<&str> = names.collect();
        Self {
            machine: format!("{}, {}", names.join(", "), Count(threads as u64, "thread")),
            llama_cpp: LLAMA_CPP_BUILD.to_owned(),
            architecture: shape.architecture.clone().unwrap_or_default(),
            parameters: Params(size_class(shape.parameters)).to_string(),
            gpu: placement::uses_gpu(device, GpuLayers::Auto),
        }
    }
}

/// The nearest power of two by ratio.
fn size_class(parameters: u64) -> u64 {
    let below = 1_u64.checked_shl(parameters.checked_ilog2().unwrap_or(0)).unwrap_or(1);
    // Beyond √2 times the one below, the one above is nearer.
    let squares = |n: u64| u128::from(n) * u128::from(n);
    if squares(parameters) > 2 * squares(below) { below.saturating_mul(2) } else { below }
}

impl Choice {
    pub(crate) fn of(plan: &LoadPlan) -> Self {
        let count = |threads| u16::try_from(threads).unwrap_or(u16::MAX);
        Self {
            flash_attention: if plan.flash == Flash::Off { FlashChoice::Off } else { FlashChoice::Auto },
            threads: count(plan.threads),
            threads_batch: count(plan.threads_batch),
            ubatch: plan.ubatch,
            cpu_only: plan.gpu_layers == GpuLayers::Count(0),
        }
    }

    /// Take it up in a plan, where the person has not said otherwise.
    pub(crate) fn apply(&self, plan: &mut LoadPlan, threads_said: bool) {
        plan.flash = match self.flash_attention {
            // Quantized values can only be read by flash attention.
            FlashChoice::Off if plan.kv == KvType::F16 => Flash::Off,
            _ => Flash::Auto,
        };
        if !threads_said {
            (plan.threads, plan.threads_batch) = (self.threads.into(), self.threads_batch.into());
        }
        (plan.ubatch, plan.batch) = (self.ubatch, self.ubatch.max(BATCH));
        if self.cpu_only && plan.gpu_layers == GpuLayers::Auto {
            plan.gpu_layers = GpuLayers::Count(0);
        }
    }

    /// Could it be one that was measured? A file can be changed by hand.
    fn is_sound(&self) -> bool {
        let threads = 1..=1024;
        threads.contains(&self.threads)
            && threads.contains(&self.threads_batch)
            && (1..=65_536).contains(&self.ubatch)
    }
}

/// In words, as far as it differs from what is usual.
pub(crate) fn words(plan: &LoadPlan) -> String {
    let mut words = vec![Count(plan.threads as u64, "thread").to_string()];
    if plan.threads_batch != plan.threads {
        words.push(format!("{} for prompts", plan.threads_batch));
    }
    words.push(format!("flash attention {}", if plan.flash == Flash::Off { "off" } else { "auto" }));
    words.push(format!("micro-batch {}", plan.ubatch));
    if plan.gpu_layers == GpuLayers::Count(0) {
        words.push("no layers on the GPU".to_owned());
    }
    words.join(", ")
}

/// What is remembered for a model here, with one line of warning about a file that cannot be used.
pub(crate) fn find(ui: &mut Ui, shape: &Shape, device: Option<&str>) -> Option<Choice> {
    let path = path()?;
    match read(&path).and_then(|entries| entries.ok_or_else(|| damaged(&path))) {
        Ok(entries) if entries.is_empty() => None,
        Ok(entries) => {
            let key = Key::here(shape, device);
            entries.into_iter().find(|entry| entry.key == key).map(|entry| entry.choice)
        }
        Err(error) => {
            ui.note(&unusable(&error));
            None
        }
    }
}

fn unusable(error: &Error) -> String {
    format!("tuned settings: not in use: {}; `infer tune --clear` removes the file", error.message)
}

/// Everything that is remembered, for any machine.
pub(crate) fn all() -> Result<Vec<Entry>> {
    path().map_or_else(|| Ok(Vec::new()), |path| read(&path)?.ok_or_else(|| damaged(&path)))
}

/// Remember a choice in the place of an earlier one for the same.
pub(crate) fn remember(ui: &mut Ui, entry: Entry) -> Result<()> {
    let path = path().ok_or_else(|| {
        Error::failed("no home folder to remember it in").hint("set HOME, or XDG_CONFIG_HOME")
    })?;
    let mut entries = read(&path)?.unwrap_or_else(|| {
        ui.note(&format!("tuned settings: replaced: {}", damaged(&path).message));
        Vec::new()
    });
    entries.retain(|old| old.key != entry.key);
    entries.push(entry);
    write(&path, entries)
}

/// Forget what is remembered for this key, or all of it. Answers how much that was.
pub(crate) fn forget(key: Option<&Key>) -> Result<usize> {
    let Some(path) = path() else { return Ok(0) };
    let Some(key) = key else {
        let count = read(&path)?.map_or(1, |entries| entries.len());
        return match fs::remove_file(&path) {
            Ok(()) => Ok(count),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(0),
            Err(e) => Err(Error::failed(format!("cannot remove `{}`: {e}", path.display()))),
        };
    };
    let mut entries = read(&path)?.ok_or_else(|| damaged(&path))?;
    let before = entries.len();
    entries.retain(|entry| entry.key != *key);
    let gone = before - entries.len();
    if gone > 0 {
        write(&path, entries)?;
    }
    Ok(gone)
}

fn path() -> Option<PathBuf> {
    dirs::config().map(|folder| folder.join("tuned.json"))
}

/// What a file holds; `None` where that makes no sense.
fn read(path: &Path) -> Result<Option<Vec<Entry>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(str::from_utf8(&bytes).ok().and_then(parse)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Some(Vec::new())),
        Err(e) => Err(Error::failed(format!("cannot read `{}`: {e}", path.display()))),
    }
}

fn damaged(path: &Path) -> Error {
    Error::failed(format!("`{}` is damaged, or of another version", path.display()))
        .hint("`infer tune --clear` removes it")
}

fn parse(text: &str) -> Option<Vec<Entry>> {
    let file: File = serde_json::from_str(text).ok()?;
    let sound = file.version == VERSION && file.tuned.iter().all(|entry| entry.choice.is_sound());
    sound.then_some(file.tuned)
}

fn write(path: &Path, tuned: Vec<Entry>) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)
            .map_err(|e| Error::failed(format!("cannot make `{}`: {e}", folder.display())))?;
    }
    let text = serde_json::to_string_pretty(&File { version: VERSION, tuned })
        .map_err(|e| Error::failed(format!("cannot write `{}`: {e}", path.display())))?;
    load::write_file(path, &(text + "\n"), load::Readers::Usual)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::cli) fn entry(architecture: &str) -> Entry {
        Entry {
            key: Key {
                machine: "a CPU, 2 threads".to_owned(),
                llama_cpp: "b1".to_owned(),
                architecture: architecture.to_owned(),
                parameters: "134.2M".to_owned(),
                gpu: false,
            },
            choice: Choice {
                flash_attention: FlashChoice::Off,
                threads: 3,
                threads_batch: 4,
                ubatch: 128,
                cpu_only: false,
            },
            model: "m".to_owned(),
            gain: 1.25,
        }
    }

    #[test]
    fn models_of_about_the_same_size_share_a_choice() {
        for (parameters, class) in [
            (0, 1),
            (1, 1),
            (134_515_008, 1 << 27),
            (189_000_000, 1 << 27),
            (190_000_000, 1 << 28),
            (268_098_176, 1 << 28),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(size_class(parameters), class, "{parameters}");
        }
    }

    #[test]
    fn a_plan_takes_up_what_the_person_has_not_said() {
        let usual = LoadPlan::usual(0, KvType::F16, 2);
        let mut plan = usual.clone();
        entry("llama").choice.apply(&mut plan, false);
        let expected = LoadPlan { threads: 3, threads_batch: 4, flash: Flash::Off, ubatch: 128, ..usual };
        assert_eq!(plan, expected);
        assert_eq!(words(&plan), "3 threads, 4 for prompts, flash attention off, micro-batch 128");
        assert_eq!(Choice::of(&plan), entry("llama").choice);
        let mut said = LoadPlan { kv: KvType::Q8_0, threads: 7, threads_batch: 7, ..plan };
        Choice { ubatch: 1024, cpu_only: true, ..entry("llama").choice }.apply(&mut said, true);
        assert_eq!((said.threads, said.threads_batch, said.flash), (7, 7, Flash::Auto));
        assert_eq!((said.ubatch, said.batch, said.gpu_layers), (1024, 1024, GpuLayers::Count(0)));
        assert_eq!(words(&said), "7 threads, flash attention auto, micro-batch 1024, no layers on the GPU");
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/tuned.json");
        assert_eq!(read(&path).unwrap(), Some(Vec::new()));
        write(&path, vec![entry("llama"), entry("gemma3")]).unwrap();
        assert_eq!(read(&path).unwrap(), Some(vec![entry("llama"), entry("gemma3")]));
    }

    #[test]
    fn a_file_that_was_damaged_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tuned.json");
        write(&path, vec![entry("llama")]).unwrap();
        let good = fs::read_to_string(&path).unwrap();
        assert!(parse(&good).is_some());
        for (from, to) in [
            ("\"version\": 1", "\"version\": 2"),
            ("\"threads\": 3", "\"threads\": 0"),
            ("\"threads\": 3", "\"threads\": 5000"),
            ("\"threads_batch\": 4", "\"threads_batch\": -1"),
            ("\"ubatch\": 128", "\"ubatch\": 100000000"),
            ("\"off\"", "\"sometimes\""),
            ("\"ubatch\"", "\"micro\""),
            ("}", ""),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good);
            assert!(parse(&bad).is_none(), "{bad}");
        }
        // What cannot be read is not known to be damaged, and not replaced.
        assert!(read(folder.path()).unwrap_err().message.starts_with("cannot read `"));
        for bad in ["", "[]", "{}", "null", "\u{0}"] {
            fs::write(&path, bad).unwrap();
            assert_eq!(read(&path).unwrap(), None);
        }
    }
}
