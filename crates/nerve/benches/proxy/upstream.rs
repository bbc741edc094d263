//! A model API in a separate process that answers as fast as possible, as specified by the model's name.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use anyhow::{Context, Result};

/// Events of a stream in the test that counts answers, and bytes of text per event.
pub(crate) const STREAM: (usize, usize) = (50, 20);
/// Events and bytes per event in the test that counts bytes.
pub(crate) const BULK: (usize, usize) = (256, 4096);

/// Prints the address and serves until it is killed.
pub(crate) fn run() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut out = io::stdout();
    writeln!(out, "http://{}", listener.local_addr()?)?;
    out.flush()?;
    for stream in listener.incoming() {
        let stream = stream?;
        // Disconnected clients are ignored.
        thread::spawn(move || serve(stream));
    }
    Ok(())
}

fn serve(stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut out = stream.try_clone()?;
    let mut requests = BufReader::new(stream);
    let mut body = Vec::new();
    loop {
        let is_anthropic = read(&mut requests, &mut body)?;
        let format = if is_anthropic { EventFormat::anthropic() } else { EventFormat::openai() };
        let names = |model: &str| body.windows(model.len()).any(|window| window == model.as_bytes());
        out.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        )?;
        if names("\"model\":\"hold\"") {
            chunk(&mut out, &format.first(20))?;
            // Holds the stream open until the client disconnects.
            return Ok(requests.read_exact(&mut [0])?);
        }
        let (events, bytes) = match () {
            () if names("\"model\":\"bulk\"") => BULK,
            () if names("\"model\":\"stream\"") => STREAM,
            () => (1, 20),
        };
        chunk(&mut out, &format.first(bytes))?;
        for _ in 1..events {
            chunk(&mut out, &format.delta(bytes))?;
        }
        chunk(&mut out, format.end)?;
        out.write_all(b"0\r\n\r\n")?;
    }
}

/// Reads a request. Returns true if it is one of Anthropic's API.
fn read(requests: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> Result<bool> {
    let (mut line, mut length, mut is_anthropic) = (String::new(), 0, None);
    loop {
        line.clear();
        anyhow::ensure!(requests.read_line(&mut line)? > 0, "the client disconnected");
        is_anthropic.get_or_insert_with(|| line.contains("/v1/messages"));
        let Some((name, value)) = line.split_once(':') else {
            if line.trim().is_empty() {
                break;
            }
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        }
    }
    body.resize(length, 0);
    requests.read_exact(body)?;
    is_anthropic.context("no request")
}

fn chunk(out: &mut TcpStream, text: &str) -> io::Result<()> {
    out.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
}

/// Format of an API's events.
struct EventFormat {
    begin: &'static str,
    delta: (&'static str, &'static str),
    end: &'static str,
}

impl EventFormat {
    fn anthropic() -> EventFormat {
        EventFormat {
            begin: concat!(
                "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",",
                "\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n",
                "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
            ),
            delta: (
                "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"",
                "\"}}\n\n",
            ),
            end: concat!(
                "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
                "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":7}}\n\n",
                "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
            ),
        }
    }

    fn openai() -> EventFormat {
        EventFormat {
            begin: "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n",
            delta: (
                "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"",
                "\"}}]}\n\n",
            ),
            end: concat!(
                "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
                "data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":7}}\n\ndata: [DONE]\n\n"
            ),
        }
    }

    fn first(&self, bytes: usize) -> String {
        format!("{}{}", self.begin, self.delta(bytes))
    }

    fn delta(&self, bytes: usize) -> String {
        format!("{}{}{}", self.delta.0, "word ".repeat(bytes / 5), self.delta.1)
    }
}
