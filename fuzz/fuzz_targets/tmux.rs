//! Parses the lines of tmux's control mode, whatever their pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nerve_fuzz::pieces;

#[path = "../../crates/nerve-mux/src/tmux/parser.rs"]
#[allow(dead_code, unreachable_pub, reason = "the parser is private to its crate")]
mod parser;

use parser::{ControlMessage, ControlParser, size_in};

fuzz_target!(|data: &[u8]| {
    let whole = messages([data].into_iter());
    assert_eq!(whole, messages(pieces(data)), "pieces change the messages");
    for message in whole {
        if let ControlMessage::LayoutChanged { visible } = message {
            let _ = size_in(&visible, 1);
        }
    }
});

fn messages<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<ControlMessage> {
    let (mut parser, mut messages) = (ControlParser::default(), Vec::new());
    for piece in pieces {
        parser.buffer().extend_from_slice(piece);
        while let Ok(Some(message)) = parser.next() {
            messages.push(message);
        }
    }
    messages
}
