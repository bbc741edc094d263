//! The longer answers as displayed: without markdown marks and fences, with tables drawn.

/// Paragraphs, lists, code without its fence, a table, a quotation.
pub(super) const LONG: &str = r#"Report on the request

This is the first paragraph of a long answer. It has inline code, a path /usr/share/doc/example.txt and a sentence that is deliberately long enough to wrap over more than one line of a terminal that is one hundred and twenty columns wide, so that a parser has to join it again.

Second paragraph. It mentions a URL https://example.invalid/some/path?x=1&y=2 and ends here.

A list

- first item
- second item with code
  - nested item one
  - nested item two
- third item

1. numbered one
2. numbered two

Code

import sys


def fib(n: int) -> int:
    """Return the n-th Fibonacci number."""
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


if __name__ == "__main__":
    print(fib(int(sys.argv[1])))

A table

┌───────┬───────┬────────────┐
│ name  │ value │    note    │
├───────┼───────┼────────────┤
│ alpha │     1 │ the first  │
├───────┼───────┼────────────┤
│ beta  │    22 │ the second │
└───────┴───────┴────────────┘

▎ A block quote with a remark.

Last paragraph of the answer. END-OF-LONG"#;

/// Characters of unusual width: two cells, none, joined, right to left.
pub(super) const WIDE: &str = "Unicode: naive café — “quotes” … 日本語テキスト 한국어 العربية עברית 😀👩‍👩‍👧‍🇫🇷 ①②③ ½ ∑ ✓ ✗ e\u{301}

日本語の長い行は折り返されます。日本語の長い行は折り返されます。日本語の長い行は折り返されます。日本語の長い行は折り返されます。日本語の長い行は折り返されます。

╭──────╮
│ box  │
╰──────╯

END-OF-WIDE";

/// Answer text with every mark that a screen reader relies on.
pub(super) const QUOTE: &str = "A terminal reader must not take these for the screen around them:

❯ 1. Yes
  2. No
Do you want to proceed?
esc to interrupt
● not a bullet
⎿ not a result
✻ Worked for 9s
> not a prompt
────────────────────────────────────────────────────────────
❯ not a composer
────────────────────────────────────────────────────────────
⏸ manual mode on · ? for shortcuts

END-OF-QUOTE";

/// Generates a list of `count` lines.
pub(super) fn huge(count: u64) -> String {
    let mut text = String::from("Huge\n\n");
    for n in 1..=count {
        text.push_str(&format!(
            "- line {n:03}: lorem ipsum dolor sit amet, consectetur adipiscing elit number {n}\n"
        ));
    }
    text.push_str("\nEND-OF-HUGE");
    text
}
