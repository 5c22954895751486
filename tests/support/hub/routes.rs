//! Who answers what: the hub's API, its files, and the CDN.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use super::content::{Content, File, Files, Repo, made_up};
use super::faults::Place;
use super::http::{Answer, Incoming, decoded, encoded};

/// All that the hub knows.
#[derive(Default)]
pub(super) struct Site {
    pub(super) repos: BTreeMap<String, Repo>,
    /// Old names of repositories.
    pub(super) renamed: BTreeMap<String, String>,
    /// Valid tokens besides those that repositories allow.
    pub(super) accounts: BTreeSet<String>,
    pub(super) page_size: Option<usize>,
    /// Where the signed URLs given out so far lead, by signature.
    signed: HashMap<String, Signed>,
    issued: u64,
    /// Addresses with `http://` and port.
    pub(super) hub: String,
    pub(super) cdn: String,
}

struct Signed {
    path: String,
    content: Content,
    good: bool,
}

/// An answer or, just as good, a refusal.
type Answered = Result<Answer, Answer>;

impl Site {
    pub(super) fn new(hub: &str, cdn: &str) -> Self {
        Self { hub: hub.to_owned(), cdn: cdn.to_owned(), ..Self::default() }
    }

    pub(super) fn expire(&mut self) {
        self.signed.values_mut().for_each(|signed| signed.good = false);
    }

    /// The answer of the hub itself.
    pub(super) fn hub_answer(&mut self, incoming: &Incoming) -> Answer {
        let segments = incoming.segments();
        let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
        let head = incoming.method == "HEAD";
        let (place, answered) = match parts[..] {
            ["api", "whoami-v2"] => (Place::Other, self.whoami(incoming)),
            ["api", "models"] => (Place::Search, self.search(incoming)),
            ["api", "models", org, name] => (Place::Info, self.info(incoming, org, name, "main")),
            ["api", "models", org, name, "revision", revision] => {
                (Place::Info, self.info(incoming, org, name, revision))
            }
            ["api", "models", org, name, "tree", revision, ref below @ ..] => {
                (Place::Tree, self.tree(incoming, org, name, revision, &below.join("/")))
            }
            ["api", "models", org, name, "paths-info", revision] => {
                (Place::Tree, self.paths_info(incoming, org, name, revision))
            }
            ["api", "resolve-cache", "models", org, name, commit, ref path @ ..] => {
                (Place::Cache, self.git_file(incoming, org, name, commit, &path.join("/")))
            }
            [org, name, "resolve", revision, ref path @ ..] => {
                let place = if head { Place::Head } else { Place::Get };
                (place, self.resolve(incoming, org, name, revision, &path.join("/")))
            }
            _ => (Place::Other, Err(Answer::refusal(404, None, "Not Found"))),
        };
        let mut answer = answered.unwrap_or_else(|refusal| refusal);
        answer.place = place;
        answer
    }

    /// The answer of the CDN, or of the third host, to a signed URL.
    pub(super) fn cdn_answer(&self, incoming: &Incoming) -> Answer {
        let signed = incoming.query("X-Amz-Signature").and_then(|signature| self.signed.get(&signature));
        let mut answer = match signed.filter(|signed| signed.good) {
            // The store's own hash of a file sent in parts, which says nothing of its content.
            Some(signed) => Answer::part(incoming, "application/octet-stream", signed.content.clone())
                .with("ETag", &format!("\"{}-2\"", &made_up(&["etag", &signed.path])[..32]))
                .with("Last-Modified", "Tue, 01 Sep 2026 12:00:00 GMT"),
            None => Answer::access_denied(),
        };
        answer.file = signed.map(|signed| signed.path.clone());
        answer.place = Place::Cdn;
        answer
    }

    fn is_known(&self, token: &str) -> bool {
        self.accounts.contains(token) || self.repos.values().any(|repo| allows(repo, Some(token)))
    }

    fn check_token(&self, incoming: &Incoming) -> Result<(), Answer> {
        if incoming.token().is_none_or(|token| self.is_known(token)) {
            return Ok(());
        }
        Err(Answer::refusal(401, None, "Invalid credentials in Authorization header"))
    }

