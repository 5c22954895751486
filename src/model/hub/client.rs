//! The HTTP client, and the rules of who may be asked for what.

use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, Url};

use super::Access;
use super::refusal::{self, Answer};
use crate::error::{Error, Kind, Result};
use crate::human::Escaped;
use crate::model::name::{RepoId, RepoPath, is_commit, is_sha256};

const USER_AGENT: &str = concat!("infer/", env!("CARGO_PKG_VERSION"));

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(10);

/// So many redirects within the hub are followed.
const REDIRECTS: usize = 10;

/// What the hub says about a file, and where its bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) size: u64,
    pub(crate) sha256: String,
    pub(crate) commit: String,
    pub(super) location: Url,
}

/// A client of HTTP/1.1, so that each range has a connection of its own, and without redirects that nobody looks at.
pub(super) fn client(idle: Duration) -> reqwest::Result<Client> {
    Client::builder()
        .http1_only()
        .redirect(Policy::none())
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT.min(idle))
        .read_timeout(idle)
        .referer(false)
        .tcp_nodelay(true)
        .build()
}

pub(super) fn same_origin(a: &Url, b: &Url) -> bool {
    a.origin() == b.origin()
}

/// Does the address lead to this machine?
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A token travels encrypted, or not at all.
pub(super) fn may_carry_token(url: &Url) -> bool {
    url.scheme() == "https" || is_loopback(url)
}

impl Access {
    /// A GET with the token where it belongs, for bytes as they are.
    pub(super) fn get(&self, client: &Client, url: &Url) -> RequestBuilder {
        self.authorize(client.get(url.clone()), url).header(ACCEPT_ENCODING, "identity")
    }

    /// Add the token if the address is the hub's own.
    fn authorize(&self, request: RequestBuilder, url: &Url) -> RequestBuilder {
        let token = self.token.as_ref().filter(|_| same_origin(url, &self.endpoint) && may_carry_token(url));
        let header = token.and_then(|token| HeaderValue::from_str(&format!("Bearer {}", token.value)).ok());
        match header {
            Some(mut header) => {
                header.set_sensitive(true);
                request.header(AUTHORIZATION, header)
            }
            None => request,
        }
    }

    /// The address of a file.
    fn file_url(&self, repo: &RepoId, commit: &str, path: &RepoPath) -> Url {
        self.url([repo.org(), repo.name(), "resolve", commit].into_iter().chain(path.as_str().split('/')))
    }

    /// An address of the hub. A `/` in a part is none between parts.
    pub(super) fn url(&self, parts: impl IntoIterator<Item = impl AsRef<str>>) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(parts);
        }
        url
    }
}

/// What became of a question.
pub(super) enum Head {
    File(Meta),
    /// The hub said no; `refusal` knows what that means.
    Refused(Answer),
}

/// Ask for size, checksum and place of a file, without its bytes.
pub(super) async fn head(
    client: &Client,
    access: &Access,
    repo: &RepoId,
    commit: &str,
    path: &RepoPath,
) -> std::result::Result<Head, HeadError> {
    let url = access.file_url(repo, commit, path);
    let response = ask(client, access, &Method::HEAD, url).await?;
    let status = response.status();
    if !status.is_success() && !status.is_redirection() {
        return Ok(Head::Refused(Answer::read(response).await));
    }
    let location = redirect(&response)?.unwrap_or_else(|| response.url().clone());
    check_location(&location, &access.endpoint)?;
    meta(&response, location).map(Head::File).map_err(HeadError::Fatal)
}

