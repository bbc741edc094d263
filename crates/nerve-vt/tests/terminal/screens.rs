//! Screens: cells, styles, modes, alternate screen and alerts.

use nerve_types::{Size, TsNs};
use nerve_vt::screen::{Color, Link, MouseEncoding, MouseTracking, Style, StyleRun, Underline};
use nerve_vt::terminal::{
    Alert, Clipboard, LineIndex, Mark, MarkKind, Notification, Selections, TerminalState,
};

use crate::{all_lines, feed, screen_text, terminal_with};

#[test]
fn wrapped_text_marks_its_row() {
    let screen = terminal_with(10, 4, "0123456789abc\r\nnext").screen();
    assert_eq!(screen.text(), "0123456789\nabc\nnext");
    assert_eq!(screen.rows.iter().map(|row| row.wrapped).collect::<Vec<_>>(), [true, false, false, false]);
    assert_eq!((screen.cursor.row, screen.cursor.col), (2, 4));
}

#[test]
fn last_column_is_overwritten_without_autowrap() {
    assert_eq!(screen_text(&terminal_with(5, 2, "\x1b[?7l1234567\x1b[?7h8")), "12347\n8");
}

#[test]
fn style_runs_have_no_gaps() {
    let row = &terminal_with(20, 2, "ab\x1b[1;31mcd\x1b[0mef\x1b[48;2;1;2;3m  \x1b[m").screen().rows[0];
    let plain = Style::default();
    let red = Style { bold: true, fg: Color::Indexed(1), ..plain };
    let backed = Style { bg: Color::Rgb(1, 2, 3), ..plain };
    assert_eq!(row.text, "abcdef");
    let run = |start, len, style| StyleRun { start, len, style };
    assert_eq!(row.runs, [run(0, 2, plain), run(2, 2, red), run(4, 2, plain), run(6, 2, backed)]);
    assert_eq!(terminal_with(20, 2, "plain").screen().rows[0].runs, []);
}

#[test]
fn all_attributes_are_parsed() {
    let style = |codes: &str| terminal_with(20, 2, format!("\x1b[{codes}mx")).screen().rows[0].runs[0].style;
    assert!(style("1").bold && style("2").dim && style("3").italic && style("4").underline);
    assert!(style("7").inverse && style("8").hidden && style("9").strikeout && style("21").underline);
    assert!(style("4:3").underline && style("4:5").underline);
    assert!(style("5").blink && style("6").blink && !style("5;1;25").blink && !style("5;0;1").blink);
    assert_eq!(style("38;5;200").fg, Color::Indexed(200));
    assert_eq!(style("38:5:200").fg, Color::Indexed(200));
    assert_eq!(style("38:2::7:8:9").fg, Color::Rgb(7, 8, 9));
    assert_eq!(style("38:2:7:8:9").fg, Color::Rgb(7, 8, 9));
    assert_eq!(style("97").fg, Color::Indexed(15));
    assert_eq!(style("104").bg, Color::Indexed(12));
    // An incomplete colour consumes no other parameter.
    assert!(style("38;9;1").bold);
}

#[test]
fn modes_are_tracked() {
    let set = "\x1b[?1h\x1b=\x1b[?1004h\x1b[?1003h\x1b[?1006h\x1b[?2004h\x1b[>5u\x1b[?25l";
    let mut terminal = terminal_with(80, 24, set);
    let modes = terminal.modes();
    assert!(modes.application_cursor && modes.application_keypad && modes.focus_events);
    assert!(modes.bracketed_paste && !modes.alternate);
    assert_eq!((modes.mouse, modes.mouse_encoding), (Some(MouseTracking::Moves), MouseEncoding::Sgr));
    assert_eq!(modes.kitty_keyboard, 5);
    assert!(!terminal.screen().cursor.visible);
    feed(&mut terminal, "\x1b[!p");
    let modes = terminal.modes();
    assert!(!modes.application_cursor && !modes.application_keypad && terminal.screen().cursor.visible);
    feed(&mut terminal, "\x1bc");
    assert_eq!(terminal.modes(), Default::default());
}

