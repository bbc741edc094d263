//! What a program says to its terminal beside letters and colours, in front of the viewer: links, underlines, texts for the clipboard,
//! notifications.

use std::fs;

use nerve_record::ahr::Body;
use nerve_term::event::Size;
use nerve_term::terminal::line::Underline;
use nerve_testkit::wait_until;

use crate::harness::Home;
use crate::recordings::record;
use crate::tty::{LIMIT, Seat};

const SIZE: Size = Size { cols: 70, rows: 12 };
/// The prefix, as terminals with the kitty keyboard protocol send it.
const PREFIX: &str = "\x1b[93;5u";
/// Says all of it at each line that is typed, and its number.
const SAYS: &str = r#"stty -echo; echo up; while read n; do
printf '\033]8;id=7;https://example.org/\033\\a link\033]8;;\033\\ and \033[4:3;58;5;9mcurls\033[m\r\n'
printf '\033]52;c;aGVsbG8=\007\033]52;c;?\007\033]9;it is done\007\033]777;notify;T;b\007\033]9;4;1;42\007\007'
echo "said $n"; done"#;
const COPIED: &str = "\x1b]52;c;aGVsbG8=\x1b\\";
const LINK: &str = "\x1b]8;id=7;https://example.org/\x1b\\a link\x1b]8;;\x1b\\";

fn written(seat: &Seat) -> String {
    String::from_utf8_lossy(&seat.written.lock().unwrap()).into_owned()
}

/// Waits until that was written.
#[track_caller]
fn hears(seat: &Seat, words: &str) {
    assert!(wait_until(LIMIT, || written(seat).contains(words)), "no {words:?} in {:?}", written(seat));
}

#[test]
fn osc_sequences_reach_the_outer_terminal() {
    let home = Home::new();
    let mut seat = Seat::new(&home, SIZE, &["record", "--", "sh", "-c", SAYS]);
    seat.sees("up");
    seat.types("1\r");
    seat.sees("said 1");
    for words in
        [COPIED, LINK, "\x1b]9;it is done\x1b\\", "\x1b]777;notify;T;b\x1b\\", "\x1b]9;4;1;42\x1b\\", "\x07"]
    {
        hears(&seat, words);
    }
    assert!(!written(&seat).contains("52;c;?"), "{:?}", written(&seat));
    let form = || {
        let shown = seat.shown.lock().unwrap().screen();
        let row = shown.rows.iter().find(|row| row.text.starts_with("a link and curls"))?;
        let decorations: Vec<_> = row.decorations.iter().map(|d| (d.start, d.len, d.underline)).collect();
        Some((decorations, row.links[0].uri.clone()))
    };
    let wanted =
        (vec![(0, 6, Underline::None), (11, 5, Underline::Curl)], "https://example.org/".to_string());
    assert_eq!(form(), Some(wanted));
    // The program's end is at the terminal's: nothing of it stays there.
    seat.types("\x04");
    assert_eq!(seat.left(), Some(0));
    let all = written(&seat);
    let (_, end) = all.rsplit_once("\x1b]9;4;0\x1b\\").unwrap();
    assert!(end.starts_with("\x1b]8;;\x1b\\"), "{end:?}");
}

#[test]
fn osc_sequences_of_short_program_are_passed_on() {
    let home = Home::new();
    let says = r"printf '\033]52;c;aGVsbG8=\007\033]9;it is done\007\007'";
    let mut seat = Seat::new(&home, SIZE, &["record", "--", "sh", "-c", says]);
    assert_eq!(seat.left(), Some(0));
    let all = written(&seat);
    let (viewer, _) = all.split_once("\x1b[?1049l").unwrap();
    assert!(viewer.contains(COPIED) && viewer.contains("\x07\x1b]9;it is done\x1b\\"), "{all:?}");
}

#[test]
fn read_only_or_configured_viewer_keeps_clipboard() {
    let home = Home::with_shell();
    let name = "[agent.record]\nclipboard = false\n";
    let config = home.ok(&["config", "path"]);
    let config = std::path::Path::new(config.trim());
    home.ok(&["server", "node", "create", "says", "-c", &format!("sh -c '{}'", SAYS.replace('\'', "'\\''"))]);
    let mut looks = Seat::new(&home, SIZE, &["attach", "says", "--read-only"]);
    looks.sees("up");
    let mut types = Seat::new(&home, SIZE, &["attach", "says"]);
    types.sees("up");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(config, name).unwrap();
    let mut keeps = Seat::new(&home, SIZE, &["attach", "says"]);
    keeps.sees("up");
    types.types("1\r");
    for seat in [&looks, &types, &keeps] {
        seat.sees("said 1");
        hears(seat, "\x1b]9;it is done\x1b\\");
        hears(seat, LINK);
    }
    hears(&types, COPIED);
    // What was before somebody comes is shown, and not said again; how far the program is, is.
    let mut late = Seat::new(&home, SIZE, &["attach", "says"]);
    late.sees("said 1");
    hears(&late, "\x1b]9;4;1;42\x1b\\");
    for seat in [&mut looks, &mut types, &mut keeps, &mut late] {
        seat.types(&format!("{PREFIX}d"));
        assert_eq!(seat.left(), Some(0));
    }
    for (seat, has_copied) in [(&looks, false), (&types, true), (&keeps, false), (&late, false)] {
        assert_eq!(written(seat).contains("\x1b]52;"), has_copied, "{:?}", written(seat));
    }
    assert!(!written(&late).contains("it is done"), "{:?}", written(&late));
}

#[test]
fn too_long_clipboard_text_is_reported() {
    let home = Home::new();
    let copies = r"stty -echo; echo up; read n; printf '\033]52;c;'; head -c 120000 /dev/zero | tr '\0' a; printf '\007'; echo copied; read n";
    let mut seat = Seat::new(&home, Size::new(100, 12), &["record", "--", "sh", "-c", copies]);
    seat.sees("up");
    seat.types("\r");
    seat.sees("has copied 90 kB");
    seat.types("\r");
    assert_eq!(seat.left(), Some(0));
    assert!(!written(&seat).contains("\x1b]52;"));
}

#[test]
fn recording_shows_links_and_sends_no_osc() {
    let home = Home::new();
    let path = home.hermetic.work().join("said.ahr");
    let text = "\x1b]8;id=7;https://example.org/\x1b\\a link\x1b]8;;\x1b\\ \x1b[4:2mtwice\x1b[m\r\n\
                \x1b]52;c;aGVsbG8=\x07\x1b]9;it is done\x07\x1b]9;4;1;42\x07\x07";
    let data = Body::Data { off: 0, bytes: text.as_bytes() };
    record(&path, &[(0, Body::Resize { cols: 40, rows: 4 }), (1, data)]);
    let mut seat = Seat::new(&home, SIZE, &["view", path.to_str().unwrap()]);
    seat.sees("branch from the end");
    seat.types("\x1b");
    seat.sees("a link twice");
    hears(&seat, LINK);
    hears(&seat, "\x1b[4:2mtwice");
    seat.types("q");
    assert_eq!(seat.left(), Some(0));
    let all = written(&seat);
    assert!(!all.contains("\x1b]52;") && !all.contains("\x1b]9;") && !all.contains("52;c"), "{all:?}");
}
