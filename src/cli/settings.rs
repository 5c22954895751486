//! How answers are sampled and where each value came from: flag, environment, preset, the registry of names, the model's
//! file, or us.

use std::hash::{BuildHasher, RandomState};

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::args::{PresetArg, SamplingArgs};
use crate::engine::Sampling;
use crate::error::{Error, Result};

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Env,
    Preset,
    /// What `models.toml` says for the model's name.
    Registry,
    /// The model's file.
    Model,
    Default,
    /// A new seed for each answer.
    Random,
    /// `/set` in a conversation.
    Set,
}

impl Origin {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Env => "env",
            Self::Preset => "preset",
            Self::Registry => "registry",
            Self::Model => "model",
            Self::Default => "default",
            Self::Random => "random",
            Self::Set => "set",
        }
    }
}

/// The names of the values, their place in the model's file, in the order of [`Settings::rows`].
const NAMES: [(&str, &str); 6] = [
    ("temp", "general.sampling.temp"),
    ("top_k", "general.sampling.top_k"),
    ("top_p", "general.sampling.top_p"),
    ("min_p", "general.sampling.min_p"),
    ("repeat_penalty", "general.sampling.penalty_repeat"),
    ("seed", ""),
];

/// Sampling with its history.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    sampling: Sampling,
    origins: [Origin; NAMES.len()],
}

impl Settings {
    /// Flag over environment over preset over the registry over the model's file over the defaults. The registry is asked
    /// by our own names, the file by its keys.
    pub(crate) fn resolve(
        args: &SamplingArgs,
        matches: &ArgMatches,
        in_registry: impl Fn(&str) -> Option<f64>,
        in_model: impl Fn(&str) -> Option<f64>,
    ) -> Result<Self> {
        let mut settings = Self { sampling: Sampling::default(), origins: [Origin::Default; NAMES.len()] };
        settings.origins[5] = Origin::Random;
        for (name, key) in NAMES {
            for (value, origin) in [(in_model(key), Origin::Model), (in_registry(name), Origin::Registry)] {
                let Some(value) = value.filter(|v| v.is_finite()) else { continue };
                let mut with = settings.clone();
                with.put(name, value, origin);
                // A file is no reason to refuse work: a value that no sampler can use is not one.
                if with.sampling.validate().is_ok() {
                    settings = with;
                }
            }
        }
        if let Some(last_n) =
            in_model("general.sampling.penalty_last_n").filter(|n| (0.0..=65536.0).contains(n))
        {
            #[expect(clippy::cast_possible_truncation, reason = "it is in the range")]
            let last_n = last_n as i32;
            settings.sampling.repeat_last_n = last_n;
        }
        if let Some(preset) = args.preset {
            let (temp, top_p) = match preset {
                PresetArg::Precise => (0.2, 0.9),
                PresetArg::Balanced => (0.7, 0.95),
                PresetArg::Creative => (1.0, 0.98),
            };
            settings.put("temp", temp, Origin::Preset);
            settings.put("top_p", top_p, Origin::Preset);
        }
        let said = [
            args.temp.map(f64::from),
            args.top_k.map(f64::from),
            args.top_p.map(f64::from),
            args.min_p.map(f64::from),
            args.repeat_penalty.map(f64::from),
            args.seed.map(f64::from),
        ];
        for ((name, _), value) in NAMES.into_iter().zip(said) {
            if let Some(value) = value {
                let from_env = matches.value_source(name) == Some(ValueSource::EnvVariable);
                settings.put(name, value, if from_env { Origin::Env } else { Origin::Flag });
            }
        }
        settings.sampling.validate()?;
        Ok(settings)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "casts saturate, `validate` decides"
    )]
    fn put(&mut self, name: &str, value: f64, origin: Origin) {
        let sampling = &mut self.sampling;
        match name {
            "temp" => sampling.temp = value as f32,
            "top_k" => sampling.top_k = value as i32,
            "top_p" => sampling.top_p = value as f32,
            "min_p" => sampling.min_p = value as f32,
            "repeat_penalty" => sampling.repeat_penalty = value as f32,
            _ => sampling.seed = value as u32,
        }
        if let Some(at) = NAMES.iter().position(|(n, _)| *n == name) {
            self.origins[at] = origin;
        }
    }

    /// `/set NAME VALUE`. False when there is no such name here.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        let name = name.replace('-', "_");
        if !NAMES.iter().any(|(n, _)| *n == name) {
            return Ok(false);
        }
        if name == "seed" && value == "random" {
            self.origins[5] = Origin::Random;
            return Ok(true);
        }
        let whole = name == "seed" || name == "top_k";
        let number = if whole { value.parse::<u32>().map(f64::from).ok() } else { value.parse().ok() };
        let number = number.ok_or_else(|| {
            let what = if whole { "a whole number" } else { "a number" };
            Error::usage(format!("`{}` takes {what}, not `{value}`", name.replace('_', "-")))
        })?;
        let mut changed = self.clone();
        changed.put(&name, number, Origin::Set);
        changed.sampling.validate()?;
        *self = changed;
        Ok(true)
    }

    /// The values for one answer: a new seed, unless one was given.
    pub(crate) fn for_answer(&mut self) -> Sampling {
        if self.origins[5] == Origin::Random {
            self.sampling.seed = random_seed();
        }
        self.sampling.clone()
    }

    /// Name, value as text, origin. The seed is the last answer's.
    pub(crate) fn rows(&self) -> [(&'static str, String, Origin); NAMES.len()] {
        let s = &self.sampling;
        let values = [
            s.temp.to_string(),
            s.top_k.to_string(),
            s.top_p.to_string(),
            s.min_p.to_string(),
            s.repeat_penalty.to_string(),
            s.seed.to_string(),
        ];
        let mut values = values.into_iter();
        std::array::from_fn(|i| (NAMES[i].0, values.next().unwrap_or_default(), self.origins[i]))
    }

    /// `{NAME: {"value", "from"}}`.
    pub(crate) fn json(&self) -> serde_json::Value {
        let row = |(name, text, origin): (&str, String, Origin)| {
            let value = text.parse::<serde_json::Number>().map_or(serde_json::Value::Null, Into::into);
            (name.to_owned(), serde_json::json!({ "value": value, "from": origin.as_str() }))
        };
        self.rows().into_iter().map(row).collect::<serde_json::Map<_, _>>().into()
    }

    /// `temp 0.8 (default), top-k 40 (model), …`
    pub(crate) fn line(&self) -> String {
        self.rows()
            .map(|(name, value, origin)| format!("{} {value} ({})", name.replace('_', "-"), origin.as_str()))
            .join(", ")
    }
}