#[test]
fn newline_mode_adds_carriage_return() {
    assert_eq!(screen_text(&terminal_with(9, 3, "ab\ncd\x1b[20h\nef")), "ab\n  cd\nef");
}

#[test]
fn insert_mode_shifts_the_rest() {
    assert_eq!(screen_text(&terminal_with(8, 1, "abcdef\r\x1b[4hXY\x1b[4lZ")), "XYZbcdef");
}

#[test]
fn origin_mode_counts_from_margin() {
    assert_eq!(
        screen_text(&terminal_with(9, 6, "\x1b[3;5r\x1b[?6h\x1b[1;1Hin\x1b[99;1Hend\x1b[?6l\x1b[1;1Htop")),
        "top\n\nin\n\nend"
    );
}

#[test]
fn soft_reset_resets_margins_and_rendition() {
    let terminal = terminal_with(9, 4, "\x1b[2;3r\x1b[4;1H\x1b[1m\x1b(0\x1b[!pqqq");
    assert_eq!(screen_text(&terminal), "\n\n\nqqq");
    assert_eq!(terminal.screen().rows[3].runs, []);
}

#[test]
fn line_drawing_is_translated() {
    assert_eq!(screen_text(&terminal_with(9, 2, "\x1b(0lqk\x1b(B lqk")), "┌─┐ lqk");
    assert_eq!(screen_text(&terminal_with(9, 2, "\x1b)0a\x0eqq\x0fq")), "a──q");
}

#[test]
fn tab_stops_move_the_cursor() {
    assert_eq!(screen_text(&terminal_with(30, 2, "a\tb\tc")), "a       b       c");
    assert_eq!(screen_text(&terminal_with(30, 2, "\x1b[3g\x1b[5G\x1bH\r\tx\x1b[Zy")), "    y");
    assert_eq!(screen_text(&terminal_with(30, 2, "\x1b[2Ix")), "                x");
}

#[test]
fn erase_and_shift_change_the_row() {
    assert_eq!(screen_text(&terminal_with(10, 1, "abcdefgh\x1b[4G\x1b[2X")), "abc  fgh");
    assert_eq!(screen_text(&terminal_with(10, 1, "abcdefgh\x1b[4G\x1b[2P")), "abcfgh");
    assert_eq!(screen_text(&terminal_with(10, 1, "abcdefgh\x1b[4G\x1b[2@")), "abc  defgh");
    assert_eq!(screen_text(&terminal_with(10, 1, "abcdefgh\x1b[4G\x1b[K")), "abc");
    assert_eq!(screen_text(&terminal_with(10, 1, "abcdefgh\x1b[4G\x1b[1K")), "    efgh");
    assert_eq!(screen_text(&terminal_with(10, 2, "abc\r\nabcdefgh\x1b[4G\x1b[1J")), "\n    efgh");
    assert_eq!(screen_text(&terminal_with(10, 3, "abc\r\nabcdefgh\r\nxyz\x1b[2;4H\x1b[J")), "abc\nabc");
    assert_eq!(screen_text(&terminal_with(10, 1, "abc\x1b[3b")), "abcccc");
}

#[test]
fn full_width_rule_survives_erase() {
    assert_eq!(screen_text(&terminal_with(5, 2, "-----\x1b[K")), "-----");
}

#[test]
fn rows_scroll_within_region() {
    let rows = "1\r\n2\r\n3\r\n4\r\n5";
    assert_eq!(screen_text(&terminal_with(9, 5, format!("{rows}\x1b[2;4r\x1b[2;1H\x1b[M"))), "1\n3\n4\n\n5");
    assert_eq!(screen_text(&terminal_with(9, 5, format!("{rows}\x1b[2;4r\x1b[2;1H\x1b[L"))), "1\n\n2\n3\n5");
    assert_eq!(screen_text(&terminal_with(9, 5, format!("{rows}\x1b[2;4r\x1b[2;1H\x1bM"))), "1\n\n2\n3\n5");
    assert_eq!(screen_text(&terminal_with(9, 5, format!("{rows}\x1b[2;4r\x1b[4;1H\n"))), "1\n3\n4\n\n5");
    assert_eq!(screen_text(&terminal_with(9, 5, format!("{rows}\x1b[2S"))), "3\n4\n5");
    assert_eq!(screen_text(&terminal_with(9, 5, format!("{rows}\x1b[2T"))), "\n\n1\n2\n3");
}

