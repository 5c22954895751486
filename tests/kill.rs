//! SIGKILL in the middle of a download, and the same command again.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::support::Infer;
use crate::support::hub::{Content, Fault, Hub, Repo, Server};

const FILE: &str = "m-Q4_K_M.gguf";
const BLOCK: u64 = 1 << 20;
const CONNECTIONS: u64 = 4;
const SIZE: u64 = 48 * BLOCK + 12_345;

/// Up to here every connection finds work that nobody else has begun: a run is four blocks at most.
const LATEST: u64 = SIZE - 2 * CONNECTIONS * 4 * BLOCK;

const PATIENCE: Duration = Duration::from_secs(60);

/// Hubs of one file, with a home that outlives the runs.
struct Download {
    hub: Hub,
    home: Arc<TempDir>,
}

impl Download {
    fn of(content: &Content) -> Self {
        let hub = Hub::with(Repo::new("org/name").content(FILE, content));
        Self { hub, home: Arc::new(TempDir::new().expect("a temporary folder")) }
    }

    fn infer(&self, verb: &str) -> Infer {
        Infer::new().home(&self.home).env("HF_ENDPOINT", self.hub.endpoint()).arg(verb)
    }

    fn pull(&self) -> Infer {
        self.infer("pull").args(["org/name", "-q", "--json", "--connections", &CONNECTIONS.to_string()])
    }

    /// Starts a download of which no more than so many bytes come.
    fn begin(&self, bytes: u64) -> Child {
        self.hub.set(Fault::Hold { after: bytes });
        let mut command = self.pull().command();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("the program");
        self.hub.wait_for_bytes(bytes);
        child
    }

    fn blobs(&self) -> PathBuf {
        self.home.path().join("cache/huggingface/hub/models--org--name/blobs")
    }

    /// The blocks that the journal has.
    fn journal(&self) -> BTreeSet<u64> {
        let path = self.blobs().join(format!("{}.infer-part.json", self.hub.etag("org/name", FILE)));
        let text = fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter_map(|line| line["b"].as_u64()).collect()
    }

    /// The blocks that the hub has sent whole.
    fn sent_whole(&self) -> BTreeSet<u64> {
        let mut sent = self.hub.sent_ranges();
        sent.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in sent {
            match joined.last_mut().filter(|last| last.end == range.start) {
                Some(last) => last.end = range.end,
                None => joined.push(range),
            }
        }
        joined.into_iter().flat_map(|range| range.start.div_ceil(BLOCK)..range.end / BLOCK).collect()
    }

    /// The one partial download that `infer list` shows, and the same for a person.
    fn listed(&self) -> (Value, String) {
        let json = self.infer("list").arg("--json").stdout_is(|_| true).run().stdout;
        let mut json: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(
            (json["models"].as_array(), json["partials"].as_array().map(Vec::len)),
            (Some(&vec![]), Some(1))
        );
        let table = self.infer("list").stdout_is(|_| true).run().stdout;
        (json["partials"][0].take(), table.lines().nth(1).unwrap_or_default().to_owned())
    }

    /// Brings it to its end; how many bytes came, by the program's own account.
    fn finish(&self) -> u64 {
        self.hub.release();
        let ran = self.pull().stdout_is(|_| true).run();
        let events = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let fetched = events.filter(|event| event["event"] == "file").map(|event| event["fetched"].as_u64());
        fetched.flatten().sum()
    }
}

fn bytes_of(blocks: &BTreeSet<u64>) -> u64 {
    blocks.iter().map(|block| ((block + 1) * BLOCK).min(SIZE) - block * BLOCK).sum()
}

fn sha256(path: &Path) -> String {
    use std::fmt::Write;
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text takes everything");
        text
    })
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Kills a download at a point of it; `settled` when the program has taken all that was sent up to there.
fn kill_and_go_on(content: &Content, bytes: u64, settled: bool) {
    let download = Download::of(content);
    let mut child = download.begin(bytes);
    if settled {
        wait_until("every whole block in the journal", || download.journal() == download.sent_whole());
    }
    // SIGKILL on Unix.
    child.kill().expect("a running program");
    child.wait().expect("the end of the program");

    let (kept, sent) = (download.journal(), download.hub.cdn_bytes());
    assert!(kept.is_subset(&download.sent_whole()), "{kept:?}");
    let lost = sent - bytes_of(&kept);
    if settled {
        // On each connection at most the block under way.
        assert!(lost < CONNECTIONS * BLOCK, "{lost} bytes are lost");
    }
    let (partial, row) = download.listed();
    assert_eq!(partial["done"], bytes_of(&kept));
    assert_eq!(partial["downloading"], false);
    assert!(
        row.starts_with(&format!("org/name/{FILE}  Q4_K_M  {}% of ", bytes_of(&kept) * 100 / SIZE)),
        "{row}"
    );

    download.hub.forget();
    assert_eq!(download.finish(), SIZE - bytes_of(&kept));
    let again =
        |range: Range<u64>| kept.iter().any(|b| b * BLOCK < range.end && range.start < (b + 1) * BLOCK);
    assert!(!download.hub.ranges().into_iter().any(again), "{kept:?} {:?}", download.hub.ranges());
    assert_eq!(download.hub.asked(Server::Hub), 2);
    let blob = download.blobs().join(content.sha256());
    assert_eq!(sha256(&blob), content.sha256());
    let left = fs::read_dir(download.blobs()).expect("the blobs").count();
    assert_eq!(left, 1, "nothing is left beside the file");
}

/// Ten points, the same in every run. At half of them the kill falls among reads and writes; at the others all is still,
/// and what is lost can be counted.
#[test]
fn a_killed_download_goes_on_where_it_was() {
    let content = Content::big_gguf(SIZE, 7);
    let mut random = fastrand::Rng::with_seed(3);
    for point in 0..10 {
        kill_and_go_on(&content, random.u64(1..LATEST), point % 2 == 0);
    }
}

/// A journal whose last line was being written, and a part file that is not yet as long as it will be.
#[test]
fn a_download_killed_again_and_again_ends_all_the_same() {
    let content = Content::big_gguf(SIZE, 8);
    let download = Download::of(&content);
    let mut kept = 0;
    for _ in 0..5 {
        download.hub.forget();
        let mut child = download.begin(5 * BLOCK + 77);
        child.kill().expect("a running program");
        child.wait().expect("the end of the program");
        let now = bytes_of(&download.journal());
        assert!(now >= kept, "{now} of {kept} bytes are left");
        kept = now;
    }
    assert_eq!(download.finish(), SIZE - kept);
    assert_eq!(sha256(&download.blobs().join(content.sha256())), content.sha256());
}
