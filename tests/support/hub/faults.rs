//! What can go wrong on the way: switches that turn an honest answer into another.

use std::collections::HashSet;

use super::content::{Content, gzip};
use super::http::Answer;
use super::server::Server;

/// What kind of request an answer is for, and where a fault applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Anywhere,
    /// All that the hub itself answers.
    Hub,
    /// `Info`, `Tree` and `Search`.
    Api,
    /// `Head` and `Get`.
    Resolve,
    Info,
    Tree,
    Search,
    /// `HEAD …/resolve/…`
    Head,
    /// `GET …/resolve/…`
    Get,
    /// Where files in git come from.
    Cache,
    /// The bytes of large files; the third host counts as one too.
    Cdn,
    /// Anything else on the hub.
    Other,
}

impl Place {
    fn covers(self, at: Self) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Hub => at != Self::Cdn,
            Self::Api => matches!(at, Self::Info | Self::Tree | Self::Search),
            Self::Resolve => matches!(at, Self::Head | Self::Get),
            _ => self == at,
        }
    }
}

/// One way to fail. Each has a usual place; see `usual_place`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Closes the connection after so many bytes of a body that is longer.
    Drop {
        after: u64,
    },
    /// The same for every range once; ranges with the same last byte count as one, so a range taken up again is whole.
    DropEachRangeOnce {
        after: u64,
    },
    /// As `Drop`, but nothing in the head says how long the body should have been.
    Cut {
        after: u64,
    },
    /// Sends so many bytes of a longer body and then nothing until the client closes.
    Stall {
        after: u64,
    },
    /// A connection of so many bytes a second, from now to its end. With `times(1)`: one slow connection.
    Slow {
        rate: u64,
    },
    /// No more than so many bytes of bodies leave the CDN, counted over all of them, until `Hub::release`.
    Hold {
        after: u64,
    },
    /// The byte at this offset of the file is another one. With `times(1)`: only when it is first sent.
    Flip {
        offset: u64,
    },
    /// A 200 with everything, whatever was asked.
    IgnoreRange,
    /// A `Content-Range` one byte further than what was asked; the body is what was asked.
    WrongContentRange,
    NoContentRange,
    /// A 206 with at most so many bytes of what was asked, and a head that says so.
    ShortRange {
        len: u64,
    },
    /// The body in gzip's format, which nobody asked for; a range becomes a 200.
    Gzip,
    /// A body that says no length and never ends.
    Endless,
    /// The URLs given out so far are no longer good: 403 in XML. One `HEAD` gives a new one. Usually `after(k).times(1)`.
    Expired,
    /// 403 in XML, also with a new URL.
    Denied,
    /// Closes without an answer.
    Hangup,
    /// No answer until the client closes.
    Silent,
    /// 429 with `Retry-After`.
    TooMany {
        retry_after: u64,
    },
    /// 429 that says only in `RateLimit` when to come again.
    RateLimit {
        reset: u64,
    },
    /// A status with a line of text: 500, 503, 408.
    Status(u16),
    /// 200 with a page in HTML, as a hotel's network answers.
    LoginPage,
    /// Anything else.
    Answer {
        status: u16,
        headers: Vec<(String, String)>,
        body: String,
    },
    /// A redirect to where one is.
    RedirectLoop,
    /// The redirect leads there instead, with all the rest as it should be.
    RedirectTo(String),
    /// The redirect leads to the third host, which has the bytes too.
    RedirectToThird,
    /// 308 to the same path on the third host, which answers as this hub does.
    Mirror,
    /// `X-Linked-Size` is off by so much.
    SizeOff(i64),
    NoSize,
    /// Another `ETag` and `X-Linked-Etag`: a wrong hash, a path.
    Etag(String),
    NoEtag,
    /// Another commit, in heads and bodies.
    Commit(String),
    /// As from no hub: no `X-Repo-Commit`.
    NoCommit,
    /// A header more, or another value for it: a `Link` to elsewhere.
    Header {
        name: String,
        value: String,
    },
}

impl Fault {
    pub(crate) fn at(self, place: Place) -> Switch {
        Switch::from(self).at(place)
    }

    pub(crate) fn times(self, times: u32) -> Switch {
        Switch::from(self).times(times)
    }

    pub(crate) fn after(self, requests: u32) -> Switch {
        Switch::from(self).after(requests)
    }

    pub(crate) fn file(self, path: &str) -> Switch {
        Switch::from(self).file(path)
    }

    fn usual_place(&self) -> Place {
        match self {
            Self::Hangup
            | Self::Silent
            | Self::TooMany { .. }
            | Self::RateLimit { .. }
            | Self::Status(_)
            | Self::LoginPage
            | Self::Answer { .. } => Place::Anywhere,
            Self::RedirectLoop
            | Self::RedirectTo(_)
            | Self::RedirectToThird
            | Self::Mirror
            | Self::SizeOff(_)
            | Self::NoSize
            | Self::Etag(_)
            | Self::NoEtag => Place::Resolve,
            Self::Commit(_) | Self::NoCommit | Self::Header { .. } => Place::Hub,
            _ => Place::Cdn,
        }
    }