#[test]
fn cursor_stops_at_margins() {
    let at = |bytes: &str| {
        let cursor = terminal_with(20, 10, bytes).screen().cursor;
        (cursor.row, cursor.col)
    };
    assert_eq!(at("\x1b[3;7r\x1b[5;1H\x1b[99A"), (2, 0));
    assert_eq!(at("\x1b[3;7r\x1b[5;1H\x1b[99B"), (6, 0));
    assert_eq!(at("\x1b[3;7r\x1b[2;1H\x1b[99A"), (0, 0));
    assert_eq!(at("\x1b[3;7r\x1b[8;1H\x1b[99B"), (9, 0));
    assert_eq!(at("\x1b[5;5H\x1b[99C\x1b[2D"), (4, 17));
    assert_eq!(at("\x1b[5;5H\x1b[E"), (5, 0));
    assert_eq!(at("\x1b[5;5H\x1b[2F"), (2, 0));
    assert_eq!(at("\x1b[65535;65535H"), (9, 19));
    assert_eq!(at("ab\x1b7\x1b[9;9H\x1b8"), (0, 2));
    assert_eq!(at("ab\x1b[s\x1b[9;9H\x1b[u"), (0, 2));
    assert_eq!(at("\x08\x08"), (0, 0));
}

#[test]
fn alternate_screen_is_entered_and_left() {
    for (enter, leave) in
        [("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?1047h", "\x1b[?1047l"), ("\x1b[?47h", "\x1b[?47l")]
    {
        let mut terminal = terminal_with(20, 4, "main\r\n$ ");
        let changes = feed(&mut terminal, enter);
        assert_eq!(changes.alerts, [Alert::Alternate(true)]);
        assert_eq!(screen_text(&terminal), "");
        feed(&mut terminal, "\x1b[Hfull\r\nscreen\r\n\r\n\r\n\r\nrolled");
        assert!(terminal.modes().alternate);
        assert_eq!(screen_text(&terminal), "\n\n\nrolled");
        assert_eq!(terminal.screen().first_line, 0);
        assert_eq!(terminal.line_text(LineIndex(0)).as_deref(), Some("main"));
        assert_eq!(feed(&mut terminal, leave).alerts, [Alert::Alternate(false)]);
        assert_eq!(screen_text(&terminal), "main\n$");
        assert_eq!(all_lines(&terminal)[..2], ["main", "$"]);
    }
}

#[test]
fn only_1049_restores_cursor() {
    assert_eq!(screen_text(&terminal_with(20, 4, "ab\x1b[?1049h\x1b[3;5H\x1b[?1049lX")), "abX");
    assert_eq!(screen_text(&terminal_with(20, 4, "ab\x1b[?47h\x1b[3;5H\x1b[?47lX")), "ab\n\n    X");
    assert_eq!(screen_text(&terminal_with(20, 4, "ab\x1b[?1048h\x1b[3;5H\x1b[?1048lX")), "abX");
}

#[test]
fn resize_on_alternate_screen_reflows_main_screen() {
    let mut terminal = terminal_with(10, 3, "0123456789abcde\x1b[?1049h\x1b[HALTERNATE!");
    terminal.resize(Size::new(20, 4));
    assert_eq!(screen_text(&terminal), "ALTERNATE!");
    feed(&mut terminal, "\x1b[?1049l");
    assert_eq!(screen_text(&terminal), "0123456789abcde");
    feed(&mut terminal, "\x1b[?1049h\x1b[H日本");
    terminal.resize(Size::new(3, 4));
    assert_eq!(screen_text(&terminal), "日");
}

