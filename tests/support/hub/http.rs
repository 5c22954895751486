//! HTTP/1.1 as far as a hub needs it: heads in, answers out.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read};
use std::ops::Range;

use super::content::Content;
use super::faults::Place;
use super::server::Server;

/// A request as it came.
pub(super) struct Incoming {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) old: bool,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Incoming {
    /// The next request of a connection; `None` when there is none.
    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [method, target, version] = words[..] else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, line));
        };
        let (method, target, old) = (method.to_owned(), target.to_owned(), version == "HTTP/1.0");
        let mut headers = Vec::new();
        loop {
            line.clear();
            from.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut incoming = Self { method, target, old, headers, body: Vec::new() };
        let len = incoming.header("content-length").and_then(|len| len.parse().ok()).unwrap_or(0);
        from.take(len).read_to_end(&mut incoming.body)?;
        Ok(Some(incoming))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The token of `Authorization: Bearer …`; an odd header is a token that nobody has.
    pub(super) fn token(&self) -> Option<&str> {
        self.header("authorization").map(|value| value.strip_prefix("Bearer ").unwrap_or("?"))
    }

    /// Path and query; a request to a proxy names the host too.
    pub(super) fn path_and_query(&self) -> &str {
        let rest =
            self.target.strip_prefix("http://").map(|rest| rest.find('/').map_or("/", |at| &rest[at..]));
        rest.unwrap_or(&self.target)
    }

    /// The parts of the path, decoded.
    pub(super) fn segments(&self) -> Vec<String> {
        let path = self.path_and_query().split('?').next().unwrap_or_default();
        path.trim_matches('/').split('/').map(decoded).collect()
    }

    pub(super) fn query(&self, name: &str) -> Option<String> {
        let query = self.path_and_query().split_once('?')?.1;
        let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.find(|(known, _)| *known == name).map(|(_, value)| decoded(&value.replace('+', " ")))
    }

    /// What of `len` bytes is asked: everything, a range, or a range that isn't there.
    pub(super) fn range(&self, len: u64) -> Asked {
        let Some(spec) = self.header("range").and_then(|value| value.strip_prefix("bytes=")) else {
            return Asked::All;
        };
        let Some((start, end)) = spec.split_once('-') else { return Asked::All };
        let range = match (start.parse::<u64>(), end.parse::<u64>()) {
            (Ok(start), Ok(end)) => start..len.min(end.saturating_add(1)),
            (Ok(start), Err(_)) if end.is_empty() => start..len,
            (Err(_), Ok(last)) if start.is_empty() => len.saturating_sub(last)..len,
            _ => return Asked::All,
        };
        if range.is_empty() { Asked::Nothing } else { Asked::Part(range) }
    }
}

pub(super) enum Asked {
    All,
    Part(Range<u64>),
    Nothing,
}

pub(super) fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok()).filter(|_| *first == b'%');
        let code = digits.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A path for a URL.
pub(super) fn encoded(path: &str) -> String {
    path.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").expect("a text takes everything");
        }
        text
    })
}

/// What is sent back, with what faults and records want to know of it.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) content: Content,
    /// Which bytes of the content are the body.
    pub(super) range: Range<u64>,
    /// The body ends with the connection.
    pub(super) no_length: bool,
    pub(super) place: Place,
    pub(super) server: Server,
    /// The file of the repository that this is about.
    pub(super) file: Option<String>,
    pub(super) commit: Option<String>,
}

impl Answer {
    pub(super) fn new(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::of(status, kind, Content::new(body))
    }

    pub(super) fn of(status: u16, kind: &str, content: Content) -> Self {
        Self {
            status,
            headers: vec![("Content-Type".to_owned(), kind.to_owned())],
            range: 0..content.len(),
            content,
            no_length: false,
            place: Place::Other,
            server: Server::Hub,
            file: None,
            commit: None,
        }
    }

    pub(super) fn text(status: u16, body: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", body)
    }

    pub(super) fn json(value: &serde_json::Value) -> Self {
        Self::new(200, "application/json; charset=utf-8", value.to_string())
    }

    /// A refusal as the hub words it: the code and the message in the head, the message in the body too.
    pub(super) fn refusal(status: u16, code: Option<&str>, message: &str) -> Self {
        let body = serde_json::json!({ "error": message }).to_string();
        let answer =
            Self::new(status, "application/json; charset=utf-8", body).with("X-Error-Message", message);
        match code {
            Some(code) => answer.with("X-Error-Code", code),
            None => answer,
        }
    }

    /// What the CDN says to a signature that is not, or no longer, good.
    pub(super) fn access_denied() -> Self {
        let body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>AccessDenied</Code><Message>Access denied</Message></Error>";
        Self::new(403, "application/xml", body)
    }

    /// All of a content, or the range of it that was asked for.
    pub(super) fn part(incoming: &Incoming, kind: &str, content: Content) -> Self {
        let len = content.len();
        match incoming.range(len) {
            Asked::All => Self::of(200, kind, content).with("Accept-Ranges", "bytes"),
            Asked::Part(range) => {
                let mut answer = Self::of(206, kind, content).with("Accept-Ranges", "bytes");
                answer.range = range;
                answer.set_content_range();
                answer
            }
            Asked::Nothing => {
                Self::text(416, "Range Not Satisfiable").with("Content-Range", &format!("bytes */{len}"))
            }
        }
    }

    pub(super) fn set_content_range(&mut self) {
        let (start, last, len) = (self.range.start, self.range.end - 1, self.content.len());
        self.set("Content-Range", &format!("bytes {start}-{last}/{len}"));
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.set(name, value);
        self
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.unset(name);
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    pub(super) fn unset(&mut self, name: &str) {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }

    /// Another commit in a body of JSON.
    pub(super) fn replace_commit(&mut self, commit: &str) {
        let Some(known) = self.commit.clone().filter(|_| self.place == Place::Info) else { return };
        let json = String::from_utf8_lossy(&self.content.bytes(&self.range)).into_owned();
        let quoted = serde_json::json!(commit).to_string();
        self.content = Content::new(json.replace(&format!("\"{known}\""), &quoted));
        self.range = 0..self.content.len();
    }

    pub(super) fn head(&self) -> String {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            write!(head, "{name}: {value}\r\n").expect("a text takes everything");
        }
        if self.no_length {
            head.push_str("Connection: close\r\n");
        } else if self.status != 304 {
            write!(head, "Content-Length: {}\r\n", self.range.end - self.range.start)
                .expect("a text takes everything");
        }
        head.push_str("\r\n");
        head
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        302 => "Found",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        416 => "Range Not Satisfiable",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
