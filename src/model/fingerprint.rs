//! Which model a file holds, found out in milliseconds: most of it is not read.

use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::SystemTime;

use twox_hash::XxHash3_64;

use super::gguf::Header;
use crate::error::{Error, Result};

/// Bytes read of each tensor. Training moves all numbers of a tensor, so any stretch of it tells.
const SAMPLE: u64 = 1024;

/// A text that is the same for a model as long as its files are, and another for any other model: made of headers,
/// sizes, times of change and a stretch of every tensor. `header` is that of the first file, at `path`.
pub(crate) fn fingerprint(path: &Path, header: &Header) -> Result<String> {
    let mut hash = XxHash3_64::with_seed(0);
    for part in header.part_paths(path) {
        let header = Header::open(&part)?;
        add(&part, &header, &mut hash)
            .map_err(|e| Error::failed(format!("cannot read `{}`: {e}", part.display())))?;
    }
    Ok(format!("{:016x}", hash.finish()))
}

fn add(path: &Path, header: &Header, hash: &mut XxHash3_64) -> io::Result<()> {
    let mut file = File::open(path)?;
    let about = file.metadata()?;
    let changed = about.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    hash.write_u64(about.len());
    hash.write_u128(changed.as_nanos());
    let mut bytes = Vec::new();
    let mut add = |start: u64, len: u64| {
        bytes.clear();
        file.seek(SeekFrom::Start(start))?;
        (&mut file).take(len).read_to_end(&mut bytes)?;
        hash.write(&bytes);
        io::Result::Ok(())
    };
    add(0, header.meta_bytes())?;
    for tensor in &header.tensors {
        let len = tensor.bytes.min(SAMPLE);
        add(header.meta_bytes() + tensor.offset + (tensor.bytes - len) / 2, len)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::model::gguf::Tensor;
    use crate::model::gguf::tiny_gguf::Tiny;

    fn of(path: &Path) -> String {
        fingerprint(path, &Header::open(path).unwrap()).unwrap()
    }

    /// Write a file as if it had been there for long.
    fn write(path: &Path, bytes: &[u8]) {
        fs::write(path, bytes).unwrap();
        set_time(path, 1_000_000);
    }

    fn set_time(path: &Path, seconds: u64) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn a_model_is_told_from_all_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        let bytes = Tiny::llama().bytes();
        write(&path, &bytes);
        let first = of(&path);
        assert_eq!((first.len(), of(&path)), (16, first.clone()));
        let other = folder.path().join("copy.gguf");
        write(&other, &bytes);
        assert_eq!(of(&other), first, "the name does not matter");
        set_time(&other, 1_000_001);
        assert_ne!(of(&other), first, "it was written anew");
        write(&other, &[bytes.as_slice(), &[0]].concat());
        assert_ne!(of(&other), first, "it is longer");
    }

    /// The file with another number in the middle of a tensor.
    fn changed(bytes: &[u8], header: &Header, tensor: &Tensor) -> Vec<u8> {
        let middle = header.meta_bytes() + tensor.offset + tensor.bytes / 2;
        let mut changed = bytes.to_vec();
        changed[usize::try_from(middle).unwrap()] ^= 1;
        changed
    }

    /// Fine-tunes of one model have the same header.
    #[test]
    fn a_change_in_any_tensor_shows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        let bytes = Tiny::llama().bytes();
        write(&path, &bytes);
        let first = of(&path);
        let header = Header::open(&path).unwrap();
        assert!(header.tensors.len() > 5);
        for tensor in &header.tensors {
            write(&path, &changed(&bytes, &header, tensor));
            assert_ne!(of(&path), first, "{}", tensor.name);
        }
    }

    #[test]
    fn all_files_of_a_split_model_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = |n| folder.path().join(format!("m-0000{n}-of-00003.gguf"));
        for (part, n) in Tiny::llama().split(3).iter().zip(1..) {
            write(&path(n), &part.bytes());
        }
        let first = of(&path(1));
        for n in 1..=3 {
            let bytes = fs::read(path(n)).unwrap();
            let header = Header::open(&path(n)).unwrap();
            write(&path(n), &changed(&bytes, &header, &header.tensors[0]));
            assert_ne!(of(&path(1)), first, "part {n}");
            write(&path(n), &bytes);
        }
        assert_eq!(of(&path(1)), first);
        fs::remove_file(path(2)).unwrap();
        assert!(fingerprint(&path(1), &Header::open(&path(1)).unwrap()).is_err());
    }
}