#[test]
fn titles_are_stacked() {
    let mut terminal = terminal_with(80, 24, "");
    assert_eq!(feed(&mut terminal, "\x1b]0;✳ a;b\x07").alerts, [Alert::Title("✳ a;b".into())]);
    feed(&mut terminal, "\x1b[22t\x1b]2;other\x1b\\");
    assert_eq!(terminal.title(), "other");
    feed(&mut terminal, "\x1b[23;0t");
    assert_eq!(terminal.screen().title, "✳ a;b");
    feed(&mut terminal, "\x1b[22t".repeat(5000));
    feed(&mut terminal, "\x1b]2;\x07");
    assert_eq!(terminal.title(), "");
}

#[test]
fn endless_title_is_ignored() {
    let mut terminal = terminal_with(80, 24, "\x1b]2;good\x07");
    feed(&mut terminal, format!("\x1b]2;{}", "x".repeat(3 << 20)));
    feed(&mut terminal, format!("{}\x07text", "y".repeat(1 << 20)));
    assert_eq!((terminal.title(), screen_text(&terminal).as_str()), ("good", "text"));
}

#[test]
fn other_strings_are_ignored() {
    let long = "z".repeat(2 << 20);
    assert_eq!(
        screen_text(&terminal_with(
            80,
            24,
            format!("a\x1b_Gi=1;{long}\x1b\\b\x1bP{long}\x1b\\c\x1b^{long}\x1b\\d\x1bX{long}\x1b\\e")
        )),
        "abcde"
    );
}

#[test]
fn alerts_report_bell_progress_and_folder() {
    let mut terminal = terminal_with(80, 24, "");
    let mut alerts = |bytes: &str| feed(&mut terminal, bytes).alerts;
    assert_eq!(alerts("\x07\x07a\x07"), [Alert::Bell]);
    assert_eq!(alerts("\x1b]9;4;1;42\x07"), [Alert::Progress { state: 1, value: 42 }]);
    assert_eq!(alerts("\x1b]9;4;0\x1b\\"), [Alert::Progress { state: 0, value: 0 }]);
    assert_eq!(alerts("\x1b]9;4;77;1\x07"), []);
    assert_eq!(alerts("\x1b]7;file://host/tmp/a%20b%zz\x07"), [Alert::Cwd("/tmp/a b%zz".into())]);
    assert_eq!(alerts("\x1b]9;9;\"/srv\"\x07"), [Alert::Cwd("/srv".into())]);
    assert_eq!(alerts("\x1b]1337;CurrentDir=/home\x07"), [Alert::Cwd("/home".into())]);
    assert_eq!(alerts("\x1b[3J"), [Alert::ScrollbackErased]);
    assert_eq!(alerts("\x1b[?2026h\x1b[?2026l\x1b[?2026l"), [Alert::FrameDone]);
    assert!(alerts(&"\x07\x1b]2;x\x07".repeat(20_000)).len() <= 4096);
}

#[test]
fn alerts_report_erased_and_redrawn_rows() {
    let mut terminal = terminal_with(80, 3, "");
    let mut alerts = |bytes: &str| feed(&mut terminal, bytes).alerts;
    let line = LineIndex;
    let erased = |first, end| Alert::ScreenErased { line: line(first), end: line(end) };
    let redraw = |first| Alert::Redraw { line: line(first) };
    assert_eq!(alerts("a\r\nb\r\n\x1b[H\x1b[J\x1b[H\x1b[J"), [erased(0, 2), erased(0, 0)]);
    assert_eq!(alerts("x\r\n\x1b[1;1H\x1b[0m\x1b[J"), [erased(0, 1)]);
    assert_eq!(alerts("\x1b[H% \r\x1b[J\x1b[H\x1b[2;1H\x1b[J"), [], "a shell draws its prompt again");
    assert_eq!(alerts("\x1b[?1049h\x1b[H\x1b[J1\r\n2\x1b[A3\x1b[?1049l").len(), 2, "no main screen");
    assert_eq!(alerts("x\r\n\x1b[H\x1b[2J1\r\n2\r\n3\r\n4\r\n5"), [], "stored before");
    assert_eq!(alerts("\x1b[2A\x1b[2B6\x1b7\x1b[A\x1b8"), [], "no text above");
    assert_eq!(alerts("\x1b[A7\x1b[A8\r\n\n9"), [redraw(4)]);
    assert_eq!(alerts("\n\x1b[H").len(), 0);
    assert_eq!(alerts("top"), [redraw(5)]);
    assert_eq!(alerts("\x1b7\r\n\n\x1b8日"), [redraw(5)]);
}

