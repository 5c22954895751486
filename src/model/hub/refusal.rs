//! What the hub's refusals mean, in one line and a next step. The reference is `hf_raise_for_status` of Python's
//! `huggingface_hub`.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Response, StatusCode, Url};

use super::Access;
use super::client::host;
use crate::error::{Error, Kind};
use crate::human::{Escaped, Seconds};

/// The most of an error's body that is read.
const LONGEST_BODY: usize = 16 << 10;

/// An answer that is not a success.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// `X-Error-Code`.
    pub(super) code: Option<String>,
    /// `X-Error-Message`, or the body's `error`.
    pub(super) message: Option<String>,
    /// How long to wait before asking again.
    pub(super) wait: Option<Duration>,
}

/// What was asked for, in the words of the person.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) repo: &'a str,
    pub(super) revision: Option<&'a str>,
    pub(super) path: Option<&'a str>,
}

impl Answer {
    pub(super) async fn read(mut response: Response) -> Self {
        let headers = response.headers();
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (code, message) = (text("x-error-code"), text("x-error-message"));
        let wait = wait(headers);
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while body.len() < LONGEST_BODY && message.is_none() {
            match response.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                _ => break,
            }
        }
        let said = serde_json::from_slice::<serde_json::Value>(&body).ok();
        let said = said.and_then(|body| body.get("error")?.as_str().map(str::to_owned));
        Self { status, code, message: message.or(said), wait }
    }

    /// Is it worth asking again?
    pub(super) fn is_passing(&self) -> bool {
        matches!(self.status, 408 | 425 | 429 | 500..=599)
    }
}

/// How long the server wants to be left alone: `Retry-After: 7`, or the `t` of `RateLimit: "resolvers";r=0;t=55` (IETF
/// draft "`RateLimit` header fields for HTTP"), and a second more, as the window ends within one.
pub(super) fn wait(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    // At once is what a client must not do that was told to go away.
    let retry_after = text("retry-after").and_then(|value| value.trim().parse().ok()).filter(|s| *s > 0);
    let rate_limit = || {
        let part = text("ratelimit")?.split(';').find_map(|part| part.trim().strip_prefix("t="))?;
        part.trim().parse::<u64>().ok().map(|seconds| seconds.saturating_add(1))
    };
    retry_after.or_else(rate_limit).map(Duration::from_secs)
}

/// The answer of something that is no hub, such as the login page of a network.
pub(super) fn not_a_hub(url: &Url, why: &str) -> Error {
    let message = format!("the answer of {} is not that of a hub: {why}", host(url));
    Error::new(Kind::Network, message)
        .hint("check `HF_ENDPOINT`, a proxy, or the login page of this network in a browser")
}

/// A refusal as an error.
pub(super) fn error(answer: &Answer, asked: Asked<'_>, access: &Access) -> Error {
    let Asked { repo, revision, path } = asked;
    let page = format!("{}/{repo}", access.endpoint.as_str().trim_end_matches('/'));
    let code = answer.code.as_deref().unwrap_or_default();
    let said = answer.message.as_deref().unwrap_or_default();
    let quoted = |text: &str| Escaped(text).to_string();
    match (answer.status, code) {
        (401 | 403, "GatedRepo") => gated(answer.status, repo, &page, access),
        (401, _) if said.contains("Invalid credentials") => invalid_token(access),
        (403, _) if said.contains("disabled") => network(format!("{repo} has been disabled by the hub"))
            .hint(format!("{page} may say why; choose another repository")),
        (404, "RevisionNotFound") => Error::new(
            Kind::NotFound,
            format!("{repo} has no revision `{}`", quoted(revision.unwrap_or("main"))),
        )
        .hint(format!("{page}/tree/main lists its branches; without `@REVISION` it is `main`")),
        (404, "EntryNotFound") => not_in_repo(repo, path, &page),
        (401 | 404, _) => missing(repo, access),
        (403, _) => network(match said {
            "" => format!("the hub refuses access to {repo}"),
            said => format!("the hub refuses access to {repo}: {}", quoted(said)),
        })
        .hint(format!("see {page}; {}", token_hint(access))),
        (429, _) => rate_limited(answer, access),
        (status, _) => network(says(&access.endpoint, status))
            .hint("the same command goes on where it stopped; try again later"),
    }
}

fn network(message: String) -> Error {
    Error::new(Kind::Network, message)
}

