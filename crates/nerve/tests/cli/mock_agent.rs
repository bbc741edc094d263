//! `nerve mock-agent --replay`.

use nerve_record::ahr::{Body, Mark, Record, Segment, Writer};
use nerve_types::{ExitStatus, TsNs};

use crate::harness::Home;

#[test]
fn recording_is_replayed_to_its_exit_code() {
    let home = Home::new();
    let path = home.hermetic.work().join("tape.ahr");
    let mut segment = Segment::new(0);
    let bodies = [
        Body::Data { off: 0, bytes: b"> " },
        Body::Input { bytes: b"hello\r" },
        Body::Data { off: 2, bytes: b"\x1b[1mHi\x1b[0m\r\n" },
        Body::Mark(Mark::Exit(ExitStatus::Code(7))),
    ];
    for (second, body) in (1_760_000_000..).zip(bodies) {
        segment.push(&Record { at: TsNs(second * 1_000_000_000), body }).unwrap();
    }
    Writer::create(&path).unwrap().append(&segment.seal(4, true)).unwrap();

    let play = ["mock-agent", "--replay", "tape.ahr", "--fast"];
    let done = home.nerve_with(&play, "something else\r");
    assert_eq!((done.code, &*done.stdout), (7, "> \x1b[1mHi\x1b[0m\r\n"), "{done:?}");
    // The expected input never arrives.
    let done = home.nerve_with(&play, "");
    assert_eq!((done.code, &*done.stdout), (129, "> "), "{done:?}");
    home.nerve(&["mock-agent", "--replay", "none.ahr"]).assert_stderr(1, &["none.ahr"]);
    home.nerve(&["mock-agent", "--fast"]).assert_stderr(2, &["--replay"]);
}