    fn whoami(&self, incoming: &Incoming) -> Answered {
        self.check_token(incoming)?;
        match incoming.token() {
            Some(_) => Ok(Answer::json(&json!({ "type": "user", "name": "tester", "fullname": "Tester" }))),
            None => Err(Answer::refusal(401, None, "Invalid username or password.")),
        }
    }

    /// The repository, if the client may know of it, or where it is now.
    fn repo(&self, incoming: &Incoming, org: &str, name: &str) -> Result<&Repo, Answer> {
        self.check_token(incoming)?;
        let id = format!("{org}/{name}");
        let known = self.repos.get(&id).filter(|repo| !repo.private || allows(repo, incoming.token()));
        if let Some(repo) = known {
            return Ok(repo);
        }
        let same = |repo: &&Repo| repo.id.eq_ignore_ascii_case(&id) && repo.id != id && !repo.private;
        let now = self.renamed.get(&id).or_else(|| self.repos.values().find(same).map(|repo| &repo.id));
        if let Some(now) = now {
            let target = incoming.path_and_query().replacen(&format!("/{id}"), &format!("/{now}"), 1);
            return Err(Answer::text(307, "Temporary Redirect").with("Location", &target));
        }
        // Without a valid token nobody is told what exists.
        let is_api = incoming.path_and_query().starts_with("/api/");
        Err(match incoming.token() {
            Some(_) => Answer::refusal(404, Some("RepoNotFound"), "Repository not found"),
            None if is_api => Answer::refusal(401, None, "Invalid username or password."),
            None => Answer::refusal(401, Some("RepoNotFound"), "Repository not found"),
        })
    }