    /// Whether there is something in this answer for the fault to spoil.
    fn fits(&self, answer: &Answer, has_body: bool) -> bool {
        let longer_than = |after: u64| has_body && answer.range.end - answer.range.start > after;
        match self {
            Self::Drop { after } | Self::DropEachRangeOnce { after } | Self::Cut { after } => {
                longer_than(*after)
            }
            Self::Stall { after } => longer_than(*after),
            Self::ShortRange { len } => answer.status == 206 && longer_than(*len),
            Self::Flip { offset } => has_body && answer.range.contains(offset),
            Self::Slow { .. } | Self::Gzip | Self::Endless => longer_than(0),
            Self::IgnoreRange | Self::WrongContentRange | Self::NoContentRange => answer.status == 206,
            // The third host is where they lead.
            Self::RedirectTo(_) | Self::RedirectToThird | Self::Mirror if answer.server == Server::Third => {
                false
            }
            Self::RedirectTo(_) | Self::RedirectToThird => {
                answer.status == 302 || !Place::Resolve.covers(answer.place)
            }
            Self::SizeOff(_) | Self::NoSize => answer.header("X-Linked-Size").is_some(),
            Self::Etag(_) | Self::NoEtag => answer.header("ETag").is_some(),
            Self::Commit(_) | Self::NoCommit => answer.commit.is_some(),
            _ => true,
        }
    }
}

/// A fault with where, after how many answers and how often it happens. Only answers that it fits are counted.
#[derive(Debug, Clone)]
pub(crate) struct Switch {
    fault: Fault,
    place: Place,
    after: u32,
    times: Option<u32>,
    file: Option<String>,
    seen: u32,
    ends: HashSet<(Option<String>, u64)>,
}

impl From<Fault> for Switch {
    /// Where the fault usually is, every time.
    fn from(fault: Fault) -> Self {
        let place = fault.usual_place();
        Self { fault, place, after: 0, times: None, file: None, seen: 0, ends: HashSet::new() }
    }
}

impl Switch {
    pub(crate) fn at(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// So many times, and then no more.
    pub(crate) fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Not before so many answers went well.
    pub(crate) fn after(mut self, requests: u32) -> Self {
        self.after = requests;
        self
    }

    /// For this file of a repository only.
    pub(crate) fn file(mut self, path: &str) -> Self {
        self.file = Some(path.to_owned());
        self
    }

    pub(super) fn fault(&self) -> &Fault {
        &self.fault
    }

    /// Whether the fault happens to this answer; counts.
    fn fires(&mut self, answer: &Answer, has_body: bool) -> bool {
        let here = self.place.covers(answer.place) && (self.file.is_none() || self.file == answer.file);
        if !here || !self.fault.fits(answer, has_body) {
            return false;
        }
        if matches!(self.fault, Fault::DropEachRangeOnce { .. })
            && !self.ends.insert((answer.file.clone(), answer.range.end))
        {
            return false;
        }
        self.seen += 1;
        self.seen > self.after && self.times.is_none_or(|times| self.seen - self.after <= times)
    }
}

/// The faults that happen to this answer.
pub(super) fn fired(switches: &mut [Switch], answer: &Answer, has_body: bool) -> Vec<Fault> {
    let fired = switches.iter_mut().filter_map(|s| s.fires(answer, has_body).then(|| s.fault.clone()));
    fired.collect()
}

/// How an answer is sent.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    pub(super) end: End,
    /// Offsets of bytes to change.
    pub(super) flips: Vec<u64>,
    /// Bytes a second for the rest of the connection.
    pub(super) slow: Option<u64>,
}

/// How an answer ends.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With the last byte of the body.
    #[default]
    Whole,
    /// The connection is closed after so many bytes of the body.
    Close(u64),
    /// After so many bytes comes nothing until the client closes.
    Stall(u64),
    /// Not at all: the body starts again.
    Never,
    /// Closed before it began.
    Hangup,
    /// It never begins.
    Silent,
}

/// Spoils an answer as the faults say. `here` and `third` are the addresses of this host and of the third one.
pub(super) fn spoil(
    answer: &mut Answer,
    faults: &[Fault],
    target: &str,
    here: &str,
    third: &str,
) -> Delivery {
    let mut delivery = Delivery::default();
    for fault in faults {
        if let Some(other) = instead(fault, answer, target, here, third) {
            *answer =
                Answer { place: answer.place, server: answer.server, file: answer.file.clone(), ..other };
        } else {
            spoil_head(answer, fault, third);
            spoil_body(answer, fault, &mut delivery);
        }
    }
    delivery
}

