//! The longer answers of the scripted model.

/// Markdown of every kind.
pub(super) const LONG: &str = r#"# Report on the request

This is the first paragraph of a long answer. It has **bold words**, *italic words*, some `inline code` and a sentence that is deliberately long enough to wrap over more than one line of a terminal that is one hundred and twenty columns wide, so that a parser has to join it again.

Second paragraph. It mentions a path `/usr/share/doc/example.txt` and a URL https://example.invalid/some/path?x=1&y=2 and ends here.

## A list

- first item
- second item with `code`
  - nested item one
  - nested item two
- third item

1. numbered one
2. numbered two
3. numbered three

## Code

```python
import sys


def fib(n: int) -> int:
    """Return the n-th Fibonacci number."""
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


class Thing:
    def __init__(self, name):
        self.name = name

    def hello(self):
        print(f"hello {self.name}")  # a comment that is rather long, long enough to go past one hundred and twenty columns of text


if __name__ == "__main__":
    Thing(sys.argv[0]).hello()
```

## A table

| name  | value | note       |
|-------|------:|------------|
| alpha |     1 | the first  |
| beta  |    22 | the second |
| gamma |   333 | the third  |

> A block quote with a remark.

Last paragraph of the answer. END-OF-LONG"#;

/// Characters of unusual width, long words, and marks at the start of lines.
pub(super) const WIDE: &str = "Unicode: naive café — “quotes” … 日本語テキスト 한국어 العربية עברית 😀👩‍👩‍👧‍🇫🇷 ①②③ ½ ∑ ✓ ✗ e\u{301}

日本語の長い行は折り返されます。日本語の長い行は折り返されます。日本語の長い行は折り返されます。日本語の長い行は折り返されます。日本語の長い行は折り返されます。

xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx

```
Tabs:\ta\tb\tc
╭──────╮
│ box  │
╰──────╯
```

END-OF-WIDE";

/// Text with the marks that a screen parser relies on.
pub(super) const QUOTE: &str = "A terminal reader must not take these for the screen around them:

```
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
```

esc to interrupt

END-OF-QUOTE";

/// Generates a list of `count` lines.
pub(super) fn huge(count: u32) -> String {
    let mut text = String::from("# Huge\n\n");
    for n in 1..=count {
        text.push_str(&format!(
            "- line {n:03}: lorem ipsum dolor sit amet, consectetur adipiscing elit number {n}\n"
        ));
    }
    text.push_str("\nEND-OF-HUGE");
    text
}
