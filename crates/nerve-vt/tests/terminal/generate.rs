//! Generators of random terminal output: valid sequences, text of all kinds, and noise.

use proptest::prelude::*;

/// Generates any bytes, including ones that no program would write.
pub(crate) fn output() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(piece(), 0..60).prop_map(|pieces| pieces.concat())
}

/// Generates the output of a well-behaved program: without noise, truncated sequences and frames.
pub(crate) fn orderly_output() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![4 => text(), 4 => csi(), 1 => escape(), 1 => osc()], 0..60)
        .prop_map(|pieces| pieces.concat().into_bytes())
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => text().prop_map(String::into_bytes),
        5 => csi().prop_map(String::into_bytes),
        1 => escape().prop_map(String::into_bytes),
        1 => osc().prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..12),
        1 => Just(b"\x1b[?2026h".to_vec()),
        1 => Just(b"\x1b[?2026l".to_vec()),
        1 => "\x1b(\\[|\\]|P|_)[ -~“]{0,8}".prop_map(String::into_bytes),
        1 => ignored_sequence(),
    ]
}

/// Generates a sequence that the engine's parser ignores and text that is longer than any of its buffers.
fn ignored_sequence() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        4 => "[ -~]{60}|[ а-я]{40}|[一-龥]{20}|[😀-😎 ]{15}".prop_map(String::into_bytes),
        1 => prop::sample::select(vec![&b"\xd0"[..], b"\xe2\x82", b"\x9c", b"\x18", b"\x7f", b"\r\n"])
            .prop_map(<[u8]>::to_vec),
    ];
    let end = prop::sample::select(vec!["m", "m\x18", "m\x1a", "\x18", "m\x1b[31m"]);
    (end, prop::collection::vec(text, 6..12))
        .prop_map(|(end, text)| [b"\x1b[1?", end.as_bytes(), &text.concat()].concat())
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ -~]{0,30}",
        2 => prop::sample::select(vec![
            "\r\n", "\n", "\r", "\t", "\x08", "日本語", "😀", "e\u{301}", "👩\u{200d}👩\u{200d}👧", "👍🏽", "❤\u{fe0f}", "🇩🇪", "\u{301}",
            "1\u{fe0f}\u{20e3}", "한", "─────────", "\u{200d}", "\u{fe0f}",
        ]).prop_map(str::to_string),
        1 => "\\PC{0,6}",
    ]
}

fn csi() -> impl Strategy<Value = String> {
    let number = || prop_oneof![6 => 0u16..14, 1 => any::<u16>()];
    let mode = prop::sample::select(vec![
        1u16, 6, 7, 9, 12, 25, 47, 66, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1047, 1048, 1049, 2004,
    ]);
    let last = prop::sample::select("ABCDEFGHIJKLMPSTXZ@abdefgmru`s".chars().collect::<Vec<_>>());
    prop_oneof![
        8 => (prop::collection::vec(number(), 0..4), last).prop_map(|(numbers, last)| {
            let numbers: Vec<String> = numbers.iter().map(u16::to_string).collect();
            format!("\x1b[{}{last}", numbers.join(";"))
        }),
        2 => (mode, any::<bool>()).prop_map(|(mode, on)| format!("\x1b[?{mode}{}", if on { 'h' } else { 'l' })),
        1 => (prop::sample::select(vec![4, 20]), any::<bool>()).prop_map(|(mode, on)| format!("\x1b[{mode}{}", if on { 'h' } else { 'l' })),
        2 => (0u16..256, any::<(u8, u8, u8)>(), 0u16..6).prop_map(|(n, (r, g, b), line)| format!("\x1b[38;5;{n};48;2;{r};{g};{b};4:{line}m")),
        1 => Just("\x1b[5m".to_string()),
        1 => (0u16..40, 0u16..40).prop_map(|(a, b)| format!("\x1b[>{a}u\x1b[={b};2u")),
        1 => Just("\x1b[<u".to_string()),
        1 => Just("\x1b[m".to_string()),
        1 => Just("\x1b[!p".to_string()),
    ]
}

fn escape() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "\x1b7", "\x1b8", "\x1bD", "\x1bE", "\x1bM", "\x1bH", "\x1b(0", "\x1b(B", "\x1b)0", "\x0e", "\x0f",
        "\x1b=", "\x1b>", "\x1b#8", "\x1bc",
    ])
    .prop_map(str::to_string)
}

fn osc() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~é😀]{0,12}".prop_map(|title| format!("\x1b]2;{title}\x07")),
        "[a-z/]{0,9}".prop_map(|uri| format!("\x1b]8;;{uri}\x1b\\")),
        "[A-D]".prop_map(|kind| format!("\x1b]133;{kind}\x07")),
        (0u16..256).prop_map(|n| format!("\x1b]4;{n};#102030\x07")),
        Just("\x1b[22t".to_string()),
        Just("\x1b[23t".to_string()),
    ]
}
