//! Lines and snapshots as Markdown, JSON, CSV and text.

use nerve_record::export::{Format, Item, ReportFormat, interleaved, report};

use crate::{data, recording, replayed, resize, sample, snapshot};

fn export_report(format: ReportFormat, file: &[u8]) -> String {
    let mut out = Vec::new();
    report(format, &replayed(file).terminal, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn text_lists_lines_and_snapshots() {
    assert_eq!(
        export_report(ReportFormat::Txt, &sample()),
        "line one\nline two\n▶ snapshot 0: first\nprogress 100%\n▶ snapshot 7: mid ✓ м\n▶ snapshot 8: mid|again\n\
         ▶ snapshot 9\ntail \"x\", y\n"
    );
}

#[test]
fn markdown_lists_lines_and_snapshots() {
    assert_eq!(
        export_report(ReportFormat::Md, &sample()),
        "| line | text |
|---:|:---|
| 0 | `line one` |
| 1 | `line two` |
| ▶ **0** | `first` · 2024-03-09T16:00:00.020Z · byte 20 · column 0 |
| 2 | `progress 100%` |
| ▶ **7** | `mid ✓ м` · 2024-03-09T16:00:00.040Z · byte 47 · column 13 |
| ▶ **8** | `mid\\|again` · 2024-03-09T16:00:00.050Z · byte 47 · column 13 |
| ▶ **9** | 2024-03-09T16:00:00.070Z · byte 63 · column 0 |
| 3 | `tail \"x\", y` |
"
    );
}

#[test]
fn json_lists_lines_and_snapshots() {
    assert_eq!(
        export_report(ReportFormat::Json, &sample()),
        r#"{"items":[
{"kind":"line","line":0,"text":"line one","wrapped":false},
{"kind":"line","line":1,"text":"line two","wrapped":false},
{"kind":"snapshot","snapshot_id":0,"taken_at":"2024-03-09T16:00:00.020Z","label":"first","anchor_byte":20,"line":2,"col":0,"alternate":false},
{"kind":"line","line":2,"text":"progress 100%","wrapped":false},
{"kind":"snapshot","snapshot_id":7,"taken_at":"2024-03-09T16:00:00.040Z","label":"mid ✓ м","anchor_byte":47,"line":2,"col":13,"alternate":false},
{"kind":"snapshot","snapshot_id":8,"taken_at":"2024-03-09T16:00:00.050Z","label":"mid|again","anchor_byte":47,"line":2,"col":13,"alternate":false},
{"kind":"snapshot","snapshot_id":9,"taken_at":"2024-03-09T16:00:00.070Z","label":null,"anchor_byte":63,"line":3,"col":0,"alternate":false},
{"kind":"line","line":3,"text":"tail \"x\", y","wrapped":false}
]}
"#
    );
}

#[test]
fn csv_lists_lines_and_snapshots() {
    assert_eq!(
        export_report(ReportFormat::Csv, &sample()),
        "kind,index,ts_ns,text
line,0,,line one
line,1,,line two
snapshot,0,1710000000020000000,first
line,2,,progress 100%
snapshot,7,1710000000040000000,mid ✓ м
snapshot,8,1710000000050000000,mid|again
snapshot,9,1710000000070000000,
line,3,,\"tail \"\"x\"\", y\"
"
    );
}

#[test]
fn snapshot_between_turns_precedes_next_prompt() {
    let file = recording(&[
        (0, data(0, "$ echo one\r\none\r\n$ ")),
        (1, snapshot(1, 19, "between")),
        (2, data(19, "echo two\r\ntwo\r\n$ ")),
        (3, snapshot(2, 36, "at the end")),
    ]);
    assert_eq!(
        export_report(ReportFormat::Txt, &file),
        "$ echo one\none\n▶ snapshot 1: between\n$ echo two\ntwo\n$\n▶ snapshot 2: at the end\n"
    );
}

#[test]
fn empty_recording_has_empty_reports() {
    assert_eq!(export_report(ReportFormat::Json, b""), "{\"items\":[]}\n");
    assert_eq!(export_report(ReportFormat::Txt, b""), "");
    assert_eq!(export_report(ReportFormat::Csv, b""), "kind,index,ts_ns,text\n");
}

/// Summarizes items: `1`, `2` … for lines, `s1` … for snapshots.
fn order(file: &[u8]) -> Vec<String> {
    let label = |item: Item<'_>| match item {
        Item::Line { text, .. } => text,
        Item::Snapshot { snapshot, .. } => format!("s{}", snapshot.id),
    };
    interleaved(&replayed(file).terminal).map(label).collect()
}

#[test]
fn snapshots_outside_text_come_first_or_last() {
    let erased = recording(&[
        (0, resize(20, 3)),
        (1, data(0, "a\r\n")),
        (2, snapshot(1, 3, "")),
        (3, data(3, "b\r\nc\r\nd\r\ne\r\n\x1b[3J")),
        (4, data(19, "\r\n\r\n\r\n")),
        (5, snapshot(2, 25, "")),
        (6, data(25, "\x1b[3A")),
        (7, snapshot(3, 29, "")),
    ]);
    // Line 1 (b) was erased with the scrollback; the cursor went up, so the third snapshot is before the second.
    let items = order(&erased);
    assert_eq!(items, ["s1", "d", "e", "s3", "s2"], "{items:?}");
}

#[test]
fn alternate_screen_is_excluded() {
    let file = recording(&[
        (0, resize(20, 3)),
        (1, data(0, "one\r\ntwo\r\n\x1b[?1049h\x1b[2Jalternate")),
        (2, snapshot(1, 31, "in it")),
        (3, data(31, "\x1b[?1049lthree")),
    ]);
    assert_eq!(order(&file), ["one", "two", "s1", "three"]);
    assert!(export_report(ReportFormat::Json, &file).contains(r#""line":2,"col":0,"alternate":true"#));
    assert!(
        export_report(ReportFormat::Txt, &file)
            .ends_with("▶ snapshot 1: in it (on the alternate screen)\nthree\n")
    );
    assert!(export_report(ReportFormat::Md, &file).contains("column 0 · on the alternate screen |"));
}

#[test]
fn control_characters_in_labels_are_removed() {
    let file = recording(&[(0, snapshot(1, 0, "a\x1b]0;b\x07\nc"))]);
    assert_eq!(export_report(ReportFormat::Txt, &file), "▶ snapshot 1: a\u{fffd}]0;b\u{fffd}\u{fffd}c\n");
}

#[test]
fn formats_have_names() {
    for format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    assert!("html".parse::<Format>().unwrap_err().to_string().contains("unknown format 'html'"));
}