    fn search(&self, incoming: &Incoming) -> Answered {
        self.check_token(incoming)?;
        let wanted = incoming.query("search").unwrap_or_default().to_lowercase();
        let limit = incoming.query("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
        let gguf_only = incoming.query("filter").is_some_and(|filter| filter == "gguf");
        let mut found = Vec::new();
        for repo in self.repos.values().filter(|repo| !repo.private || allows(repo, incoming.token())) {
            let Some((sha, files)) = repo.at("main") else { continue };
            if repo.id.to_lowercase().contains(&wanted) && (!gguf_only || has_gguf(files)) {
                found.push(described(repo, sha, files));
            }
        }
        found.truncate(limit);
        Ok(Answer::json(&Value::Array(found)))
    }

    fn info(&self, incoming: &Incoming, org: &str, name: &str, revision: &str) -> Answered {
        let repo = self.repo(incoming, org, name)?;
        let (sha, files) = at(repo, revision)?;
        let with_blobs = incoming.query("blobs").is_some_and(|blobs| blobs.eq_ignore_ascii_case("true"));
        let siblings = files.iter().map(|(path, file)| sibling(path, file, with_blobs));
        let mut info = described(repo, sha, files);
        info["siblings"] = siblings.collect();
        if has_gguf(files) {
            info["gguf"] = json!({ "total": 1_000_000, "architecture": "llama", "context_length": 4096 });
        }
        let mut answer = Answer::json(&info);
        answer.commit = Some(sha.to_owned());
        Ok(answer)
    }

    fn tree(&self, incoming: &Incoming, org: &str, name: &str, revision: &str, below: &str) -> Answered {
        let repo = self.repo(incoming, org, name)?;
        let (_, files) = at(repo, revision)?;
        let recursive =
            incoming.query("recursive").is_some_and(|value| matches!(value.as_str(), "true" | "1" | "True"));
        let entries = entries(repo, files, below, recursive);
        let start = incoming.query("cursor").and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        let size = self.page_size.unwrap_or(usize::MAX);
        let page: Vec<Value> = entries.iter().skip(start).take(size).cloned().collect();
        let next = start + page.len();
        let mut answer = Answer::json(&Value::Array(page));
        if next < entries.len() {
            let path = incoming.path_and_query().split('?').next().unwrap_or_default();
            let query = format!("recursive={recursive}&cursor={next}");
            answer.set("Link", &format!("<{}{path}?{query}>; rel=\"next\"", self.hub));
        }
        Ok(answer)
    }

    fn paths_info(&self, incoming: &Incoming, org: &str, name: &str, revision: &str) -> Answered {
        let repo = self.repo(incoming, org, name)?;
        let (_, files) = at(repo, revision)?;
        // Rust's client sends JSON, Python's a form.
        let asked: Value = serde_json::from_slice(&incoming.body).unwrap_or_else(|_| {
            let form = String::from_utf8_lossy(&incoming.body).into_owned();
            let paths = form.split('&').filter_map(|pair| pair.strip_prefix("paths="));
            json!({ "paths": paths.map(|path| decoded(&path.replace('+', " "))).collect::<Vec<_>>() })
        });
        let is_asked =
            |entry: &Value| asked["paths"].as_array().is_some_and(|paths| paths.contains(&entry["path"]));
        Ok(Answer::json(&entries(repo, files, "", true).into_iter().filter(is_asked).collect()))
    }

    /// Where a file is: the CDN for a large one, another path of the hub for one in git.
    fn resolve(
        &mut self,
        incoming: &Incoming,
        org: &str,
        name: &str,
        revision: &str,
        path: &str,
    ) -> Answered {
        let repo = self.repo(incoming, org, name)?;
        check_access(repo, incoming.token())?;
        let (commit, file) = file_at(repo, revision, path)?;
        let (commit, file, id, xet) = (commit.to_owned(), file.clone(), repo.id.clone(), repo.xet);
        let etag = format!("\"{}\"", file.etag());
        let about = |answer: Answer| Answer {
            file: Some(path.to_owned()),
            commit: Some(commit.clone()),
            ..answer.with("X-Repo-Commit", &commit)
        };
        let known = incoming.header("if-none-match").map(|known| known.trim_start_matches("W/"));
        if known == Some(&etag) {
            return Ok(about(Answer::text(304, "").with("ETag", &etag)));
        }
        if !file.large {
            let inner = encoded(&format!("/api/resolve-cache/models/{id}/{commit}/{path}"));
            let target = format!("{inner}?{}&etag=%22{}%22", encoded(path), file.etag());
            return Ok(about(Answer::text(307, "Temporary Redirect").with("Location", &target)));
        }
        let url = self.sign(path, &file.content);
        let body = format!("Found. Redirecting to {url}");
        let mut answer = about(Answer::text(302, &body))
            .with("Location", &url)
            .with("ETag", &etag)
            .with("X-Linked-Etag", &etag)
            .with("X-Linked-Size", &file.content.len().to_string())
            .with("Accept-Ranges", "bytes");
        if xet {
            let (hub, hash) = (&self.hub, file.xet_hash());
            let auth = format!("<{hub}/api/models/{id}/xet-read-token/{commit}>; rel=\"xet-auth\"");
            let rebuild = format!("<{hub}/v1/reconstructions/{hash}>; rel=\"xet-reconstruction-info\"");
            answer.set("X-Xet-Hash", &hash);
            answer.set("Link", &format!("{auth}, {rebuild}"));
        }
        Ok(answer)
    }

    fn git_file(&self, incoming: &Incoming, org: &str, name: &str, commit: &str, path: &str) -> Answered {
        let repo = self.repo(incoming, org, name)?;
        check_access(repo, incoming.token())?;
        let (commit, file) = file_at(repo, commit, path)?;
        let mut answer = Answer::part(incoming, "text/plain; charset=utf-8", file.content.clone())
            .with("ETag", &format!("\"{}\"", file.etag()))
            .with("X-Repo-Commit", commit);
        (answer.file, answer.commit) = (Some(path.to_owned()), Some(commit.to_owned()));
        Ok(answer)
    }

    /// A new URL of the CDN, good until `expire`.
    fn sign(&mut self, path: &str, content: &Content) -> String {
        self.issued += 1;
        let signature = made_up(&["signature", &self.issued.to_string()]);
        let sha256 = content.sha256();
        let name = path.rsplit('/').next().unwrap_or_default();
        let url = format!(
            "{}/repos/{}/{}/{sha256}?response-content-disposition=attachment%3B+filename%3D%22{}%22&X-Amz-Expires=3600&X-Amz-Signature={signature}",
            self.cdn,
            &sha256[..2],
            &sha256[2..4],
            encoded(name)
        );
        self.signed.insert(signature, Signed { path: path.to_owned(), content: content.clone(), good: true });
        url
    }
}

fn allows(repo: &Repo, token: Option<&str>) -> bool {
    token.is_some_and(|token| repo.allowed.iter().any(|allowed| allowed == token))
}

fn check_access(repo: &Repo, token: Option<&str>) -> Result<(), Answer> {
    let id = &repo.id;
    if repo.disabled {
        return Err(Answer::refusal(403, None, "Access to this resource is disabled."));
    }
    if repo.gated.is_none() || allows(repo, token) {
        return Ok(());
    }
    Err(if token.is_none() {
        let message = format!(
            "Access to model {id} is restricted. You must have access to it and be authenticated to access it. Please log in."
        );
        Answer::refusal(401, Some("GatedRepo"), &message)
    } else {
        let message = format!(
            "Access to model {id} is restricted and you are not in the authorized list. Visit https://huggingface.co/{id} to ask for access."
        );
        Answer::refusal(403, Some("GatedRepo"), &message)
    })
}

fn at<'a>(repo: &'a Repo, revision: &str) -> Result<(&'a str, &'a Files), Answer> {
    let unknown = || Answer::refusal(404, Some("RevisionNotFound"), &format!("Invalid rev id: {revision}"));
    repo.at(revision).ok_or_else(unknown)
}

