//! Looks up positions in an arbitrary index next to an intact recording.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nerve_fuzz::Scratch;
use nerve_record::index::{Index, Position};
use nerve_record::replay::TerminalReplay;

const RECORDING: &[u8] = include_bytes!("../../crates/nerve-record/tests/fixtures/ahr/multiblock.ahr");

static SCRATCH: LazyLock<Scratch> = LazyLock::new(|| {
    let scratch = Scratch::new();
    std::fs::write(scratch.file("a.ahr"), RECORDING).expect("no space");
    scratch
});

fuzz_target!(|data: &[u8]| {
    let recording = SCRATCH.file("a.ahr");
    std::fs::write(Index::sidecar_path(&recording), data).expect("no space");
    let Some(index) = Index::open(&recording) else { return };
    let (end, at) = index.end();
    for position in
        [Position::Offset(0), Position::Offset(end / 2), Position::Offset(end), Position::Time(at)]
    {
        let _ = index.block_before(position);
        // A replay of the recording from there would take half a second.
        if let Some((keyframe, _)) = index.keyframe_before(position) {
            let _ = TerminalReplay::from_keyframe(&keyframe);
        }
    }
});