/// Another answer altogether.
fn instead(fault: &Fault, answer: &Answer, target: &str, here: &str, third: &str) -> Option<Answer> {
    let redirects = Place::Resolve.covers(answer.place);
    Some(match fault {
        Fault::Expired | Fault::Denied => Answer::access_denied(),
        Fault::TooMany { retry_after } => {
            Answer::text(429, "Too many requests").with("Retry-After", &retry_after.to_string())
        }
        Fault::RateLimit { reset } => Answer::text(429, "Too many requests")
            .with("RateLimit", &format!("\"resolvers\";r=0;t={reset}"))
            .with("RateLimit-Policy", "\"fixed window\";\"resolvers\";q=3000;w=300"),
        Fault::Status(status) => Answer::text(*status, "Something went wrong"),
        Fault::LoginPage => {
            Answer::new(200, "text/html", "<!doctype html><title>Sign in</title><form></form>")
        }
        Fault::Answer { status, headers, body } => headers
            .iter()
            .fold(Answer::new(*status, "application/json", body.as_str()), |answer, (name, value)| {
                answer.with(name, value)
            }),
        Fault::RedirectLoop => Answer::text(302, "Found").with("Location", &format!("{here}{target}")),
        Fault::RedirectTo(url) if !redirects => Answer::text(302, "Found").with("Location", url),
        Fault::RedirectToThird if !redirects => {
            Answer::text(302, "Found").with("Location", &format!("{third}{target}"))
        }
        Fault::Mirror => {
            Answer::text(308, "Permanent Redirect").with("Location", &format!("{third}{target}"))
        }
        _ => return None,
    })
}

fn spoil_head(answer: &mut Answer, fault: &Fault, third: &str) {
    match fault {
        Fault::RedirectTo(url) => answer.set("Location", url),
        Fault::RedirectToThird => {
            let path = answer.header("Location").and_then(|url| url.splitn(4, '/').nth(3).map(str::to_owned));
            answer.set("Location", &format!("{third}/{}", path.unwrap_or_default()));
        }
        Fault::SizeOff(by) => {
            let size = answer.header("X-Linked-Size").and_then(|size| size.parse::<u64>().ok()).unwrap_or(0);
            answer.set("X-Linked-Size", &size.saturating_add_signed(*by).to_string());
        }
        Fault::NoSize => answer.unset("X-Linked-Size"),
        Fault::Etag(etag) => {
            for name in ["ETag", "X-Linked-Etag"] {
                if answer.header(name).is_some() {
                    answer.set(name, &format!("\"{etag}\""));
                }
            }
        }
        Fault::NoEtag => {
            answer.unset("ETag");
            answer.unset("X-Linked-Etag");
        }
        Fault::Commit(commit) => {
            if answer.header("X-Repo-Commit").is_some() {
                answer.set("X-Repo-Commit", commit);
            }
            answer.replace_commit(commit);
        }
        Fault::NoCommit => answer.unset("X-Repo-Commit"),
        Fault::Header { name, value } => answer.set(name, value),
        Fault::WrongContentRange => {
            let (start, end, len) = (answer.range.start + 1, answer.range.end, answer.content.len());
            answer.set("Content-Range", &format!("bytes {start}-{end}/{len}"));
        }
        Fault::NoContentRange => answer.unset("Content-Range"),
        _ => {}
    }
}

fn spoil_body(answer: &mut Answer, fault: &Fault, delivery: &mut Delivery) {
    match fault {
        Fault::Drop { after } | Fault::DropEachRangeOnce { after } => delivery.end = End::Close(*after),
        Fault::Cut { after } => {
            delivery.end = End::Close(*after);
            answer.no_length = true;
        }
        Fault::Stall { after } => delivery.end = End::Stall(*after),
        Fault::Slow { rate } => delivery.slow = Some(*rate),
        Fault::Flip { offset } => delivery.flips.push(*offset),
        Fault::IgnoreRange => {
            answer.status = 200;
            answer.unset("Content-Range");
            answer.range = 0..answer.content.len();
        }
        Fault::ShortRange { len } => {
            answer.range.end = answer.range.start + len;
            answer.set_content_range();
        }
        Fault::Gzip => {
            answer.content = Content::new(gzip(&answer.content.bytes(&answer.range)));
            answer.range = 0..answer.content.len();
            answer.unset("Content-Range");
            answer.set("Content-Encoding", "gzip");
            if answer.status == 206 {
                answer.status = 200;
            }
        }
        Fault::Endless => {
            delivery.end = End::Never;
            answer.no_length = true;
        }
        Fault::Hangup => delivery.end = End::Hangup,
        Fault::Silent => delivery.end = End::Silent,
        _ => {}
    }
}