fn file_at<'a>(repo: &'a Repo, revision: &str, path: &str) -> Result<(&'a str, &'a File), Answer> {
    let (commit, files) = at(repo, revision)?;
    let missing =
        || Answer::refusal(404, Some("EntryNotFound"), "Entry not found").with("X-Repo-Commit", commit);
    files.get(path).map(|file| (commit, file)).ok_or_else(missing)
}

fn has_gguf(files: &Files) -> bool {
    files.keys().any(|path| path.to_ascii_lowercase().ends_with(".gguf"))
}

/// A model as the API describes it, without its files.
fn described(repo: &Repo, sha: &str, files: &Files) -> Value {
    let gated = repo.gated.as_ref().map_or(json!(false), |how| json!(how));
    let tags = if has_gguf(files) { json!(["gguf", "license:apache-2.0"]) } else { json!([]) };
    json!({
        "_id": &made_up(&["id", &repo.id])[..24], "id": repo.id, "modelId": repo.id,
        "author": repo.id.split('/').next(), "sha": sha, "private": repo.private, "gated": gated,
        "disabled": repo.disabled, "downloads": 1000, "likes": 10, "tags": tags,
        "lastModified": "2026-09-01T12:00:00.000Z", "createdAt": "2026-08-01T12:00:00.000Z"
    })
}

fn sibling(path: &str, file: &File, with_blobs: bool) -> Value {
    if !with_blobs {
        return json!({ "rfilename": path });
    }
    let mut sibling = json!({ "rfilename": path, "blobId": file.git_oid(), "size": file.content.len() });
    if file.large {
        sibling["lfs"] =
            json!({ "sha256": file.content.sha256(), "size": file.content.len(), "pointerSize": 135 });
    }
    sibling
}

/// What lies in a folder, its folders first.
fn entries(repo: &Repo, files: &Files, below: &str, recursive: bool) -> Vec<Value> {
    let prefix = if below.is_empty() { String::new() } else { format!("{below}/") };
    let (mut folders, mut found) = (BTreeSet::new(), Vec::new());
    for (path, file) in files {
        let Some(rest) = path.strip_prefix(&prefix) else { continue };
        for (slash, _) in rest.match_indices('/') {
            if slash > 0 && (recursive || !rest[..slash].contains('/')) {
                folders.insert(format!("{prefix}{}", &rest[..slash]));
            }
        }
        if recursive || !rest.contains('/') {
            found.push(entry(repo, path, file));
        }
    }
    let folder = |path: String| {
        let oid = made_up(&["folder", &path])[..40].to_owned();
        json!({ "type": "directory", "oid": oid, "size": 0, "path": path })
    };
    folders.into_iter().map(folder).chain(found).collect()
}

fn entry(repo: &Repo, path: &str, file: &File) -> Value {
    let len = file.content.len();
    let mut entry = json!({ "type": "file", "oid": file.git_oid(), "size": len, "path": path });
    if file.large {
        entry["lfs"] = json!({ "oid": file.content.sha256(), "size": len, "pointerSize": 135 });
        if repo.xet {
            entry["xetHash"] = json!(file.xet_hash());
        }
    }
    entry
}
