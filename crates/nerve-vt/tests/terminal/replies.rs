//! Queries and their replies.

use nerve_types::Size;
use nerve_vt::terminal::TerminalState;

use crate::{feed, replies, terminal_with};

#[test]
fn identity_queries_are_answered() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(replies("\x1b[c"), "\x1b[?62;22c");
    assert_eq!(replies("\x1b[0c\x1bZ"), "\x1b[?62;22c\x1b[?62;22c");
    assert!(replies("\x1b[>c").starts_with("\x1b[>1;"));
    assert_eq!(replies("\x1b[>q"), format!("\x1bP>|nerve({version})\x1b\\"));
    assert_eq!(replies("\x1b[>0q"), format!("\x1bP>|nerve({version})\x1b\\"));
}

#[test]
fn status_and_cursor_queries_are_answered() {
    assert_eq!(replies("\x1b[5n"), "\x1b[0n");
    assert_eq!(replies("\x1b[7;9H\x1b[6n"), "\x1b[7;9R");
    assert_eq!(replies("\x1b[7;9H\x1b[?6n"), "\x1b[?7;9R");
    assert_eq!(replies("\x1b[5;20r\x1b[?6h\x1b[2;3H\x1b[6n"), "\x1b[2;3R");
    assert_eq!(replies("\x1b[?996n"), "\x1b[?997;1n");
}

#[test]
fn modes_are_reported() {
    assert_eq!(replies("\x1b[?2026$p"), "\x1b[?2026;2$y");
    assert_eq!(replies("\x1b[?2026h\x1b[?2026$p"), "\x1b[?2026;1$y");
    assert_eq!(replies("\x1b[?2027$p"), "\x1b[?2027;3$y");
    assert_eq!(replies("\x1b[?4711$p"), "\x1b[?4711;0$y");
    assert_eq!(replies("\x1b[4$p\x1b[4h\x1b[4$p\x1b[99$p"), "\x1b[4;2$y\x1b[4;1$y\x1b[99;0$y");
    for mode in [1, 5, 12, 66, 9, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 2004, 47, 1047, 1049, 6] {
        let expected = format!("\x1b[?{mode};2$y\x1b[?{mode};1$y\x1b[?{mode};2$y");
        assert_eq!(
            replies(&format!("\x1b[?{mode}$p\x1b[?{mode}h\x1b[?{mode}$p\x1b[?{mode}l\x1b[?{mode}$p")),
            expected
        );
    }
    for mode in [7, 25, 1007] {
        assert_eq!(
            replies(&format!("\x1b[?{mode}$p\x1b[?{mode}l\x1b[?{mode}$p")),
            format!("\x1b[?{mode};1$y\x1b[?{mode};2$y")
        );
    }
}

#[test]
fn kitty_keyboard_flags() {
    assert_eq!(replies("\x1b[?u"), "\x1b[?0u");
    assert_eq!(
        replies("\x1b[>1u\x1b[?u\x1b[>31u\x1b[?u\x1b[<u\x1b[?u\x1b[<9u\x1b[?u"),
        "\x1b[?1u\x1b[?31u\x1b[?1u\x1b[?0u"
    );
    assert_eq!(replies("\x1b[=5;1u\x1b[=2;2u\x1b[?u\x1b[=4;3u\x1b[?u"), "\x1b[?7u\x1b[?3u");
}

#[test]
fn each_screen_has_its_own_kitty_flags() {
    let queries = "\x1b[>1u\x1b[?1049h\x1b[?u\x1b[>3u\x1b[?u\x1b[?1049l\x1b[?u";
    assert_eq!(replies(queries), "\x1b[?0u\x1b[?3u\x1b[?1u");
}

#[test]
fn kitty_push_flood_is_bounded() {
    let mut terminal = terminal_with(80, 24, "\x1b[>1u".repeat(10_000));
    feed(&mut terminal, "\x1b[?1049h".to_string() + &"\x1b[>3u".repeat(10_000));
    assert_eq!(terminal.modes().kitty_keyboard, 3);
}

#[test]
fn color_queries_are_answered() {
    assert_eq!(replies("\x1b]10;?\x07"), "\x1b]10;rgb:dddd/dddd/dddd\x07");
    assert_eq!(replies("\x1b]11;?\x1b\\"), "\x1b]11;rgb:1111/1111/1111\x1b\\");
    assert_eq!(replies("\x1b]10;?;?\x07"), "\x1b]10;rgb:dddd/dddd/dddd\x07\x1b]11;rgb:1111/1111/1111\x07");
    assert_eq!(replies("\x1b]4;1;?\x07"), "\x1b]4;1;rgb:cdcd/0000/0000\x07");
    assert_eq!(
        replies("\x1b]4;1;#010203;2;rgb:ff/00/ff\x07\x1b]4;1;?;2;?\x07"),
        "\x1b]4;1;rgb:0101/0202/0303\x07\x1b]4;2;rgb:ffff/0000/ffff\x07"
    );
    assert_eq!(
        replies("\x1b]12;#ffffff\x07\x1b]12;?\x07\x1b]112\x07\x1b]12;?\x07"),
        "\x1b]12;rgb:ffff/ffff/ffff\x07\x1b]12;rgb:dddd/dddd/dddd\x07"
    );
    assert_eq!(replies("\x1b]4;1;#010203\x07\x1b]104\x07\x1b]4;1;?\x07"), "\x1b]4;1;rgb:cdcd/0000/0000\x07");
}

#[test]
fn size_queries_are_answered() {
    assert_eq!(replies("\x1b[14t\x1b[16t\x1b[18t"), "\x1b[4;384;640t\x1b[6;16;8t\x1b[8;24;80t");
}

#[test]
fn capability_queries_are_rejected() {
    assert_eq!(replies("\x1bP+q544e;436f\x1b\\"), "\x1bP0+r544e;436f\x1b\\");
    assert_eq!(replies("\x1bP$qm\x1b\\"), "\x1bP0$r\x1b\\");
    assert_eq!(replies("\x1bP+q\x1b[31m"), "\x1bP0+r\x1b\\");
}

#[test]
fn clipboard_is_never_read() {
    assert_eq!(replies("\x1b]52;c;aGk=\x07\x1b]52;c;?\x07"), "");
}

#[test]
fn cancelled_query_gets_no_reply() {
    assert_eq!(replies("\x1b]11;?\x18"), "");
}

#[test]
fn replies_are_bounded() {
    let mut terminal = TerminalState::new(Size::new(80, 24));
    let changes = feed(&mut terminal, "\x1b[c".repeat(100_000));
    assert!(changes.replies.len() <= 64 * 1024, "{}", changes.replies.len());
    assert_eq!(feed(&mut terminal, "\x1b[5n").replies, b"\x1b[0n");
}
