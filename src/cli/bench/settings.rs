//! What a table says about settings: those that differ from row to row are columns, the others are told once.

use super::row::{Planned, Settings};
use crate::engine::GpuLayers;

/// Something that can be chosen.
pub(crate) struct Setting {
    /// Above its column.
    pub(crate) title: &'static str,
    pub(crate) value: fn(&Settings) -> String,
    /// In a sentence about all rows; nothing where nothing was chosen.
    told: fn(&Settings) -> Option<String>,
}

const PROMPT_THREADS: &str = "prompt threads";

const SETTINGS: [Setting; 8] = [
    Setting {
        title: "device",
        value: |s| s.device.clone().unwrap_or_else(|| "auto".to_owned()),
        told: |s| s.device.as_ref().map(|device| format!("device {device}")),
    },
    Setting {
        title: "ngl",
        value: |s| gpu_layers(s.gpu_layers),
        told: |s| {
            (s.gpu_layers != GpuLayers::Auto).then(|| format!("GPU layers {}", gpu_layers(s.gpu_layers)))
        },
    },
    Setting {
        title: "threads",
        value: |s| s.threads.to_string(),
        told: |s| Some(format!("threads {}", s.threads)),
    },
    Setting {
        title: PROMPT_THREADS,
        value: |s| s.threads_batch.to_string(),
        told: |s| (s.threads_batch != s.threads).then(|| format!("{} for prompts", s.threads_batch)),
    },
    Setting { title: "batch", value: |s| s.batch.to_string(), told: |s| Some(format!("batch {}", s.batch)) },
    Setting {
        title: "ubatch",
        value: |s| s.ubatch.to_string(),
        told: |s| Some(format!("ubatch {}", s.ubatch)),
    },
    Setting { title: "kv", value: |s| s.kv.to_string(), told: |s| Some(format!("KV {}", s.kv)) },
    Setting {
        title: "flash",
        value: |s| s.flash.map_or("auto", |on| if on { "on" } else { "off" }).to_owned(),
        told: |s| s.flash.map(|on| format!("flash attention {}", if on { "on" } else { "off" })),
    },
];

fn gpu_layers(layers: GpuLayers) -> String {
    match layers {
        GpuLayers::Auto => "auto".to_owned(),
        GpuLayers::All => "all".to_owned(),
        GpuLayers::Count(layers) => layers.to_string(),
    }
}

/// Those that differ from row to row, in one model or between two. Threads for prompts that follow the others have no
/// column of their own.
pub(crate) fn varying(plan: &[Planned]) -> Vec<&'static Setting> {
    let differs = |of: &dyn Fn(&Settings) -> String| {
        let mut values = plan.iter().map(|row| of(&row.settings));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    let follow = plan.iter().all(|row| row.settings.threads == row.settings.threads_batch);
    let threads = |s: &Settings| format!("{} {}", s.threads, s.threads_batch);
    let is_column = |setting: &&Setting| match setting.title {
        PROMPT_THREADS => !follow && differs(&threads),
        _ => differs(&setting.value),
    };
    SETTINGS.iter().filter(is_column).collect()
}

/// All others, in words.
pub(crate) fn constant(plan: &[Planned]) -> Vec<String> {
    let Some(first) = plan.first() else { return Vec::new() };
    let columns: Vec<&str> = varying(plan).into_iter().map(|setting| setting.title).collect();
    let others = SETTINGS.iter().filter(|setting| !columns.contains(&setting.title));
    others.filter_map(|setting| (setting.told)(&first.settings)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::row::example;
    use super::*;

    fn plan(change: &[fn(&mut Settings)]) -> Vec<Planned> {
        let row = example::row(&[]);
        let planned = |change: &fn(&mut Settings)| {
            let mut settings = row.settings.clone();
            change(&mut settings);
            Planned { model: row.model.name.clone(), settings, test: row.test }
        };
        change.iter().map(planned).collect()
    }

    #[test]
    fn what_differs_is_a_column_and_the_rest_is_told() {
        type Case = (&'static [fn(&mut Settings)], &'static [&'static str], &'static [&'static str]);
        let cases: [Case; 6] = [
            (&[], &[], &[]),
            (&[|_| {}], &[], &["threads 2", "batch 2048", "ubatch 512", "KV f16"]),
            (
                &[|_| {}, |s| (s.threads, s.threads_batch) = (4, 4)],
                &["threads"],
                &["batch 2048", "ubatch 512", "KV f16"],
            ),
            (
                &[|_| {}, |s| s.threads = 4],
                &["threads", "prompt threads"],
                &["batch 2048", "ubatch 512", "KV f16"],
            ),
            (
                &[|s| s.threads_batch = 4],
                &[],
                &["threads 2", "4 for prompts", "batch 2048", "ubatch 512", "KV f16"],
            ),
            (
                &[|s| s.flash = Some(true), |s| s.flash = Some(false)],
                &["flash"],
                &["threads 2", "batch 2048", "ubatch 512", "KV f16"],
            ),
        ];
        for (change, columns, told) in cases {
            let plan = plan(change);
            let titles: Vec<&str> = varying(&plan).iter().map(|setting| setting.title).collect();
            assert_eq!(
                (titles, constant(&plan)),
                (columns.to_vec(), told.iter().map(|&t| t.to_owned()).collect())
            );
        }
    }

    #[test]
    fn every_choice_has_words_and_a_value() {
        let chosen: fn(&mut Settings) = |s| {
            s.device = Some("CUDA0".to_owned());
            s.gpu_layers = GpuLayers::All;
            s.flash = Some(false);
        };
        let words = constant(&plan(&[chosen])).join(", ");
        assert_eq!(
            words,
            "device CUDA0, GPU layers all, threads 2, batch 2048, ubatch 512, KV f16, flash attention off"
        );
        let values = |plan: &[Planned]| SETTINGS.map(|setting| (setting.value)(&plan[0].settings));
        assert_eq!(values(&plan(&[chosen])), ["CUDA0", "all", "2", "2", "2048", "512", "f16", "off"]);
        let counted: fn(&mut Settings) = |s| s.gpu_layers = GpuLayers::Count(12);
        assert_eq!(values(&plan(&[counted])), ["auto", "12", "2", "2", "2048", "512", "f16", "auto"]);
    }
}
