//! Models as files: what a name means, where its files are, and how they get here. It knows no conversation and no
//! terminal.

use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};
use crate::human::Escaped;
use name::{HubRef, ModelRef};
use registry::{Entry, Registry};
use store::Store;

pub(crate) mod arch;
pub(crate) mod demo;
pub(crate) mod fingerprint;
pub(crate) mod fit;
pub(crate) mod gguf;
pub(crate) mod hub;
pub(crate) mod imatrix;
pub(crate) mod name;
pub(crate) mod page_cache;
pub(crate) mod pull;
pub(crate) mod quant;
pub(crate) mod recipe;
pub(crate) mod registry;
pub(crate) mod roofline;
pub(crate) mod store;

/// The folders and names that a model is looked for in.
pub(crate) struct Places {
    /// Where the demo model is unpacked.
    pub(crate) demo: PathBuf,
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    /// The hub's address, whose URLs are names too.
    pub(crate) endpoint: String,
}

/// What a name means on this machine.
pub(crate) enum Located {
    /// This file, the first of its parts.
    File(PathBuf),
    /// A model of the hub that is not here, or not whole.
    Remote(HubRef),
}

impl Places {
    /// Find a model by its name. Asks nobody but this machine.
    pub(crate) fn locate(&self, name: &str) -> Result<Located> {
        match self.parse(name)? {
            ModelRef::Demo => demo::unpack(&self.demo).map(Located::File),
            ModelRef::Path(path) => local(&path).map(Located::File),
            ModelRef::Alias(alias) => match self.store.made_here_as(&alias.to_string()) {
                Some(path) => Ok(Located::File(path)),
                None => match self.registry.resolve(&alias) {
                    // A word that names no model may still be something here.
                    Err(_) if Path::new(name).exists() => local(Path::new(name)).map(Located::File),
                    hub => hub.map(|hub| self.cached_or_remote(hub)),
                },
            },
            ModelRef::Hub(hub) => Ok(self.cached_or_remote(hub)),
        }
    }

    fn parse(&self, name: &str) -> Result<ModelRef> {
        ModelRef::parse(name, &self.endpoint, &|path| path.is_file())
    }

    /// What a name means on the hub, here or not; `None` for a file, the demo and models made here.
    pub(crate) fn on_hub(&self, name: &str) -> Result<Option<HubRef>> {
        match self.parse(name)? {
            ModelRef::Demo | ModelRef::Path(_) => Ok(None),
            ModelRef::Alias(alias) if self.store.made_here_as(&alias.to_string()).is_some() => Ok(None),
            ModelRef::Alias(alias) => match self.registry.resolve(&alias) {
                Err(_) if Path::new(name).exists() => Ok(None),
                hub => hub.map(Some),
            },
            ModelRef::Hub(hub) => Ok(Some(hub)),
        }
    }

    fn cached_or_remote(&self, hub: HubRef) -> Located {
        self.cached(&hub).map_or(Located::Remote(hub), Located::File)
    }

    /// The file of a model that was pulled before, by this program or another.
    fn cached(&self, hub: &HubRef) -> Option<PathBuf> {
        self.store.cached(&hub.repo, hub.revision.as_ref()).into_iter().find_map(|snapshot| {
            let all = quant::variants(&snapshot.files);
            let whole: Vec<_> = all.into_iter().filter(|variant| variant.missing.is_empty()).collect();
            let first = quant::pick(&whole, &hub.pick).ok()?.files.first()?.path.clone();
            Some(snapshot.folder.join(first))
        })
    }

    /// What the registry knows of a model by its name.
    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.on_hub(name).ok().flatten().and_then(|hub| self.registry.entry_for(&hub))
    }
}

/// A file by its path. What it is, the reader finds out.
fn local(path: &Path) -> Result<PathBuf> {
    let shown = Escaped(&path.to_string_lossy()).to_string();
    match path.try_exists() {
        Ok(true) => Ok(path.to_owned()),
        Ok(false) => Err(Error::new(Kind::NotFound, format!("no such file: `{shown}`"))
            .hint("give the path of a GGUF file, or a name of `infer list --names`")),
        Err(e) => Err(Error::failed(format!("cannot open `{shown}`: {e}"))),
    }
}