fn gated(status: u16, repo: &str, page: &str, access: &Access) -> Error {
    let hint = format!("accept its licence at {page}, then {}", token_hint(access));
    match &access.token {
        Some(token) if status == 403 => network(format!(
            "{repo} is gated, and the account of the token from {} has no access",
            token.source
        ))
        .hint(format!("accept its licence at {page}")),
        _ => network(format!("{repo} is gated: its licence has to be accepted first")).hint(hint),
    }
}

fn invalid_token(access: &Access) -> Error {
    let source = access.token.as_ref().map_or("nowhere", |token| token.source.as_str());
    network(format!("the hub does not know the token from {source}"))
        .hint("make a new one at https://huggingface.co/settings/tokens, or `unset HF_TOKEN` for open models")
}

fn missing(repo: &str, access: &Access) -> Error {
    let message = match &access.token {
        None => format!("{repo} does not exist, or is private and no token is set"),
        Some(token) => {
            format!("{repo} does not exist, or the token from {} may not see it", token.source)
        }
    };
    Error::new(Kind::NotFound, message)
        .hint(format!("check the spelling; for a private one {}", token_hint(access)))
}

fn not_in_repo(repo: &str, path: Option<&str>, page: &str) -> Error {
    let what = Escaped(path.unwrap_or("such file")).to_string();
    Error::new(Kind::NotFound, format!("{repo} has no file `{what}`"))
        .hint(format!("`infer show {repo}` or {page}/tree/main lists what there is"))
}

fn rate_limited(answer: &Answer, access: &Access) -> Error {
    let again = answer.wait.map_or("later".to_owned(), |wait| format!("in {}", Seconds(wait.as_secs_f64())));
    let why = if access.token.is_some() { "this account" } else { "this address (without a token)" };
    network(format!("the hub limits the requests of {why}; again {again}")).hint(if access.token.is_some() {
        "type the same command then".to_owned()
    } else {
        token_hint(access)
    })
}

fn token_hint(access: &Access) -> String {
    match &access.token {
        None => "set HF_TOKEN, or log in with `hf auth login`".to_owned(),
        Some(token) => format!("check the token from {}", token.source),
    }
}

/// A status in the words of a person.
pub(super) fn says(url: &Url, status: u16) -> String {
    format!("{} answers {}", host(url), describe(status))
}

pub(super) fn describe(status: u16) -> String {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    reason.map_or_else(|| status.to_string(), |reason| format!("{status} {reason}"))
}

/// A request that got no answer at all.
pub(super) fn unreachable(error: &reqwest::Error, url: &Url) -> Error {
    let host = host(url);
    let (message, hint) = if error.is_timeout() {
        (format!("no answer from {host}: timed out"), "check the network; the same command goes on")
    } else if error.is_connect() {
        (
            format!("cannot reach {host}: {}", root_cause(error)),
            "check the network, the proxy (`HTTPS_PROXY`) and `HF_ENDPOINT`",
        )
    } else {
        (format!("the connection to {host} broke: {}", root_cause(error)), "the same command goes on")
    };
    network(message).hint(hint)
}

