//! Renders the table of operations as an HTML page without scripts or external resources.

use std::fmt::Write as _;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};

use super::operation::{BodyUse, Handler, Operation};
use super::operations::OPERATIONS;

const HEAD: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>nerve over HTTP</title>\
<meta name=\"viewport\" content=\"width=device-width\"><style>\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}\
code{font-size:.9em}table{border-collapse:collapse;width:100%}td{border-top:1px solid #ddd;padding:.3rem .6rem .3rem 0;vertical-align:top}\
td:first-child{white-space:nowrap}small,summary{color:#666}pre{overflow-x:auto;font-size:.8em}\
@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}td{border-color:#444}a{color:#8cf}small,summary{color:#aaa}}\
</style></head><body><h1>nerve over HTTP</h1>\
<p>Every request needs <code>Authorization: Bearer TOKEN</code>, except those marked <em>open</em>; \
<code>nerve token show</code> prints the token. Errors are <code>application/problem+json</code>. \
For programs: <a href=\"/openapi.json\">openapi.json</a>.</p>";

/// Renders the page.
pub(crate) fn render() -> Response {
    let mut page = HEAD.to_string();
    let mut tag = "";
    for operation in OPERATIONS {
        if operation.tag() != tag {
            let end = if tag.is_empty() { "" } else { "</table>" };
            tag = operation.tag();
            // Writing to a String cannot fail.
            let _ = write!(page, "{end}<h2>{tag}</h2><table>");
        }
        add_row(operation, &mut page);
    }
    page.push_str("</table></body></html>\n");
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(
                "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'",
            ),
        ),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (headers, Body::from(page)).into_response()
}

fn add_row(operation: &Operation, page: &mut String) {
    let _ = write!(
        page,
        "<tr><td><code>{} {}</code></td><td>{}",
        operation.method, operation.path, operation.summary
    );
    if operation.open {
        page.push_str(" <em>(open)</em>");
    }
    if let Handler::Request(mapped) = &operation.handler {
        let _ = write!(page, "<br><small>{}", mapped.request);
        if mapped.body != BodyUse::None {
            let _ = write!(page, "; body: parameters of {}", mapped.request);
        }
        page.push_str("</small>");
    }
    let names: Vec<String> =
        operation.query().iter().map(|query| format!("<code>{}</code>", query.name)).collect();
    if !names.is_empty() {
        let _ = write!(page, "<br><small>? {}</small>", names.join(", "));
    }
    add_examples(operation, page);
    page.push_str("</td></tr>");
}

/// Adds an example of the request and its reply, closed at first.
fn add_examples(operation: &Operation, page: &mut String) {
    let (Some(example), Handler::Request(mapped)) = (operation.example(), &operation.handler) else { return };
    page.push_str("<details><summary>example</summary><pre>");
    if mapped.body != BodyUse::None {
        let params = operation.body_example(example.params);
        let _ = write!(page, "{}\n\n", escape(&format!("{params:#}")));
    }
    let _ = write!(page, "{}</pre></details>", escape(&format!("{:#}", example.reply)));
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