/// A seed that differs from run to run; the standard library's hasher is seeded by the system.
fn random_seed() -> u32 {
    let hash = RandomState::new().hash_one(0);
    u32::try_from(hash & u64::from(u32::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    fn resolve(argv: &[&str], in_model: impl Fn(&str) -> Option<f64>) -> Result<Settings> {
        resolve_both(argv, |_| None, in_model)
    }

    fn resolve_both(
        argv: &[&str],
        in_registry: impl Fn(&str) -> Option<f64>,
        in_model: impl Fn(&str) -> Option<f64>,
    ) -> Result<Settings> {
        let command = SamplingArgs::augment_args(clap::Command::new("x")).no_binary_name(true);
        let matches = command.get_matches_from(argv);
        let sampling = SamplingArgs::from_arg_matches(&matches).unwrap();
        Settings::resolve(&sampling, &matches, in_registry, in_model)
    }

    #[test]
    fn the_registry_lies_over_the_file_and_below_what_was_said() {
        let registry = |name: &str| {
            [("temp", 0.3), ("top_k", 7.0), ("top_p", 9.0)].iter().find(|r| r.0 == name).map(|r| r.1)
        };
        let settings =
            resolve_both(&["--temp", "0.9"], registry, |key| key.ends_with("top_k").then_some(20.0)).unwrap();
        for (name, value, origin) in [
            ("temp", "0.9", Origin::Flag),
            ("top_k", "7", Origin::Registry),
            ("top_p", "0.95", Origin::Default),
        ] {
            assert_eq!(row(&settings, name), (value.to_owned(), origin), "{name}");
        }
    }

    fn row(settings: &Settings, name: &str) -> (String, Origin) {
        settings.rows().into_iter().find(|r| r.0 == name).map(|r| (r.1, r.2)).unwrap()
    }

    #[test]
    fn flag_over_preset_over_model_over_default() {
        let model = |key: &str| match key {
            "general.sampling.temp" => Some(0.6),
            "general.sampling.top_k" => Some(20.0),
            "general.sampling.min_p" => Some(f64::NAN),
            _ => None,
        };
        let settings =
            resolve(&["--preset", "precise", "--top-p", "0.5", "--seed", "4294967295"], model).unwrap();
        for (name, value, origin) in [
            ("temp", "0.2", Origin::Preset),
            ("top_k", "20", Origin::Model),
            ("top_p", "0.5", Origin::Flag),
            ("min_p", "0.05", Origin::Default),
            ("repeat_penalty", "1", Origin::Default),
            ("seed", "4294967295", Origin::Flag),
        ] {
            assert_eq!(row(&settings, name), (value.to_owned(), origin), "{name}");
        }
        let expected = r#"{"value":0.2,"from":"preset"}"#;
        assert_eq!(settings.json()["temp"], serde_json::from_str::<serde_json::Value>(expected).unwrap());
    }

    #[test]
    fn values_out_of_range_are_refused_from_a_person_and_ignored_from_a_file() {
        assert!(resolve(&["--temp", "-1"], |_| None).is_err());
        let from_model = resolve(&[], |key| (key == "general.sampling.top_p").then_some(7.0)).unwrap();
        assert_eq!(row(&from_model, "top_p"), ("0.95".to_owned(), Origin::Default));
    }

    #[test]
    fn a_seed_is_random_until_it_is_given() {
        let mut settings = resolve(&[], |_| None).unwrap();
        let seeds = [settings.for_answer().seed, settings.for_answer().seed, settings.for_answer().seed];
        assert!(seeds[0] != seeds[1] || seeds[1] != seeds[2]);
        assert!(settings.set("seed", "7").unwrap());
        assert_eq!([settings.for_answer().seed, settings.for_answer().seed], [7, 7]);
        assert!(settings.set("seed", "random").unwrap());
        assert_eq!(row(&settings, "seed").1, Origin::Random);
    }

    #[test]
    fn set_changes_what_is_valid_and_nothing_else() {
        let mut settings = resolve(&[], |_| None).unwrap();
        assert!(settings.set("top-k", "5").unwrap() && settings.set("temp", "0").unwrap());
        assert!(!settings.set("colour", "5").unwrap());
        assert_eq!(settings.set("temp", "hot").unwrap_err().message, "`temp` takes a number, not `hot`");
        assert_eq!(
            settings.set("top_k", "1.5").unwrap_err().message,
            "`top-k` takes a whole number, not `1.5`"
        );
        assert!(settings.set("top-p", "2").is_err());
        assert_eq!(row(&settings, "temp"), ("0".to_owned(), Origin::Set));
        assert_eq!(row(&settings, "top_p"), ("0.95".to_owned(), Origin::Default));
    }
}
