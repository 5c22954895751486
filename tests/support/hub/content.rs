//! What the hub holds: bytes, files, commits and repositories.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

use crate::support::tiny_gguf::{Tensor, Tiny};

/// Most bytes in one write.
pub(super) const PIECE: u64 = 256 << 10;

/// Length of the random block that big files repeat.
const BLOCK: u64 = 1 << 20;

/// Bytes at the start of a block that hold its number, so that no two blocks of a file are alike.
const STAMP: usize = 8;

/// Bytes that are never copied: some given ones, then, in a big file, a repeated block of random ones.
#[derive(Clone)]
pub(crate) struct Content(Arc<Inner>);

struct Inner {
    head: Vec<u8>,
    block: Vec<u8>,
    len: u64,
    sha256: OnceLock<String>,
}

impl Content {
    pub(crate) fn new(bytes: impl Into<Vec<u8>>) -> Self {
        let head = bytes.into();
        Self(Arc::new(Inner { len: head.len() as u64, head, block: Vec::new(), sha256: OnceLock::new() }))
    }

    /// `len` bytes that begin with `head` and go on at random, the same for the same `seed`, in a megabyte of memory.
    pub(crate) fn big(head: impl Into<Vec<u8>>, len: u64, seed: u64) -> Self {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut block = Vec::with_capacity(index(BLOCK));
        while block.len() < index(BLOCK) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            block.extend(state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
        }
        let mut head = head.into();
        head.truncate(index(len));
        Self(Arc::new(Inner { head, block, len, sha256: OnceLock::new() }))
    }

    /// As `big`, behind a header of GGUF that all of it belongs to. For downloads: no engine knows its last tensor.
    pub(crate) fn big_gguf(len: u64, seed: u64) -> Self {
        let with_filler = |dim: u64| {
            let mut model = Tiny::llama();
            let filler = Tensor { name: "filler".to_owned(), dims: vec![dim], kind: 0, data: Vec::new() };
            model.tensors.push(filler);
            model.bytes()
        };
        let filled = len.saturating_sub(with_filler(1).len() as u64) / 4;
        Self::big(with_filler(filled), len, seed)
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len
    }

    /// The first bytes of a range, at most `PIECE`; `scratch` is used where they are not in memory as they are.
    pub(super) fn piece<'a>(&'a self, range: &Range<u64>, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let len = (range.end - range.start).min(PIECE);
        let head = self.0.head.len() as u64;
        if range.start < head {
            let end = (range.start + len).min(head);
            return &self.0.head[index(range.start)..index(end)];
        }
        let within = index(range.start % BLOCK);
        let len = index(len.min(BLOCK - within as u64));
        if within >= STAMP {
            return &self.0.block[within..within + len];
        }
        scratch.clear();
        scratch.extend_from_slice(&self.0.block[within..within + len]);
        let stamp = (range.start / BLOCK).to_le_bytes();
        for (byte, stamped) in scratch.iter_mut().zip(&stamp[within..]) {
            *byte = *stamped;
        }
        scratch
    }

    /// All the bytes of a range.
    pub(crate) fn bytes(&self, range: &Range<u64>) -> Vec<u8> {
        let (mut all, mut scratch) = (Vec::new(), Vec::new());
        self.each_piece(range, &mut scratch, |piece| all.extend_from_slice(piece));
        all
    }

    /// In lower-case hexadecimal digits; computed once.
    pub(crate) fn sha256(&self) -> String {
        let compute = || {
            let (mut hash, mut scratch) = (Sha256::new(), Vec::new());
            self.each_piece(&(0..self.len()), &mut scratch, |piece| hash.update(piece));
            hex(&hash.finalize())
        };
        self.0.sha256.get_or_init(compute).clone()
    }

    fn each_piece(&self, range: &Range<u64>, scratch: &mut Vec<u8>, mut take: impl FnMut(&[u8])) {
        let mut rest = range.clone();
        while !rest.is_empty() {
            let piece = self.piece(&rest, scratch);
            rest.start += piece.len() as u64;
            take(piece);
        }
    }
}

pub(super) fn index(number: u64) -> usize {
    usize::try_from(number).expect("a length that fits the memory")
}

/// A made-up hash: 64 hexadecimal digits that depend on all of the parts.
pub(super) fn made_up(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
        hash.update([0]);
    }
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text takes everything");
        text
    })
}

/// A gzip file whose blocks are stored as they are.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut blocks = bytes.chunks(0xffff).peekable();
    while let Some(block) = blocks.next() {
        let len = u16::try_from(block.len()).expect("a block of at most 65535 bytes");
        out.push(u8::from(blocks.peek().is_none()));
        out.extend(len.to_le_bytes());
        out.extend((!len).to_le_bytes());
        out.extend(block);
    }
    out.extend(crc32(bytes).to_le_bytes());
    // gzip keeps the length modulo 2^32.
    let len = u32::try_from(bytes.len() as u64 & 0xffff_ffff).expect("32 bits");
    out.extend(len.to_le_bytes());
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
    let fold = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
    !bytes.iter().fold(!0, fold)
}

