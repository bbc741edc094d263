//! The recorded requests to the scripted model.

use std::collections::VecDeque;
use std::time::SystemTime;

use axum::http::Uri;
use axum::http::request::Parts;
use parking_lot::Mutex;
use serde_json::Value;

/// A recorded request.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// `GET`, `POST` …
    pub method: String,
    /// Path and query, with API keys removed.
    pub path: String,
    /// Headers in order, with secrets removed.
    pub headers: Vec<(String, String)>,
    /// The body; null if it was empty or not JSON.
    pub body: Value,
    /// Time of arrival.
    pub at: SystemTime,
    /// Time when the response was sent completely; `None` if it was not, and for errors.
    pub answered: Option<SystemTime>,
}

const KEPT: usize = 10_000;
/// Maximum total bytes of bodies.
const KEPT_BYTES: usize = 256 << 20;
const SECRET_HEADERS: [&str; 5] =
    ["authorization", "proxy-authorization", "x-api-key", "x-goog-api-key", "cookie"];

/// The last requests, limited in number and size.
#[derive(Debug, Default)]
pub(super) struct Requests {
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    requests: VecDeque<(usize, RecordedRequest)>,
    bytes: usize,
    /// Number of dropped requests.
    dropped: u64,
}

impl Requests {
    /// Records a request; returns its number, counted from 0.
    pub(super) fn record(&self, head: &Parts, body: &Value, bytes: usize) -> u64 {
        let request = RecordedRequest {
            method: head.method.to_string(),
            path: path_without_keys(&head.uri),
            headers: head
                .headers
                .iter()
                .filter(|(name, _)| !SECRET_HEADERS.contains(&name.as_str()))
                .map(|(name, value)| {
                    (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
                })
                .collect(),
            body: body.clone(),
            at: SystemTime::now(),
            answered: None,
        };
        let mut log = self.log.lock();
        log.bytes += bytes;
        log.requests.push_back((bytes, request));
        while log.requests.len() > KEPT || (log.bytes > KEPT_BYTES && log.requests.len() > 1) {
            log.bytes -= log.requests.pop_front().map_or(0, |(bytes, _)| bytes);
            log.dropped += 1;
        }
        log.dropped + log.requests.len() as u64 - 1
    }

    /// Records that the response was sent.
    pub(super) fn answered(&self, number: u64) {
        let mut log = self.log.lock();
        let at = number.checked_sub(log.dropped).and_then(|at| usize::try_from(at).ok());
        if let Some((_, request)) = at.and_then(|at| log.requests.get_mut(at)) {
            request.answered = Some(SystemTime::now());
        }
    }

    pub(super) fn all(&self) -> Vec<RecordedRequest> {
        let log = self.log.lock();
        log.requests.iter().map(|(_, request)| request.clone()).collect()
    }
}

fn path_without_keys(uri: &Uri) -> String {
    let pairs: Vec<&str> =
        uri.query().unwrap_or_default().split('&').filter(|pair| !pair.starts_with("key=")).collect();
    match pairs.join("&") {
        query if query.is_empty() => uri.path().to_owned(),
        query => format!("{}?{query}", uri.path()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(uri: &str, headers: &[&str]) -> Parts {
        let builder = axum::http::Request::builder().uri(uri);
        let builder = headers.iter().fold(builder, |builder, name| builder.header(*name, "value"));
        builder.body(()).unwrap().into_parts().0
    }

    #[test]
    fn secrets_are_not_kept() {
        let requests = Requests::default();
        let headers: Vec<&str> = SECRET_HEADERS.into_iter().chain(["x-app"]).collect();
        requests.record(
            &head("/v1beta/models/m:generateContent?key=secret&alt=sse", &headers),
            &Value::Null,
            0,
        );
        let all = requests.all();
        assert_eq!(all[0].path, "/v1beta/models/m:generateContent?alt=sse");
        assert_eq!(all[0].headers, [("x-app".to_owned(), "value".to_owned())]);
    }

    #[test]
    fn the_log_is_bounded_in_number_and_bytes() {
        let requests = Requests::default();
        let record = |bytes| requests.record(&head("/", &[]), &Value::Null, bytes);
        (0..KEPT + 5).for_each(|at| assert_eq!(record(0), at as u64));
        assert_eq!(requests.all().len(), KEPT);
        requests.answered(0);
        assert!(requests.all().iter().all(|request| request.answered.is_none()), "it is not kept any more");
        requests.answered(6);
        assert!(requests.all()[1].answered.is_some());
        (0..3).for_each(|_| {
            record(KEPT_BYTES / 2);
        });
        assert_eq!(requests.all().len(), 2);
    }
}
