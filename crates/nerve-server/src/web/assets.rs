//! The files of the page, which are part of the program.

use std::io::Write;
use std::sync::{LazyLock, OnceLock};

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::CacheForever;
use crate::access::secret;

/// Content security policy: everything is loaded from this server, scripts and styles only from files. Text of an
/// agent that reaches the page cannot run, load or send anything.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
    manifest-src 'self'; worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
/// Placeholder in the page for the version of the assets.
const VERSION_PLACEHOLDER: &str = "{{version}}";
/// Placeholder in the page for links that load all modules at once: a browser finds them one layer of imports after another.
const MODULES_PLACEHOLDER: &str = "{{modules}}";
/// Digits of the version.
const VERSION_DIGITS: usize = 16;
/// The page itself.
const INDEX: &str = "index.html";
/// The module that the page runs.
const MAIN: &str = "main.js";
/// The script that shows notifications while the page is closed. Its path decides which pages it serves, so it is not versioned.
const SERVICE_WORKER: &str = "service_worker.js";
/// Folder to read the files from instead, while the page is developed.
#[cfg(debug_assertions)]
const FOLDER: &str = "NERVE_WEB_DIR";

/// Quality of the compression, which happens once per file. Higher ones take many times longer for a few percent.
const BROTLI_QUALITY: i32 = 9;

/// A file of the page.
struct Asset {
    name: &'static str,
    bytes: &'static [u8],
    /// Compressed when a browser first needs it.
    brotli: OnceLock<Bytes>,
}

impl Asset {
    fn brotli(&self) -> Bytes {
        let compress = || {
            let params = brotli::enc::BrotliEncoderParams { quality: BROTLI_QUALITY, ..Default::default() };
            let mut writer = brotli::CompressorWriter::with_params(Vec::new(), 4096, &params);
            // Writing to memory cannot fail.
            let _ = writer.write_all(self.bytes);
            Bytes::from(writer.into_inner())
        };
        self.brotli.get_or_init(compress).clone()
    }
}

macro_rules! assets {
    ($($name:literal,)*) => {
        static ASSETS: [Asset; [$($name),*].len()] = [$(Asset {
            name: $name,
            bytes: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/web/", $name)),
            brotli: OnceLock::new(),
        },)*];
    };
}

assets![
    "api.js",
    "branch_form.js",
    "chat_tab.js",
    "click_guard.js",
    "combined_node_store.js",
    "confirmation.js",
    "connection.js",
    "dialog_answer.js",
    "dialog_card.js",
    "dom.js",
    "drafts.js",
    "evidence_panel.js",
    "fetch_loop.js",
    "follow_mode.js",
    "gate_card.js",
    "icon.png",
    "icon.svg",
    "index.html",
    "key_row.js",
    "latest_request.js",
    "live_activity.js",
    "login_view.js",
    "long_text.js",
    "machine_list.js",
    "machine_store.js",
    "main.js",
    "manifest.webmanifest",
    "markdown.js",
    "moment_list.js",
    "new_node_form.js",
    "node_actions.js",
    "node_card.js",
    "node_list_view.js",
    "node_store.js",
    "node_summary.js",
    "node_view.js",
    "notification_switch.js",
    "output_buffer.js",
    "plan_layout.js",
    "plan_picture.js",
    "playback_controls.js",
    "prompt_form.js",
    "queue_list.js",
    "recording_player.js",
    "recording_reader.js",
    "recording_view.js",
    "retry.js",
    "route.js",
    "run_list_view.js",
    "run_state.js",
    "run_store.js",
    "run_summary.js",
    "run_view.js",
    "scripted_styles.js",
    "screen_tab.js",
    "search_view.js",
    "service_worker.js",
    "shell.js",
    "step_list.js",
    "style.css",
    "tab_list.js",
    "terminal_connection.js",
    "terminal_screen.js",
    "terminal_tab.js",
    "time.js",
    "timeline_bar.js",
    "timeline_loader.js",
    "timeline_tab.js",
    "transcript_loader.js",
    "turn_card.js",
    "vendor/addon-unicode-graphemes.LICENSE.txt",
    "vendor/addon-unicode-graphemes.mjs",
    "vendor/addon-web-links.LICENSE.txt",
    "vendor/addon-web-links.mjs",
    "vendor/marked.LICENSE.txt",
    "vendor/marked.esm.js",
    "vendor/xterm.LICENSE.txt",
    "vendor/xterm.css",
    "vendor/xterm.mjs",
];

/// The beginning of the SHA-256 of all files. Their paths contain it, so that browsers may keep them forever.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let contents: Vec<u8> =
        ASSETS.iter().flat_map(|asset| [asset.name.as_bytes(), asset.bytes].concat()).collect();
    secret::sha256_hex(&contents).chars().take(VERSION_DIGITS).collect()
});

/// The page, as it is sent.
static PAGE: LazyLock<Option<Bytes>> = LazyLock::new(make_page);

/// Returns the page.
pub(super) fn index() -> Response {
    let page = if development_folder().is_some() { make_page() } else { PAGE.clone() };
    page.map_or_else(|| StatusCode::NOT_FOUND.into_response(), |page| respond(INDEX, page.into()))
}

