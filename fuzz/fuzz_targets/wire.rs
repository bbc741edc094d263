//! Splits input into lines, which do not depend on its pieces, and decodes each as a request and as a server's message.
#![no_main]

use std::collections::VecDeque;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use libfuzzer_sys::fuzz_target;
use nerve_api::framing::{Frame, LineReader};
use nerve_api::request::{
    CreateBranch, CreateNode, ExecuteGraph, ExecuteInput, GetHistory, PruneRecordings, Search, Subscribe,
    WaitNode, read,
};
use nerve_api::{Message, RequestName, decode_request};
use nerve_fuzz::pieces;
use tokio::io::{AsyncRead, ReadBuf};

/// Limit of a line; small, so that inputs soon exceed it.
const LIMIT: usize = 400;

fuzz_target!(|data: &[u8]| {
    let whole = frames([data].into());
    assert_eq!(whole, frames(pieces(data).collect()), "pieces change the lines");
    for frame in whole {
        if let Frame::Line(line) | Frame::Eof { partial: line } = frame {
            decode(&line);
        }
    }
    decode(data);
});

fn decode(line: &[u8]) {
    let _ = serde_json::from_slice::<Message>(line);
    let request = match decode_request(line) {
        Ok(request) => request,
        Err(error) => {
            let _ = error.reply();
            return;
        }
    };
    let (name, params) = (request.command, &request.params);
    let _ = match name {
        RequestName::CreateNode => read::<CreateNode>(name, params).err(),
        RequestName::ExecuteInput => read::<ExecuteInput>(name, params).err(),
        RequestName::ExecuteGraph => read::<ExecuteGraph>(name, params).err(),
        RequestName::CreateBranch => read::<CreateBranch>(name, params).err(),
        RequestName::GetHistory => read::<GetHistory>(name, params).err(),
        RequestName::PruneRecordings => read::<PruneRecordings>(name, params).err(),
        RequestName::Search => read::<Search>(name, params).err(),
        RequestName::Subscribe => read::<Subscribe>(name, params).err(),
        _ => read::<WaitNode>(name, params).err(),
    };
}

fn frames(pieces: VecDeque<&[u8]>) -> Vec<Frame> {
    let (mut reader, mut frames) = (LineReader::with_limit(Pieces(pieces), LIMIT), Vec::new());
    loop {
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(frame)) = pin!(reader.next()).poll(&mut context) else {
            unreachable!("the input never waits and never fails")
        };
        let is_end = matches!(frame, Frame::Eof { .. });
        frames.push(frame);
        if is_end {
            return frames;
        }
    }
}

/// Input that arrives in pieces, without waiting.
struct Pieces<'a>(VecDeque<&'a [u8]>);

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(piece) = self.0.pop_front() {
            let (now, later) = piece.split_at(piece.len().min(buffer.remaining()));
            buffer.put_slice(now);
            if !later.is_empty() {
                self.0.push_front(later);
            }
        }
        Poll::Ready(Ok(()))
    }
}