#[test]
fn notifications_are_passed_on() {
    let mut terminal = terminal_with(80, 24, "");
    let mut alerts = |bytes: &str| feed(&mut terminal, format!("\x1b]{bytes}\x1b\\")).alerts;
    let text = |text: &str| vec![Alert::Notify(Notification::Text(text.into()))];
    assert_eq!(alerts("9;All done; really\u{9b}31m"), text("All done; really31m"));
    assert_eq!(alerts("9;5 minutes left"), text("5 minutes left"));
    for command in
        ["9;", "9;5", "9;6;macro", "9;4", "777;precmd", "777;notify", "99", "99;p=?;", "99;i=1:p=buttons;a"]
    {
        assert_eq!(alerts(command), [], "{command}");
    }
    let titled = |title: &str, body: &str| {
        vec![Alert::Notify(Notification::Titled { title: title.into(), body: body.into() })]
    };
    assert_eq!(alerts("777;notify;Title;Body; and more"), titled("Title", "Body; and more"));
    assert_eq!(alerts("777;notify;Title"), titled("Title", ""));
    let piece = |metadata: &str, payload: &str| {
        vec![Alert::Notify(Notification::Piece { metadata: metadata.into(), payload: payload.into() })]
    };
    assert_eq!(alerts("99;;Hello;you"), piece("", "Hello;you"));
    assert_eq!(
        alerts("99;i=1:d=0:a=report:c=1:p=body:u=2:f=a b;It is done"),
        piece("i=1:d=0:p=body:u=2", "It is done")
    );
}

#[test]
fn only_clipboard_texts_are_passed_on() {
    let mut terminal = terminal_with(80, 24, "");
    let mut alerts = |bytes: &str| feed(&mut terminal, format!("\x1b]52;{bytes}\x07"));
    let copied = |to, base64: &str| vec![Alert::Clipboard(Clipboard { to, base64: base64.into() })];
    assert_eq!(alerts("c;aGVsbG8=").alerts, copied(Selections::Clipboard, "aGVsbG8="));
    assert_eq!(alerts(";aGVsbG8=").alerts, copied(Selections::Clipboard, "aGVsbG8="));
    assert_eq!(alerts("s;aGVsbG8=").alerts, copied(Selections::Primary, "aGVsbG8="));
    assert_eq!(alerts("pc;").alerts, copied(Selections::Both, ""));
    for none in ["c", "c;?", "c;not base 64", "c;aGVs;bG8=", "q0;aGVsbG8=", "c;aGVs\u{e9}"] {
        let changes = alerts(none);
        assert_eq!((changes.alerts, changes.replies), (vec![], vec![]), "{none}");
    }
    let too_long = "x".repeat(2 << 20);
    assert_eq!(alerts(&format!("c;{too_long}")).alerts, []);
}

#[test]
fn row_has_underlines_and_links() {
    let link = "\x1b]8;id=7;https://example.org\x1b\\";
    let terminal = terminal_with(
        80,
        2,
        format!("\x1b[4ma\x1b[4:3;58;5;9mb日\x1b[0m{link}c\x1b[1md\x1b]8;;\x1b\\\x1b[me\x1b[4:2mf"),
    );
    let row = &terminal.screen().rows[0];
    let decorated: Vec<_> = row.decorations.iter().map(|d| (d.start, d.len, d.underline)).collect();
    assert_eq!(decorated, [(1, 3, Underline::Curl), (4, 2, Underline::None), (7, 1, Underline::Double)]);
    assert_eq!(row.decorations[0].underline_color, Color::Indexed(9));
    let links: Vec<_> =
        row.cells().map(|cell| (cell.text, cell.decoration.and_then(|d| row.link(d)))).collect();
    let to = Link { id: "7".into(), uri: "https://example.org".into() };
    let none = |text| (text, None);
    assert_eq!(
        links,
        [none("a"), none("b"), none("日"), ("c", Some(&to)), ("d", Some(&to)), none("e"), none("f")]
    );
    assert_eq!(terminal.screen_row(0).as_ref(), Some(row));
    assert_eq!(terminal.line_row(LineIndex(0)).as_ref(), Some(row));
    let mut dumped = TerminalState::new(Size::new(80, 2));
    dumped.process_data(TsNs(0), &terminal.dump());
    assert_eq!(&dumped.screen().rows[0], row);
}

