//! One question to the server of the bytes, and whether its answer is one.

use std::ops::Range;
use std::time::{Duration, Instant};

use reqwest::header::{CONTENT_ENCODING, CONTENT_RANGE, RANGE};
use reqwest::{Response, StatusCode};
use tokio::time::timeout;

use super::{REOPENINGS, Run, Transfer, Trouble};
use crate::human::{Bytes, Escaped};
use crate::model::hub::client::{header, host};
use crate::model::hub::refusal::{self, Answer};

/// A connection is looked at this often while it is silent.
const LOOK: Duration = Duration::from_millis(500);

impl Transfer {
    /// A request for a range, or for the whole, until its headers have come.
    pub(super) async fn ask(&self, range: Option<(u64, u64)>) -> std::result::Result<Response, Trouble> {
        let (generation, url) = self.location.lock().await.clone();
        let mut request = self.access.get(&self.client, &url);
        if let Some((start, end)) = range {
            request = request.header(RANGE, format!("bytes={start}-{}", end - 1));
        }
        let idle = self.options.idle;
        let response = match timeout(idle, request.send()).await {
            Err(_) => return Err(Trouble::silent(&url, idle)),
            Ok(Err(error)) => return Err(Trouble::broke(&error, &url, idle)),
            Ok(Ok(response)) => response,
        };
        let status = response.status();
        let answers = || refusal::says(&url, status.as_u16());
        match status {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => {}
            _ if status.is_redirection() || [401, 403, 404, 410].contains(&status.as_u16()) => {
                return Err(Trouble::Denied(generation, answers()));
            }
            _ if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE => {
                return Err(Trouble::Wrong(answers()));
            }
            _ => return Err(Trouble::Status(answers(), Answer::read(response).await)),
        }
        self.check(&response, range.unwrap_or((0, self.part.size())))?;
        if range.is_some() && response.status() == StatusCode::OK {
            return Err(Trouble::NoRanges);
        }
        Ok(response)
    }

    /// The answer must be about the bytes that were asked for.
    fn check(&self, response: &Response, (start, end): (u64, u64)) -> std::result::Result<(), Trouble> {
        let wrong = |how: String| Err(Trouble::Wrong(format!("{} {how}", host(response.url()))));
        if let Some(encoding) = header(response.headers(), &CONTENT_ENCODING).filter(|e| e != "identity") {
            return wrong(format!("sends {} instead of the bytes", Escaped(&encoding)));
        }
        if response.status() == StatusCode::PARTIAL_CONTENT {
            let got = header(response.headers(), &CONTENT_RANGE).unwrap_or_default();
            if !is_part(&got, start..end, self.part.size()) {
                let asked = format!("bytes {start}-{}/{}", end - 1, self.part.size());
                return wrong(format!("sends `{}` when asked for `{asked}`", Escaped(&got)));
            }
        } else if let Some(length) = response.content_length().filter(|length| *length != self.part.size()) {
            return wrong(format!(
                "sends a file of {} instead of {}",
                Bytes(length),
                Bytes(self.part.size())
            ));
        }
        Ok(())
    }

    /// The next bytes of an answer. Silence breaks it off, and so does being far behind the others.
    pub(super) async fn chunk(
        &self,
        response: &mut Response,
        run: &Run,
        begun: Instant,
        bytes: &mut u64,
    ) -> std::result::Result<Option<impl AsRef<[u8]> + use<>>, Trouble> {
        let (silent_since, idle) = (Instant::now(), self.options.idle);
        loop {
            if run.reopened < REOPENINGS && self.is_slow(begun, *bytes) {
                return Err(Trouble::Slow);
            }
            match timeout(LOOK, response.chunk()).await {
                Ok(Ok(chunk)) => {
                    *bytes += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
                    return Ok(chunk);
                }
                Ok(Err(error)) => return Err(Trouble::broke(&error, response.url(), idle)),
                Err(_) if silent_since.elapsed() >= idle => {
                    return Err(Trouble::silent(response.url(), idle));
                }
                Err(_) => {}
            }
        }
    }
}

/// Whether a `Content-Range` begins where it should and does not go further: a server may send less than asked for.
fn is_part(text: &str, asked: Range<u64>, size: u64) -> bool {
    let last = |rest: &str| rest.strip_suffix(&format!("/{size}"))?.parse::<u64>().ok();
    let last = text.strip_prefix(&format!("bytes {}-", asked.start)).and_then(last);
    last.is_some_and(|last| asked.contains(&last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_begins_where_it_should_and_goes_no_further() {
        for (text, expected) in [
            ("bytes 100-199/1000", true),
            ("bytes 100-150/1000", true),
            ("bytes 100-100/1000", true),
            ("bytes 100-200/1000", false),
            ("bytes 100-99/1000", false),
            ("bytes 101-199/1000", false),
            ("bytes 0-199/1000", false),
            ("bytes 100-199/1001", false),
            ("bytes 100-199/*", false),
            ("bytes */1000", false),
            ("items 100-199/1000", false),
            ("", false),
        ] {
            assert_eq!(is_part(text, 100..200, 1000), expected, "{text}");
        }
    }
}