/// The innermost cause: the outer ones repeat the address, which may carry a signature.
pub(super) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    Escaped(&inner.to_string()).to_string()
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::super::Token;
    use super::*;

    const ASKED: Asked<'_> = Asked { repo: "org/name", revision: Some("v1"), path: Some("a\u{1b}.gguf") };

    fn access(token: bool) -> Access {
        let token = token.then(|| Token { value: "hf_secret".to_owned(), source: "HF_TOKEN".to_owned() });
        Access::new("https://hub.example", token).unwrap()
    }

    fn answer(status: u16, code: &str, message: &str) -> Answer {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Answer { status, code: some(code), message: some(message), wait: None }
    }

    /// Status, code, message, whether there is a token, and what becomes of it.
    type Case = (u16, &'static str, &'static str, bool, &'static str);

    #[track_caller]
    fn table(kind: Kind, cases: &[Case]) {
        for (status, code, message, token, expected) in cases {
            let error = error(&answer(*status, code, message), ASKED, &access(*token));
            assert_eq!((error.kind, error.message.as_str()), (kind, *expected), "{status} {code} {message}");
            let hint = error.hint.unwrap();
            let is_harmless = !hint.contains("hf_secret") && !hint.contains(char::is_control);
            assert!(is_harmless && !hint.is_empty(), "{hint}");
        }
    }

    #[test]
    fn what_is_not_there_and_what_may_not_be_seen_look_alike() {
        let alone = "org/name does not exist, or is private and no token is set";
        let known = "org/name does not exist, or the token from HF_TOKEN may not see it";
        table(
            Kind::NotFound,
            &[
                (404, "RepoNotFound", "", false, alone),
                (401, "RepoNotFound", "", false, alone),
                (401, "", "Invalid username or password.", false, alone),
                (404, "RepoNotFound", "", true, known),
                (404, "", "", true, known),
                (404, "RevisionNotFound", "", false, "org/name has no revision `v1`"),
                (404, "EntryNotFound", "", false, "org/name has no file `a\\u{1b}.gguf`"),
            ],
        );
    }

    #[test]
    fn every_refusal_has_its_own_cause() {
        let locked = "org/name is gated: its licence has to be accepted first";
        let barred = "org/name is gated, and the account of the token from HF_TOKEN has no access";
        let unknown = "the hub does not know the token from HF_TOKEN";
        let limit = "the hub limits the requests of this account; again later";
        let limit_here = "the hub limits the requests of this address (without a token); again later";
        table(
            Kind::Network,
            &[
                (401, "", "Invalid credentials in Authorization header", true, unknown),
                (401, "GatedRepo", "", false, locked),
                (401, "GatedRepo", "", true, locked),
                (403, "GatedRepo", "", true, barred),
                (403, "GatedRepo", "", false, locked),
                (
                    403,
                    "",
                    "Access to this resource is disabled.",
                    false,
                    "org/name has been disabled by the hub",
                ),
                (403, "", "no\u{1b}[J\n", true, "the hub refuses access to org/name: no\\u{1b}[J\\n"),
                (403, "", "", true, "the hub refuses access to org/name"),
                (429, "", "", false, limit_here),
                (429, "", "", true, limit),
                (503, "", "", false, "hub.example answers 503 Service Unavailable"),
                (408, "", "", false, "hub.example answers 408 Request Timeout"),
                (599, "", "", false, "hub.example answers 599"),
            ],
        );
        let answer = Answer { wait: Some(Duration::from_secs(61)), ..answer(429, "", "") };
        let message = error(&answer, ASKED, &access(true)).message;
        assert_eq!(message, limit.replace("later", "in 1 min 01 s"));
    }

    #[test]
    fn what_may_pass_is_asked_again() {
        for (status, expected) in [
            (408, true),
            (425, true),
            (429, true),
            (500, true),
            (503, true),
            (599, true),
            (400, false),
            (403, false),
        ] {
            assert_eq!(answer(status, "", "").is_passing(), expected, "{status}");
        }
    }

    #[test]
    fn how_long_a_server_wants_to_be_left_alone() {
        type Pair = (&'static str, &'static str);
        let limit = "ratelimit";
        let cases: [(&[Pair], Option<u64>); 13] = [
            (&[], None),
            (&[("retry-after", "7")], Some(7)),
            (&[("retry-after", " 7 ")], Some(7)),
            (&[("retry-after", "0")], None),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")], None),
            (&[("retry-after", "99999999999999999999")], None),
            (&[(limit, "\"resolvers\";r=0;t=55")], Some(56)),
            (&[(limit, "\"api\"; r=0; t=0")], Some(1)),
            (&[(limit, "\"api\";r=0")], None),
            (&[(limit, "t=18446744073709551615")], Some(u64::MAX)),
            (&[("retry-after", "7"), (limit, "\"api\";r=0;t=55")], Some(7)),
            (&[("retry-after", "soon"), (limit, "\"api\";r=0;t=55")], Some(56)),
        ];
        for (headers, expected) in cases {
            let pair =
                |(name, value): &Pair| (HeaderName::from_static(name), HeaderValue::from_static(value));
            let map: HeaderMap = headers.iter().map(pair).collect();
            assert_eq!(wait(&map), expected.map(Duration::from_secs), "{headers:?}");
        }
    }

    #[test]
    fn the_innermost_cause_is_said_without_addresses() {
        let inner = std::io::Error::other("broken\u{1b}pipe");
        let outer = std::io::Error::other(inner);
        assert_eq!(root_cause(&outer), "broken\\u{1b}pipe");
    }
}