#[test]
fn marks_have_positions() {
    let marks = |parts: &[&str]| {
        let mut terminal = terminal_with(80, 24, "");
        let alerts = parts.iter().flat_map(|part| feed(&mut terminal, part).alerts);
        alerts.collect::<Vec<_>>()
    };
    let mark = |kind, line, col, offset| {
        Alert::Mark(Mark { kind, line: LineIndex(line), col, has_text_after: false, offset })
    };
    let bytes = "\x1b]133;A\x07$ \x1b]133;B\x1b\\ls\r\n\x1b]133;C;x=y\x07out\r\n\x1b]133;D;127\x07\x1b]133;D\x07\x1b]133;Z\x07";
    let expected = [
        mark(MarkKind::PromptStart, 0, 0, 8),
        mark(MarkKind::CommandStart, 0, 2, 19),
        mark(MarkKind::OutputStart, 1, 0, 35),
        mark(MarkKind::CommandEnd(Some(127)), 2, 0, 52),
        mark(MarkKind::CommandEnd(None), 2, 0, 60),
    ];
    assert_eq!(marks(&[bytes]), expected);
    let pieces: Vec<&str> = bytes.split_inclusive(|_: char| true).collect();
    assert_eq!(marks(&pieces), expected);
}

#[test]
fn mark_knows_text_behind_it() {
    let has_text_after = |bytes: &str| {
        let alerts = feed(&mut terminal_with(20, 5, ""), format!("{bytes}\x1b]133;D\x07")).alerts;
        assert_eq!(alerts.iter().filter(|alert| matches!(alert, Alert::Mark(_))).count(), 1);
        alerts.iter().any(|alert| matches!(alert, Alert::Mark(mark) if mark.has_text_after))
    };
    for covered in ["abc\r", "abcdef\rxy", "\x1b[10Cfar\r", "abc\x08"] {
        assert!(has_text_after(covered), "{covered:?}");
    }
    let full = "x".repeat(20);
    for whole in
        ["", "abc", "abc\r\n", "abc\rxyz", "abc\r\x1b[K", "abc\r   \r", &full, "abc\x1b[?1049h\x1b[H"]
    {
        assert!(!has_text_after(whole), "{whole:?}");
    }
}

#[test]
fn line_with_covered_text_is_known() {
    let covered = |bytes: &str| terminal_with(20, 5, bytes).covered_line().map(|line| line.0);
    // A prompt behind a carriage return, and behind later text that covers less than the earlier.
    assert_eq!(covered("1\r\nabc\r$ "), Some(1));
    assert_eq!(covered("abcdef\rxy$ "), Some(0));
    assert_eq!(covered("日本\r日x"), Some(0));
    // zsh and fish draw a mark and blanks before the prompt.
    let blanks = " ".repeat(19);
    let zsh = |output: &str| covered(&format!("{output}\x1b[7m%\x1b[0m{blanks}\r \r\r\x1b[J$ \x1b[K"));
    assert_eq!(zsh("1\r\nabc\r"), Some(1));
    assert_eq!((zsh(""), zsh("1\r\n"), zsh("abc"), zsh("10%\r   \r")), (None, None, None, None));
    // Erased text is not covered, a later text of the line replaces it, and the same text changes nothing.
    assert_eq!(covered("abc\r\x1b[K$ "), None);
    assert_eq!(covered("10%\r20%\r\x1b[K$ "), None);
    assert_eq!(covered("10%\r   \r$ "), None);
    assert_eq!(covered("$ \r$ "), None);
    assert_eq!(covered("abc\r\n$ "), None);
    assert_eq!(covered("abc\x1b[?1049h\x1b[Hx\x1b[?1049l"), None);
    assert_eq!(covered("abc\rx\x1b[H\x1b[J$ "), None);
}

