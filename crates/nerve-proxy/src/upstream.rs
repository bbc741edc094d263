//! The address of the upstream API.

use hyper::Uri;
use hyper::http::uri::{PathAndQuery, Scheme};
use nerve_types::network_address::is_loopback;

use crate::error::ProxyError;

/// The address of an API, like `https://api.anthropic.com` or `http://127.0.0.1:11434/v1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Base URL without a trailing slash.
    base: String,
    uri: Uri,
}

impl Upstream {
    /// Anthropic's own API.
    pub const ANTHROPIC: &str = "https://api.anthropic.com";
    /// OpenAI's own API.
    pub const OPENAI: &str = "https://api.openai.com/v1";

    /// Parses an address with scheme and host, and optionally a port and a path.
    ///
    /// # Errors
    /// [`ProxyError::Upstream`] if it is invalid, or contains a user, a query or a fragment.
    pub fn parse(address: &str) -> Result<Upstream, ProxyError> {
        let bad = |reason| {
            // The text before an @ may be a password.
            let redacted = address.rsplit_once('@').map_or(address, |(_, host)| host);
            let redacted: String =
                redacted.split(['?', '#']).next().unwrap_or_default().chars().take(200).collect();
            ProxyError::Upstream { address: redacted, reason }
        };
        let base = address.trim().trim_end_matches('/');
        if base.contains('@') || base.contains('?') || base.contains('#') {
            return Err(bad("has a user, a query or a fragment in it: pass keys in environment variables"));
        }
        let uri: Uri =
            base.parse().map_err(|_| bad("is invalid; an address looks like https://host/path"))?;
        let has_scheme = uri.scheme() == Some(&Scheme::HTTP) || uri.scheme() == Some(&Scheme::HTTPS);
        if !has_scheme || uri.host().is_none_or(str::is_empty) {
            return Err(bad("must begin with http:// or https:// and have a host"));
        }
        Ok(Upstream { base: base.to_string(), uri })
    }

    /// Returns the given address without a trailing slash.
    pub fn as_str(&self) -> &str {
        &self.base
    }

    /// Returns true for `https`.
    pub(crate) fn has_tls(&self) -> bool {
        self.uri.scheme() == Some(&Scheme::HTTPS)
    }

    /// Returns its host, with the port if the address has one.
    pub fn host(&self) -> &str {
        self.uri.authority().map_or("", |authority| authority.as_str())
    }

    /// Returns true if requests could be read on the way: no TLS, and another machine.
    pub(crate) fn is_plaintext(&self) -> bool {
        self.uri.scheme() == Some(&Scheme::HTTP) && !self.uri.host().is_some_and(is_loopback)
    }

    /// Returns true for OpenAI's own API. Its newer models reject `max_tokens`, and most other servers know only that.
    pub(crate) fn is_openai(&self) -> bool {
        self.uri.host() == Some("api.openai.com")
    }

    /// Returns the upstream's URI for a request. Does not repeat the `/v1` of a base that ends with it.
    pub(crate) fn uri_for(&self, request: &Uri) -> Option<Uri> {
        let path = request.path_and_query().map_or("/", PathAndQuery::as_str);
        let base = match self.base.strip_suffix("/v1") {
            Some(short) if path.starts_with("/v1/") => short,
            _ => &self.base,
        };
        format!("{base}{path}").parse().ok()
    }

    /// Returns the URI of Chat Completions.
    pub(crate) fn completions_uri(&self) -> Option<Uri> {
        let version = if self.uri.path().trim_end_matches('/').is_empty() { "/v1" } else { "" };
        format!("{}{version}/chat/completions", self.base).parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_joined() {
        for bad in [
            "",
            "host",
            "ftp://h",
            "https://",
            "https://u:hunter2@h",
            "https://h?key=hunter2",
            "https://h#x",
            "/v1",
        ] {
            let error = Upstream::parse(bad).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
        let completions_uri = |base| Upstream::parse(base).unwrap().completions_uri().unwrap().to_string();
        assert_eq!(completions_uri("https://h"), "https://h/v1/chat/completions");
        assert_eq!(completions_uri("https://h/"), "https://h/v1/chat/completions");
        assert_eq!(completions_uri("http://h:1/api/v2/"), "http://h:1/api/v2/chat/completions");
        let passed = |base, path: &'static str| {
            Upstream::parse(base).unwrap().uri_for(&Uri::from_static(path)).unwrap().to_string()
        };
        assert_eq!(passed("https://h", "/v1/messages?beta=true"), "https://h/v1/messages?beta=true");
        assert_eq!(passed("https://h/v1", "/v1/messages"), "https://h/v1/messages");
        assert_eq!(passed("https://h/v1", "/"), "https://h/v1/");
        assert_eq!(passed("https://h/gate/", "http://proxy/v1/x"), "https://h/gate/v1/x");
    }

    #[test]
    fn remote_http_is_plaintext() {
        let clear = |base| Upstream::parse(base).unwrap().is_plaintext();
        assert!(clear("http://far.example") && clear("http://10.0.0.1:80"));
        assert!(
            !clear("https://far.example")
                && !clear("http://127.0.0.2")
                && !clear("http://[::1]:1")
                && !clear("http://localhost:1")
        );
    }
}
