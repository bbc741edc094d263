//! The structure of common Markdown, which the page of the web console shares.
#![expect(clippy::unwrap_used, reason = "a failed setup step panics and fails the test")]

use nerve_markdown::to_html;
use serde_json::Value;

/// Returns the HTML without attributes that are the same everywhere and line ends between elements.
fn normalized(html: &str) -> String {
    html.replace(" target=\"_blank\" rel=\"noopener noreferrer\"", "").replace(">\n", ">")
}

#[test]
fn documents_have_the_expected_structure() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("fixtures/cases.json")).unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let text = |name: &str| case[name].as_str().unwrap().to_string();
        assert_eq!(normalized(&to_html(&text("markdown"))), text("html"), "{}", text("name"));
    }
}

#[test]
fn elements_are_closed_in_order() {
    let parts = [
        "> ",
        "- ",
        "1. ",
        "*a",
        "**b",
        "_c",
        "[d](https://e",
        ")",
        "`f",
        "\n",
        "\n\n",
        "|g|h|\n|-|-|\n",
        "<i>",
    ];
    let mut seed = 7_u64;
    for _ in 0..500 {
        let mut text = String::new();
        for _ in 0..40 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(parts[(seed >> 33) as usize % parts.len()]);
        }
        assert_nested(&text, &to_html(&text));
    }
}

/// Asserts that each end tag belongs to the last element that is open.
fn assert_nested(text: &str, html: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in html.split('<').skip(1).map(|part| part.split(['>', ' ']).next().unwrap()) {
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{text:?}\n{html}"),
            None if matches!(tag, "br" | "hr") => {}
            None => open.push(tag),
        }
    }
    assert!(open.is_empty(), "{text:?}\n{html}");
}

#[test]
fn nothing_of_hostile_text_runs_or_loads() {
    let hostile = "<img src=x onerror=alert(1)> <svg onload=x> ![p](https://x/\"onerror=y) [a](https://x/'><script>) \
                   <iframe srcdoc='x'>\n\n```\"><script>\n</code></pre><script>x</script>\n```\n\n<style>@import url(x)</style>\n";
    let html = to_html(hostile);
    let tags: Vec<&str> = html.split('<').skip(1).map(|part| part.split('>').next().unwrap()).collect();
    let allowed = ["a", "/a", "p", "/p", "span", "/span", "pre", "/pre", "code", "/code"];
    for tag in tags {
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(allowed.contains(&name), "{tag} in {html}");
        for attribute in attributes.split("\" ").filter(|attribute| !attribute.is_empty()) {
            let name = attribute.split('=').next().unwrap();
            assert!(["href", "target", "rel", "class"].contains(&name), "{tag} in {html}");
        }
    }
}