fn make_page() -> Option<Bytes> {
    let (_, page) = read(INDEX)?;
    let link = |name| format!("<link rel=\"modulepreload\" href=\"/web/{VERSION_PLACEHOLDER}/{name}\">");
    let links: Vec<String> = modules_of(MAIN).into_iter().map(link).collect();
    let page = String::from_utf8_lossy(&page).replace(MODULES_PLACEHOLDER, &links.join("\n"));
    Some(page.replace(VERSION_PLACEHOLDER, &VERSION).into())
}

/// Returns a module with all modules that it imports, directly or not, except those that it imports while it runs.
fn modules_of(main: &str) -> Vec<String> {
    let mut modules = vec![main.to_string()];
    let mut position = 0;
    while let Some(name) = modules.get(position) {
        let text = read(name).map(|(_, bytes)| String::from_utf8_lossy(&bytes).into_owned());
        for import in text.as_deref().unwrap_or_default().lines().filter_map(imported_name) {
            if !modules.iter().any(|module| module == import) {
                modules.push(import.to_string());
            }
        }
        position += 1;
    }
    modules
}

/// Returns the name of the module that a line imports. The page's own modules have each import in one line.
fn imported_name(line: &str) -> Option<&str> {
    line.strip_prefix("import ")?.split_once("\"./")?.1.strip_suffix("\";")
}

/// Returns the service worker.
pub(super) fn service_worker() -> Response {
    match read(SERVICE_WORKER) {
        Some((_, script)) => respond(SERVICE_WORKER, script.into()),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Returns a file of the page, compressed if the browser accepts that; `None` if there is none, or only in another version.
pub(super) fn file(version: &str, name: &str, request: &HeaderMap) -> Option<Response> {
    let (asset, bytes) = read(name).filter(|_| version == *VERSION && name != INDEX)?;
    let is_compressed = development_folder().is_none() && accepts_brotli(request);
    let mut response = respond(name, if is_compressed { asset.brotli() } else { bytes }.into());
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if is_compressed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("br"));
    }
    if development_folder().is_none() {
        response.extensions_mut().insert(CacheForever);
    }
    Some(response)
}

/// Returns true if the client accepts a response that is compressed with Brotli (RFC 9110 §12.5.3).
fn accepts_brotli(request: &HeaderMap) -> bool {
    let lines = request.get_all(header::ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse::<f32>);
        name.trim().eq_ignore_ascii_case("br") && weight.is_ok_and(|weight| weight > 0.0)
    })
}

fn respond(name: &str, body: Body) -> Response {
    (headers(name), body).into_response()
}

fn headers(name: &str) -> HeaderMap {
    let kind = match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("txt") => "text/plain; charset=utf-8",
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
fn read(name: &str) -> Option<(&'static Asset, Bytes)> {
    let asset = ASSETS.iter().find(|asset| asset.name == name)?;
    let bytes = match development_folder() {
        Some(folder) => std::fs::read(folder.join(name)).ok()?.into(),
        None => Bytes::from_static(asset.bytes),
    };
    Some((asset, bytes))
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
        let names = |folder: &Path| {
            let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
            let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
            files.map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        let vendored = names(&folder.join("vendor")).into_iter().map(|name| format!("vendor/{name}"));
        // The list of origins is for the check of the files.
        let vendored = vendored.filter(|name| name != "vendor/vendor.json");
        let mut found: Vec<String> = names(&folder).into_iter().chain(vendored).collect();
        let mut embedded: Vec<&str> = ASSETS.iter().map(|asset| asset.name).collect();
        found.sort_unstable();
        embedded.sort_unstable();
        assert_eq!(found, embedded);
    }

    #[test]
    fn page_preloads_every_module_that_it_imports() {
        let modules = modules_of(MAIN);
        for name in ["main.js", "shell.js", "chat_tab.js", "vendor/marked.esm.js"] {
            assert!(modules.iter().any(|module| module == name), "{name}: {modules:?}");
        }
        // These are loaded when the page is shown.
        for name in
            ["terminal_tab.js", "screen_tab.js", "vendor/xterm.mjs", "timeline_tab.js", "service_worker.js"]
        {
            assert!(modules.iter().all(|module| module != name), "{name}");
        }
        assert!(modules.iter().all(|name| read(name).is_some()), "{modules:?}");
        let page = make_page().unwrap();
        let page = std::str::from_utf8(&page).unwrap();
        assert_eq!(page.matches("rel=\"modulepreload\"").count(), modules.len());
        assert!(!page.contains("{{"), "{page}");
    }

    #[test]
    fn compressed_page_is_small_and_complete() {
        let mut total = 0;
        for asset in &ASSETS {
            let compressed = asset.brotli();
            total += compressed.len();
            let mut whole = Vec::new();
            std::io::copy(&mut brotli::Decompressor::new(compressed.as_ref(), 4096), &mut whole).unwrap();
            assert!(whole == asset.bytes, "{}", asset.name);
        }
        assert!(total < 300 << 10, "{total} bytes");
    }

    #[test]
    fn brotli_needs_consent() {
        let accepts = |line: &'static str| {
            accepts_brotli(&[(header::ACCEPT_ENCODING, HeaderValue::from_static(line))].into_iter().collect())
        };
        assert!(
            accepts("gzip, deflate, br, zstd") && accepts("br;q=0.5") && !accepts_brotli(&HeaderMap::new())
        );
        for refused in ["gzip", "br;q=0", "br;q=x", "brotli", ""] {
            assert!(!accepts(refused), "{refused}");
        }
    }

    #[test]
    fn page_needs_no_policy_exception() {
        for asset in ASSETS.iter().filter(|asset| !asset.name.starts_with("vendor/")) {
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