#[test]
fn line_contains_hyperlinks() {
    let link = "\x1b]8;id=7;https://example.org/a;b\x1b\\";
    let terminal = terminal_with(80, 24, format!("see {link}this\x1b[1m one\x1b]8;;\x1b\\\x1b[m."));
    let content = terminal.line_content(LineIndex(0)).unwrap();
    assert_eq!(content, format!("see {link}this\x1b[0;1m one\x1b]8;;\x1b\\\x1b[0m."));
    let long = format!("\x1b]8;;https://{}\x07text", "x".repeat(3000));
    assert_eq!(terminal_with(80, 24, long).line_content(LineIndex(0)).unwrap(), "text");
}

#[test]
fn row_with_styles_round_trips_as_ansi() {
    let ansi = "a\x1b[0;1;4:3;31;48;5;200;58;2;1;2;3mb\x1b[0mc";
    assert_eq!(terminal_with(80, 2, ansi).line_content(LineIndex(0)).unwrap(), ansi);
}

#[test]
fn blink_survives_scrollback_and_dump() {
    let ansi = "a\x1b[0;1;5mb\x1b[0;5;4:3;31;58;5;9mc\x1b[0md";
    let mut terminal = terminal_with(80, 2, ansi);
    let mut dumped = TerminalState::new(Size::new(80, 2));
    dumped.process_data(TsNs(0), &terminal.dump());
    assert_eq!(dumped.line_content(LineIndex(0)).unwrap(), ansi);
    assert!(!dumped.screen().rows[0].runs[0].style.blink && dumped.screen().rows[0].runs[1].style.blink);
    assert!(dumped.screen().rows[0].to_ansi(80).starts_with("a\x1b[0;1;5mb"));
    feed(&mut terminal, "\r\n\n\n");
    assert_eq!(terminal.line_content(LineIndex(0)).unwrap(), ansi, "stored");
}

#[test]
fn decaln_fills_the_screen() {
    assert_eq!(screen_text(&terminal_with(3, 2, "\x1b#8")), "EEE\nEEE");
}

#[test]
fn unknown_sequences_change_nothing() {
    let junk = "\x1b[?9999h\x1b[>99m\x1b[1;2;3;4;5;6T\x1b]4242;x\x07\x1b%G\x1b[4:9:9:9y\x1bPzzz\x1b\\\x1b[ !\"p\x1b[38m\x1b[999z\x7f\u{85}";
    assert_eq!(
        terminal_with(20, 3, format!("a{junk}b")).screen().rows,
        terminal_with(20, 3, "ab").screen().rows
    );
}

#[test]
fn grown_coloured_row_is_cleared_completely() {
    let mut terminal = terminal_with(3, 1, "\x1b[40mab\r\n\x1b[m");
    terminal.resize(Size::new(6, 1));
    feed(&mut terminal, "\r\n");
    assert_eq!(terminal.screen().rows[0].runs, []);
}

#[test]
fn last_alternate_screen_is_kept_if_enabled() {
    let left = |terminal: TerminalState, output: &[u8]| {
        let mut terminal = terminal;
        terminal.process_data(TsNs(0), output);
        terminal.resize(Size::new(7, 2));
        let rows = terminal.last_alt_screen_rows();
        (0..rows).map(|row| terminal.last_alt_screen_row(row).unwrap().text).collect::<Vec<_>>()
    };
    let blank = || TerminalState::new(Size::new(10, 4));
    let output = "\x1b[?1049h\x1b[Hone\r\n\r\n\x1b[31m三 three\x1b[?1049lmain".as_bytes();
    assert_eq!(left(blank().keeping_last_alt_screen(), output), ["one", "", "三 three"], "unchanged");
    assert_eq!(left(blank(), output), [""; 0]);
    assert_eq!(left(blank().keeping_last_alt_screen(), b"main"), [""; 0]);
    let reset = [output, b"\x1bc"].concat();
    assert_eq!(left(blank().keeping_last_alt_screen(), &reset).len(), 3, "a reset keeps the stored screen");
    assert!(blank().last_alt_screen_row(0).is_none());
}
