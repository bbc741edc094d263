//! Renders Markdown. The elements are closed in order, and only those that the renderer makes are there.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nerve_fuzz::text;
use nerve_markdown::to_html;

/// Elements of rendered Markdown.
const ELEMENTS: [&str; 23] = [
    "a",
    "blockquote",
    "code",
    "del",
    "div",
    "em",
    "h3",
    "h4",
    "h5",
    "h6",
    "li",
    "ol",
    "p",
    "pre",
    "span",
    "strong",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
];

fuzz_target!(|data: &[u8]| {
    let html = to_html(&text(data));
    let mut open = Vec::new();
    for tag in html.split('<').skip(1) {
        let name = tag.split(['>', ' ']).next().unwrap_or_default();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{html}"),
            None if matches!(name, "br" | "hr") => {}
            None => {
                assert!(ELEMENTS.contains(&name), "{html}");
                open.push(name);
            }
        }
    }
    assert!(open.is_empty(), "{html}");
});
