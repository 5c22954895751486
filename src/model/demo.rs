//! The demo model inside the binary, unpacked once into a cache folder because llama.cpp maps files.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

const WEIGHTS: &[u8] = include_bytes!("../../assets/demo/demo-f16.gguf");

/// The demo model as a file in `folder`. A file that is not exactly the embedded one is replaced.
pub(crate) fn unpack(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("infer-demo-f16.gguf");
    if fs::read(&path).is_ok_and(|bytes| bytes == WEIGHTS) {
        return Ok(path);
    }
    write(folder, &path).map_err(|e| {
        Error::failed(format!("cannot unpack the demo model into `{}`: {e}", folder.display()))
            .hint("set XDG_CACHE_HOME to a folder with room that can be written")
    })?;
    Ok(path)
}

fn write(folder: &Path, path: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(WEIGHTS)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacks_once_and_repairs_what_was_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("not/there/yet");
        let path = unpack(&cache).unwrap();
        assert!(fs::read(&path).unwrap() == WEIGHTS);
        let first = fs::metadata(&path).unwrap().modified().unwrap();
        unpack(&cache).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), first);
        let mut damaged = WEIGHTS.to_vec();
        damaged[WEIGHTS.len() - 1] ^= 1;
        fs::write(&path, damaged).unwrap();
        unpack(&cache).unwrap();
        assert!(fs::read(&path).unwrap() == WEIGHTS);
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error_with_a_hint() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = unpack(&file.path().join("below")).unwrap_err();
        assert!(error.message.starts_with("cannot unpack the demo model into `"), "{}", error.message);
        assert!(error.hint.is_some());
    }
}
