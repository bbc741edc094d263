//! Parses server-sent events (WHATWG HTML §9.2), with any line ending and in pieces of any size.

/// An event. Neither API needs its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// Data lines of the event, joined by line feeds.
    pub(crate) data: String,
}

/// An event exceeds the size limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// An incremental parser of server-sent events.
#[derive(Debug)]
pub(crate) struct Parser {
    /// Maximum size of an event, in bytes.
    limit: usize,
    line: Vec<u8>,
    data: Option<String>,
    /// The last byte was a carriage return: a line feed after it belongs to the same line ending.
    after_return: bool,
}

impl Parser {
    /// Creates a parser for events of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Parser {
        Parser { limit, line: Vec::new(), data: None, after_return: false }
    }

    /// Returns the events that these bytes complete.
    ///
    /// # Errors
    /// [`TooLarge`]; the parser cannot be used afterwards.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        let mut events = Vec::new();
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_return) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + piece.len() + self.data.as_ref().map_or(0, String::len) > self.limit {
                return Err(TooLarge);
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { break };
            self.after_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            events.extend(self.end_line());
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.data.take().map(|data| Event { data });
        }
        let line = String::from_utf8_lossy(&line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        // A byte order mark may precede the first field.
        if field.trim_start_matches('\u{feff}') == "data" {
            let value = value.strip_prefix(' ').unwrap_or(value);
            match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_string()),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8], step: usize) -> Vec<String> {
        let mut parser = Parser::new(1000);
        let events = bytes.chunks(step).flat_map(|piece| parser.push(piece).unwrap());
        events.map(|event| event.data).collect()
    }

    #[test]
    fn fields_comments_and_line_ends() {
        let text = "\u{feff}data: one\nevent: a\ndata:two\n\n: ping\r\n\r\nid: 7\rdata: {\"x\": \"ä 日本\"}\r\rdata\n\nevent: lost\n\ndata: half";
        for step in 1..text.len() {
            assert_eq!(
                all(text.as_bytes(), step),
                ["one\ntwo", "{\"x\": \"ä 日本\"}", ""],
                "in pieces of {step}"
            );
        }
    }

    #[test]
    fn limit_applies_to_each_event() {
        let mut parser = Parser::new(20);
        for _ in 0..100 {
            assert_eq!(parser.push(b"data: 0123456789\n\n").unwrap().len(), 1);
        }
        assert_eq!(parser.push(&[b'x'; 21]), Err(TooLarge));
    }
}