/// A file of a commit.
#[derive(Clone)]
pub(crate) struct File {
    pub(crate) content: Content,
    /// Large files lie on the CDN; the others are in git and come from the hub itself.
    pub(crate) large: bool,
}

impl File {
    /// The sha256 of a large file; the others have a git hash, which says nothing of their content.
    pub(crate) fn etag(&self) -> String {
        if self.large { self.content.sha256() } else { self.git_oid() }
    }

    pub(super) fn git_oid(&self) -> String {
        made_up(&["git", &self.content.sha256()])[..40].to_owned()
    }

    pub(super) fn xet_hash(&self) -> String {
        made_up(&["xet", &self.content.sha256()])
    }
}

pub(super) type Files = BTreeMap<String, File>;

/// A repository of models, in the making and as the hub has it.
#[derive(Clone)]
pub(crate) struct Repo {
    pub(super) id: String,
    pub(super) gated: Option<String>,
    pub(super) private: bool,
    pub(super) disabled: bool,
    pub(super) xet: bool,
    pub(super) allowed: Vec<String>,
    files: Files,
    next_sha: Option<String>,
    commits: Vec<(String, Files)>,
    refs: BTreeMap<String, String>,
}

impl Repo {
    /// An empty public repository, `org/name`, whose large files say that Xet has them.
    pub(crate) fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            gated: None,
            private: false,
            disabled: false,
            xet: true,
            allowed: Vec::new(),
            files: Files::new(),
            next_sha: None,
            commits: Vec::new(),
            refs: BTreeMap::new(),
        }
    }

    /// A file, large if its name ends as weights do. Any path is taken, also one that no hub should serve.
    pub(crate) fn file(self, path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        let ends = [".gguf", ".safetensors", ".bin"];
        let large = ends.iter().any(|end| path.to_ascii_lowercase().ends_with(end));
        self.put(path, Content::new(bytes), large)
    }

    /// A file kept in git, whatever its name.
    pub(crate) fn git_file(self, path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.put(path, Content::new(bytes), false)
    }

    /// A large file that may share its bytes with others.
    pub(crate) fn content(self, path: &str, content: &Content) -> Self {
        self.put(path, content.clone(), true)
    }

    fn put(mut self, path: &str, content: Content, large: bool) -> Self {
        self.files.insert(path.to_owned(), File { content, large });
        self
    }

    pub(crate) fn without(mut self, path: &str) -> Self {
        self.files.remove(path);
        self
    }

    /// `auto` or `manual`: the files are for the accounts of `allow` only.
    pub(crate) fn gated(mut self, how: &str) -> Self {
        self.gated = Some(how.to_owned());
        self
    }

    /// The repository exists for the accounts of `allow` only.
    pub(crate) fn private(mut self) -> Self {
        self.private = true;
        self
    }

    pub(crate) fn disabled(mut self) -> Self {
        self.disabled = true;
        self
    }

    /// An account with access; its token is valid everywhere on the hub.
    pub(crate) fn allow(mut self, token: &str) -> Self {
        self.allowed.push(token.to_owned());
        self
    }

    pub(crate) fn without_xet(mut self) -> Self {
        self.xet = false;
        self
    }

    /// The name of the commit that comes next, instead of a derived one.
    pub(crate) fn sha(mut self, sha: &str) -> Self {
        self.next_sha = Some(sha.to_owned());
        self
    }

    /// Commits what has been put so far, and calls that commit so: `v1`, `refs/pr/1`.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.commit(name);
        self
    }

    /// Commits the files as they are; returns the commit.
    pub(super) fn commit(&mut self, name: &str) -> String {
        let derived = || {
            let mut parts = vec![self.id.clone()];
            parts.extend(self.files.iter().flat_map(|(path, file)| [path.clone(), file.content.sha256()]));
            made_up(&parts.iter().map(String::as_str).collect::<Vec<_>>())[..40].to_owned()
        };
        let sha = self.next_sha.take().unwrap_or_else(derived);
        self.refs.insert(name.to_owned(), sha.clone());
        self.commits.retain(|(known, _)| *known != sha);
        self.commits.push((sha.clone(), self.files.clone()));
        sha
    }

    /// The commit that a branch, a tag or a commit names, with its files.
    pub(super) fn at(&self, revision: &str) -> Option<(&str, &Files)> {
        let sha = self.refs.get(revision).map_or(revision, String::as_str);
        self.commits.iter().find(|(known, _)| known == sha).map(|(sha, files)| (sha.as_str(), files))
    }
}
