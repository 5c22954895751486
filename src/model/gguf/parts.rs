//! Models in several files: `NAME-00001-of-00003.gguf` and its siblings.

use std::path::{Path, PathBuf};

use super::{Header, quoted};
use crate::error::{Error, Result};
use crate::human::{Escaped, Thousands};

impl Header {
    /// Take in the tensors of a split model's other files. A model in one file stays as it is.
    pub(crate) fn with_parts(self, path: &Path) -> Result<Self> {
        let count = self.part_count();
        if self.parts == count {
            return Ok(self);
        }
        let shown = quoted(path);
        self.check_first_part(path, &shown, count)?;
        self.join(&shown, |number| {
            let sibling = part_path(path, number, count);
            if !sibling.is_file() {
                let message = format!("part {number} of {count} of {shown} is missing: {}", quoted(&sibling));
                return Err(Error::failed(message));
            }
            Ok((quoted(&sibling), Self::open(&sibling)?))
        })
    }

    /// Take in the tensors of parts 2 to the last, each with its name for errors; `shown` is that of the first.
    pub(crate) fn join(
        mut self,
        shown: &str,
        mut open: impl FnMut(u64) -> Result<(String, Self)>,
    ) -> Result<Self> {
        let count = self.part_count();
        for number in 2..=count {
            let (name, part) = open(number)?;
            if part.u64("split.no") != Some(number - 1) {
                return Err(Error::failed(format!("{name} is not part {number} of {shown}")));
            }
            self.file_bytes = self.file_bytes.saturating_add(part.file_bytes);
            self.tensors.extend(part.tensors);
        }
        self.parts = count;
        match self.u64("split.tensors.count") {
            Some(n) if n != self.tensors.len() as u64 => Err(Error::failed(format!(
                "{shown} is damaged: its parts should have {} tensors, they have {}",
                Thousands(n),
                Thousands(self.tensors.len() as u64)
            ))),
            _ => Ok(self),
        }
    }

    /// The paths of all files of the model, of which `first` is the first.
    pub(crate) fn part_paths(&self, first: &Path) -> Vec<PathBuf> {
        let count = self.part_count();
        if count == 1 {
            return vec![first.to_owned()];
        }
        (1..=count).map(|number| part_path(first, number, count)).collect()
    }

    /// How many files the model has.
    pub(super) fn part_count(&self) -> u64 {
        self.u64("split.count").filter(|n| (2..=u64::from(u16::MAX)).contains(n)).unwrap_or(1)
    }

    fn check_first_part(&self, path: &Path, quoted: &str, count: u64) -> Result<()> {
        let number = self.u64("split.no").unwrap_or(0).saturating_add(1);
        if number > 1 {
            let error = Error::failed(format!(
                "{quoted} is part {number} of {count}, a model is loaded from its first part"
            ));
            let named = file_name(path).ends_with(&part_suffix(number, count));
            let first = if named { swap_suffix(path, number, 1, count) } else { return Err(error) };
            return Err(error.hint(format!("try `infer run {}`", Escaped(&first.to_string_lossy()))));
        }
        let suffix = part_suffix(1, count);
        if file_name(path).strip_suffix(&suffix).is_none_or(str::is_empty) {
            return Err(Error::failed(format!(
                "{quoted} is the first of {count} parts, its name must end in `{suffix}`"
            )));
        }
        Ok(())
    }
}

/// The name that the parts of a split model end in.
fn part_suffix(number: u64, count: u64) -> String {
    format!("-{number:05}-of-{count:05}.gguf")
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The path of a part, given the path of the first one.
fn part_path(first: &Path, number: u64, count: u64) -> PathBuf {
    swap_suffix(first, 1, number, count)
}

fn swap_suffix(path: &Path, from: u64, to: u64, count: u64) -> PathBuf {
    let name = file_name(path);
    let stem = name.strip_suffix(&part_suffix(from, count)).unwrap_or(&name);
    path.with_file_name(format!("{stem}{}", part_suffix(to, count)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::model::gguf::tiny_gguf::Tiny;

    #[test]
    fn takes_parts_by_their_first_file() {
        let dir = std::env::temp_dir().join(format!("infer-gguf-parts-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = |n| dir.join(format!("m-0000{n}-of-00003.gguf"));
        for (part, n) in Tiny::llama().split(3).iter().zip(1..) {
            part.write(&path(n));
        }
        let whole = Header::from_bytes(&Tiny::llama().bytes()).unwrap().shape();
        let first = Header::open(&path(1)).unwrap();
        first.check_runnable(&path(1)).unwrap();
        let all = first.clone().with_parts(&path(1)).unwrap();
        all.check_runnable(&path(1)).unwrap();
        assert_eq!(all.shape().parameters, whole.parameters);
        assert_eq!(all.shape().tensor_bytes, whole.tensor_bytes);

        let second = Header::open(&path(2)).unwrap().check_runnable(&path(2)).unwrap_err();
        let shown = |n| path(n).display().to_string();
        assert_eq!(
            second.message,
            format!("`{}` is part 2 of 3, a model is loaded from its first part", shown(2))
        );
        assert_eq!(second.hint, Some(format!("try `infer run {}`", shown(1))));

        std::fs::rename(path(2), dir.join("other.gguf")).unwrap();
        let missing = first.check_runnable(&path(1)).unwrap_err();
        assert_eq!(missing.message, format!("part 2 of 3 of `{}` is missing: `{}`", shown(1), shown(2)));
        assert_eq!(missing.kind, Kind::Failed);
        std::fs::copy(path(3), path(2)).unwrap();
        let wrong = first.check_runnable(&path(1)).unwrap_err();
        assert_eq!(wrong.message, format!("`{}` is not part 2 of `{}`", shown(2), shown(1)));
        let renamed = first.check_runnable(&dir.join("m.gguf")).unwrap_err();
        assert_eq!(
            renamed.message,
            format!(
                "`{}` is the first of 3 parts, its name must end in `-00001-of-00003.gguf`",
                dir.join("m.gguf").display()
            )
        );
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
