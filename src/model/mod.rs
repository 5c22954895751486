//! Models as files: where they are and what stands in them. It knows no conversation and no terminal.

use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};

pub(crate) mod arch;
pub(crate) mod demo;
pub(crate) mod fit;
pub(crate) mod gguf;
pub(crate) mod name;
pub(crate) mod quant;
pub(crate) mod store;
pub(crate) mod registry;

/// The file of a model by name: `demo`, or a path.
pub(crate) fn locate(name: &str, cache: &Path) -> Result<PathBuf> {
    if name == "demo" {
        return demo::unpack(cache);
    }
    let path = Path::new(name);
    // A folder is refused by the reader, which can say what it is.
    match path.try_exists() {
        Ok(true) => return Ok(path.to_owned()),
        Ok(false) => {}
        Err(e) => return Err(Error::failed(format!("cannot open `{}`: {e}", name.escape_debug()))),
    }
    let looks_like_path = name.contains(std::path::MAIN_SEPARATOR)
        || path.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("gguf"));
    let what = if looks_like_path { "file" } else { "model" };
    Err(Error::new(Kind::NotFound, format!("no such {what}: `{}`", name.escape_debug()))
        .hint("give the path of a GGUF file (this version does not download), or try `infer run demo`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_demo_or_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        assert_eq!(locate("demo", &cache).unwrap().parent(), Some(cache.as_path()));
        let file = folder.path().join("x.gguf");
        std::fs::write(&file, "").unwrap();
        assert_eq!(locate(file.to_str().unwrap(), &cache).unwrap(), file);
    }

    #[test]
    fn what_is_not_there_is_named_for_what_it_looks_like() {
        for (name, message) in [
            ("llama9", "no such model: `llama9`"),
            ("./llama9", "no such file: `./llama9`"),
            ("a.GGUF", "no such file: `a.GGUF`"),
            ("a\u{1b}b", "no such model: `a\\u{1b}b`"),
        ] {
            let error = locate(name, Path::new("/nowhere")).unwrap_err();
            assert_eq!((error.kind, error.message.as_str()), (Kind::NotFound, message));
        }
    }
}
