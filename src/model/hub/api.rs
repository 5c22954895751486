//! The hub's API: what a repository is, which files it holds, and which others are like it.
//!
//! hf-hub knows what the answers look like. It does not ask: it follows the next page of a list to any server with the
//! token in hand, reads an answer to its end however long that is, and does not say for how long a hub wants to be left
//! alone.

use hf_hub::repository::{ModelInfo, RepoTreeEntry};
use reqwest::header::{HeaderMap, LINK};
use reqwest::{Method, Response, Url};
use serde::de::DeserializeOwned;

use super::client::{self, same_origin};
use super::refusal::{self, Answer, Asked};
use super::{Access, Failed, Hub, Info, Sink};
use crate::error::Result;
use crate::human::{Bytes, Escaped};
use crate::model::name::{RepoId, Revision, is_commit};
use crate::model::quant::RemoteFile;

/// No repository of models has more files; a longer list is not one.
const MOST_FILES: usize = 20_000;

/// The longest answer that is read.
const LONGEST: usize = 32 << 20;

impl Hub {
    /// What the repository is at a revision, `main` unless one is given.
    pub(crate) fn info(&self, repo: &RepoId, revision: Option<&Revision>, sink: Sink<'_>) -> Result<Info> {
        let asked = Asked { repo: repo.as_str(), revision: revision.map(Revision::as_str), path: None };
        let mut parts = vec![repo.org(), repo.name()];
        parts.extend(revision.into_iter().flat_map(|revision| ["revision", revision.as_str()]));
        let url = self.access.api_url(&parts);
        let (info, _) = self.ask(asked, sink, || self.page::<ModelInfo>(url.clone()))?;
        self.check_info(info)
    }

    fn check_info(&self, info: ModelInfo) -> Result<Info> {
        let strange = |what: &str, text: &str| {
            refusal::not_a_hub(&self.access.endpoint, &format!("{what} `{}`", Escaped(text)))
        };
        let repo = RepoId::parse(&info.id).map_err(|_| strange("its repository is called", &info.id))?;
        let commit = info.sha.unwrap_or_default();
        if !is_commit(&commit) {
            return Err(strange("its commit is", &commit));
        }
        let files = info.siblings.unwrap_or_default();
        let files = files.into_iter().map(|file| RemoteFile { path: file.rfilename, size: None }).collect();
        let license = info
            .tags
            .unwrap_or_default()
            .iter()
            .find_map(|tag| tag.strip_prefix("license:").map(str::to_owned));
        Ok(Info { repo, commit, files, license })
    }

    /// All files of a commit, with their sizes.
    pub(crate) fn tree(&self, repo: &RepoId, commit: &str, sink: Sink<'_>) -> Result<Vec<RemoteFile>> {
        let asked = Asked { repo: repo.as_str(), revision: None, path: None };
        let mut url = self.access.api_url(&[repo.org(), repo.name(), "tree", commit]);
        url.query_pairs_mut().append_pair("recursive", "true");
        let entries = self.ask(asked, sink, || self.pages(url.clone()))?;
        let file = |entry| match entry {
            RepoTreeEntry::File { path, size, .. } => Some(RemoteFile { path, size: Some(size) }),
            RepoTreeEntry::Directory { .. } => None,
        };
        Ok(entries.into_iter().filter_map(file).collect())
    }

    /// Repositories with GGUF files whose name is like this one.
    pub(crate) fn search(&self, name: &str, sink: Sink<'_>) -> Result<Vec<RepoId>> {
        let asked = Asked { repo: name, revision: None, path: None };
        let mut url = self.access.api_url(&[]);
        url.query_pairs_mut().extend_pairs([("search", name), ("filter", "gguf"), ("limit", "5")]);
        let (found, _) = self.ask(asked, sink, || self.page::<Vec<ModelInfo>>(url.clone()))?;
        Ok(found.iter().take(5).filter_map(|info| RepoId::parse(&info.id).ok()).collect())
    }

    /// All pages of a list.
    async fn pages<T: DeserializeOwned>(&self, url: Url) -> std::result::Result<Vec<T>, Failed> {
        let (mut all, mut next) = (Vec::new(), Some(url));
        while let Some(url) = next.filter(|_| all.len() < MOST_FILES) {
            let (page, link) = self.page::<Vec<T>>(url).await?;
            // An empty page that has a next one might go on for ever.
            next = link.filter(|_| !page.is_empty());
            all.extend(page);
        }
        all.truncate(MOST_FILES);
        Ok(all)
    }

    /// One answer, and where the list goes on.
    async fn page<T: DeserializeOwned>(&self, url: Url) -> std::result::Result<(T, Option<Url>), Failed> {
        let response = client::ask(&self.client, &self.access, &Method::GET, url).await?;
        if !response.status().is_success() {
            return Err(Failed::Refused(Answer::read(response).await));
        }
        let strange = |why: &str| Failed::Fatal(refusal::not_a_hub(&self.access.endpoint, why));
        let next = next_page(response.headers(), response.url());
        if let Some(elsewhere) = next.as_ref().filter(|next| !same_origin(next, &self.access.endpoint)) {
            let why = format!("its list goes on at {}", client::host(elsewhere));
            return Err(strange(&why));
        }
        let body = body(response).await?.ok_or_else(|| strange(&too_long()))?;
        let answer = serde_json::from_slice(&body).map_err(|error| {
            strange(if error.is_data() { "its JSON is not what it should be" } else { "it is not JSON" })
        })?;
        Ok((answer, next))
    }
}

fn too_long() -> String {
    format!("it is longer than {}", Bytes(LONGEST as u64))
}

/// All of a body; `None` if it is too long to be an answer.
async fn body(mut response: Response) -> std::result::Result<Option<Vec<u8>>, Failed> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(Failed::Transport)? {
        body.extend_from_slice(&chunk);
        if body.len() > LONGEST {
            return Ok(None);
        }
    }
    Ok(Some(body))
}

/// `Link: <https://…>; rel="next"`, also of a relative address.
fn next_page(headers: &HeaderMap, from: &Url) -> Option<Url> {
    let links = headers.get(LINK)?.to_str().ok()?;
    let next = links.split(',').find(|link| link.contains("rel=\"next\""))?;
    let (_, rest) = next.split_once('<')?;
    let (target, _) = rest.split_once('>')?;
    from.join(target).ok()
}

impl Access {
    /// An address of the API of models.
    fn api_url(&self, parts: &[&str]) -> Url {
        self.url(["api", "models"].iter().chain(parts))
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn the_next_page_of_a_list() {
        let from = Url::parse("https://hub.example/api/models/a/b/tree/main?recursive=true").unwrap();
        for (links, expected) in [
            ("", None),
            ("<https://hub.example/p2>; rel=\"next\"", Some("https://hub.example/p2")),
            (
                "<https://hub.example/p0>; rel=\"prev\", </p2?x=1>; rel=\"next\"",
                Some("https://hub.example/p2?x=1"),
            ),
            ("<https://evil.example/p2>; rel=\"next\"", Some("https://evil.example/p2")),
            ("<https://hub.example/p2>; rel=\"last\"", None),
            ("https://hub.example/p2; rel=\"next\"", None),
            ("<https://hub.example/p2; rel=\"next\"", None),
            ("<http://[>; rel=\"next\"", None),
        ] {
            let headers = HeaderMap::from_iter([(LINK, HeaderValue::from_static(links))]);
            assert_eq!(next_page(&headers, &from).as_ref().map(Url::as_str), expected, "{links}");
        }
        assert_eq!(next_page(&HeaderMap::new(), &from), None);
    }
}
