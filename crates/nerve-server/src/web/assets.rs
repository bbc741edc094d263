//! The files of the page, which are part of the program.

use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::CacheForever;
use crate::access::secret;

/// Everything is loaded from this server, and scripts and styles only from files: text of an agent that reaches the page
/// cannot run, load or send anything.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
    manifest-src 'self'; worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
/// Stands for the version of the assets in the page.
const VERSION_PLACEHOLDER: &str = "{{version}}";
/// Digits of the version.
const VERSION_DIGITS: usize = 16;
/// The page itself.
const INDEX: &str = "index.html";
/// The script that shows notifications while the page is closed. Its path decides which pages it serves, so it is not
/// versioned.
const SERVICE_WORKER: &str = "service_worker.js";
/// Folder to read the files from instead, while the page is developed.
#[cfg(debug_assertions)]
const FOLDER: &str = "NERVE_WEB_DIR";

/// A file of the page.
struct Asset {
    name: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal,)*) => {
        &[$(Asset {
            name: $name,
            bytes: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/web/", $name)),
        },)*]
    };
}

const ASSETS: &[Asset] = assets![
    "index.html",
    "style.css",
    "icon.svg",
    "icon.png",
    "manifest.webmanifest",
    "main.js",
    "api.js",
    "connection.js",
    "dialog_card.js",
    "dom.js",
    "node_store.js",
    "node_list_view.js",
    "login_view.js",
    "notification_switch.js",
    "service_worker.js",
    "node_card.js",
    "prompt_form.js",
    "retry.js",
    "time.js",
];

/// The beginning of the SHA-256 of all files: a part of their path, so that browsers may keep them forever.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let all: Vec<u8> =
        ASSETS.iter().flat_map(|asset| [asset.name.as_bytes(), asset.bytes].concat()).collect();
    secret::sha256_hex(&all).chars().take(VERSION_DIGITS).collect()
});

/// Returns the page.
pub(super) fn index() -> Response {
    let Some(page) = read(INDEX) else { return StatusCode::NOT_FOUND.into_response() };
    let page = String::from_utf8_lossy(&page).replace(VERSION_PLACEHOLDER, &VERSION);
    respond(INDEX, page.into())
}

/// Returns the service worker.
pub(super) fn service_worker() -> Response {
    match read(SERVICE_WORKER) {
        Some(script) => respond(SERVICE_WORKER, script.into()),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Returns a file of the page; `None` if there is none, or only in another version.
pub(super) fn file(version: &str, name: &str) -> Option<Response> {
    let bytes = read(name).filter(|_| version == *VERSION && name != INDEX)?;
    let mut response = respond(name, bytes.into());
    if development_folder().is_none() {
        response.extensions_mut().insert(CacheForever);
    }
    Some(response)
}

fn respond(name: &str, body: Body) -> Response {
    (headers(name), body).into_response()
}

fn headers(name: &str) -> HeaderMap {
    let kind = match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("webmanifest") => "application/manifest+json",
        _ => "application/octet-stream",
    };
    let fixed: [(HeaderName, &'static str); 3] = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    fixed.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect()
}

/// Reads one of the files.
fn read(name: &str) -> Option<Bytes> {
    let asset = ASSETS.iter().find(|asset| asset.name == name)?;
    match development_folder() {
        Some(folder) => std::fs::read(folder.join(name)).ok().map(Bytes::from),
        None => Some(Bytes::from_static(asset.bytes)),
    }
}

#[cfg(debug_assertions)]
fn development_folder() -> Option<std::path::PathBuf> {
    std::env::var_os(FOLDER).map(Into::into)
}

#[cfg(not(debug_assertions))]
fn development_folder() -> Option<std::path::PathBuf> {
    None
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_page_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        let mut found: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut embedded: Vec<&str> = ASSETS.iter().map(|asset| asset.name).collect();
        found.sort_unstable();
        embedded.sort_unstable();
        assert_eq!(found, embedded);
    }

    #[test]
    fn page_needs_no_policy_exception() {
        for asset in ASSETS {
            let text = String::from_utf8_lossy(asset.bytes);
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                " style=\"",
                "onclick=\"",
            ] {
                assert!(!text.contains(forbidden), "{}: {forbidden}", asset.name);
            }
        }
    }
}