/// Ask the hub, and go where it redirects to within itself. A redirect that says something of a file is an answer.
pub(super) async fn ask(
    client: &Client,
    access: &Access,
    method: &Method,
    mut url: Url,
) -> std::result::Result<Response, HeadError> {
    for _ in 0..=REDIRECTS {
        let request = access.authorize(client.request(method.clone(), url.clone()), &url);
        let request = request.header(ACCEPT_ENCODING, "identity");
        let response = request.send().await.map_err(HeadError::Transport)?;
        match redirect(&response)? {
            Some(target) if !is_about_file(&response) => {
                if !same_origin(&target, &access.endpoint) {
                    return Err(elsewhere(&target).into());
                }
                url = target;
            }
            _ => return Ok(response),
        }
    }
    Err(Error::new(Kind::Network, format!("{} redirects in circles", host(&access.endpoint)))
        .hint("check `HF_ENDPOINT` and the proxy of your network")
        .into())
}

fn is_about_file(response: &Response) -> bool {
    ["x-linked-etag", "x-linked-size"].iter().any(|name| response.headers().contains_key(*name))
}

/// Why a question had no answer.
pub(super) enum HeadError {
    /// Worth another try.
    Transport(reqwest::Error),
    Fatal(Error),
}

impl From<Error> for HeadError {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

/// Where an answer leads, if it is a redirect.
fn redirect(response: &Response) -> Result<Option<Url>> {
    if !response.status().is_redirection() {
        return Ok(None);
    }
    let text = header(response.headers(), &LOCATION).unwrap_or_default();
    match response.url().join(&text) {
        Ok(target) if !text.is_empty() => Ok(Some(target)),
        _ => Err(refusal::not_a_hub(response.url(), "it redirects to nowhere")),
    }
}

fn elsewhere(target: &Url) -> Error {
    let other = host(target);
    Error::new(Kind::Network, format!("the hub redirects to {other}, which is another server"))
        .hint(format!("if you trust it: `HF_ENDPOINT={} infer pull MODEL`", origin(target)))
}

/// Bytes come over an encrypted connection, unless the hub itself is asked over a plain one or stands on this machine.
fn check_location(location: &Url, endpoint: &Url) -> Result<()> {
    let allowed = match location.scheme() {
        "https" => true,
        "http" => is_loopback(location) || (endpoint.scheme() == "http" && !is_loopback(endpoint)),
        _ => false,
    };
    if allowed {
        return Ok(());
    }
    let message = format!("the hub redirects to {} over a connection that is not encrypted", host(location));
    Err(Error::new(Kind::Network, message).hint("check `HF_ENDPOINT` and the proxy of your network"))
}

/// Everything that the headers must say before a byte is fetched.
fn meta(response: &Response, location: Url) -> Result<Meta> {
    let (headers, status) = (response.headers(), response.status());
    let url = response.url();
    let named = |name: &'static str| header(headers, &HeaderName::from_static(name));
    let commit = named("x-repo-commit").ok_or_else(|| refusal::not_a_hub(url, "no X-Repo-Commit"))?;
    if !is_commit(&commit) {
        return Err(refusal::not_a_hub(url, &format!("its commit is `{}`", Escaped(&commit))));
    }
    let etag = named("x-linked-etag").or_else(|| named("etag")).unwrap_or_default();
    let sha256 = etag.trim_start_matches("W/").trim_matches('"').to_owned();
    // The hash of git, in which a name and a length are mixed.
    if is_commit(&sha256) {
        return Err(Error::failed("the file is one of git's, for which the hub promises no SHA-256")
            .hint("choose another file or repository"));
    }
    if !is_sha256(&sha256) {
        return Err(refusal::not_a_hub(url, &format!("its checksum is `{}`", Escaped(&sha256))));
    }
    let own_length = || status.is_success().then(|| named("content-length")).flatten();
    let size = named("x-linked-size").or_else(own_length).and_then(|size| size.parse().ok());
    let size = size.filter(|size| *size > 0).ok_or_else(|| refusal::not_a_hub(url, "no size"))?;
    Ok(Meta { size, sha256, commit, location })
}

pub(super) fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// The name of a server, as it is said to a person.
pub(super) fn host(url: &Url) -> String {
    match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_owned(),
        (None, _) => url.scheme().to_owned(),
    }
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests {
    use super::super::Token;
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn this_machine_has_several_names() {
        for (address, expected) in [
            ("http://localhost:80", true),
            ("http://127.0.0.1", true),
            ("http://127.8.9.10", true),
            ("http://[::1]:80", true),
            ("http://localhost.example.com", false),
            ("http://127.0.0.1.example.com", false),
            ("http://192.168.0.1", false),
            ("http://[::2]", false),
            ("http://0.0.0.0", false),
            ("https://huggingface.co", false),
        ] {
            assert_eq!(is_loopback(&url(address)), expected, "{address}");
            assert_eq!(may_carry_token(&url(address)), expected || address.starts_with("https"), "{address}");
        }
    }

    #[test]
    fn bytes_come_from_where_nobody_can_change_them() {
        let (hub, here, plain) = ("https://huggingface.co", "http://127.0.0.1:1", "http://mirror");
        for (location, endpoint, expected) in [
            ("https://cdn.example/x?sig=1", hub, true),
            ("http://cdn.example/x?sig=1", hub, false),
            ("http://127.0.0.1/x", hub, true),
            ("ftp://cdn.example/x", hub, false),
            ("file:///etc/passwd", hub, false),
            ("https://cdn.example/x", here, true),
            ("http://127.0.0.1:2/x", here, true),
            ("http://cdn.example/x", here, false),
            ("http://cdn.example/x", plain, true),
            ("file:///etc/passwd", plain, false),
        ] {
            let checked = check_location(&url(location), &url(endpoint));
            assert_eq!(checked.is_ok(), expected, "{location} from {endpoint}");
            if let Err(error) = checked {
                assert!(!error.message.contains("sig=1"), "{}", error.message);
            }
        }
    }

    #[test]
    fn the_token_goes_to_the_hub_alone() {
        let token = Some(Token { value: "hf_a".to_owned(), source: "HF_TOKEN".to_owned() });
        let access = Access::new("https://hub.example/mirror", token).unwrap();
        let client = client(Duration::from_secs(1)).unwrap();
        for (address, expected) in [
            ("https://hub.example/org/name", true),
            ("https://hub.example:443/", true),
            ("https://hub.example:444/", false),
            ("http://hub.example/", false),
            ("https://cdn.hub.example/", false),
            ("https://hub.example.evil/", false),
            ("http://127.0.0.1/", false),
        ] {
            let request = access.get(&client, &url(address)).build().unwrap();
            let header = request.headers().get(AUTHORIZATION);
            assert_eq!(header.is_some(), expected, "{address}");
            assert!(header.is_none_or(|header| header == "Bearer hf_a" && header.is_sensitive()));
            assert_eq!(request.headers()[ACCEPT_ENCODING], "identity");
        }
    }

    #[test]
    fn addresses_keep_their_parts_apart() {
        let access = Access::new("https://hub.example/mirror/", None).unwrap();
        let repo = RepoId::parse("org/name").unwrap();
        let path = RepoPath::parse("a b/ü?#%2f.gguf").unwrap();
        assert_eq!(
            access.file_url(&repo, "main", &path).as_str(),
            "https://hub.example/mirror/org/name/resolve/main/a%20b/%C3%BC%3F%23%252f.gguf"
        );
        let parts = ["api", "models", "org", "name", "revision", "refs/pr/1"];
        assert_eq!(
            access.url(parts).as_str(),
            "https://hub.example/mirror/api/models/org/name/revision/refs%2Fpr%2F1"
        );
    }

    #[test]
    fn servers_are_named_without_their_addresses() {
        for (address, name, origin_of) in [
            ("https://h.example/x?sig=1", "h.example", "https://h.example"),
            ("http://h.example:81/x", "h.example:81", "http://h.example:81"),
            ("http://user:pass@h.example/", "h.example", "http://h.example"),
            ("http://[::1]:8/", "[::1]:8", "http://[::1]:8"),
        ] {
            assert_eq!((host(&url(address)), origin(&url(address))), (name.into(), origin_of.into()));
        }
    }
}
