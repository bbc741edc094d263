//! A parser of server-sent events (WHATWG HTML §9.2). Accepts any line end, and input split at any byte.

/// A server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The event's name, or an empty string.
    pub name: String,
    /// The data lines, joined by line feeds.
    pub data: String,
}

/// The event exceeds the size limit.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Parses a stream of bytes into events.
#[derive(Debug)]
pub struct Parser {
    /// Maximum size of one event in bytes, including its unfinished line.
    limit: usize,
    line: Vec<u8>,
    name: String,
    data: Option<String>,
    /// The last byte was a carriage return: a line feed that follows belongs to the same line end.
    after_return: bool,
    /// No byte was received yet: a byte order mark may come first.
    at_start: bool,
}

impl Parser {
    /// Creates a parser for events of at most `limit` bytes.
    pub fn new(limit: usize) -> Parser {
        Parser {
            limit,
            line: Vec::new(),
            name: String::new(),
            data: None,
            after_return: false,
            at_start: true,
        }
    }

    /// Returns the events that are complete with these bytes. An event that never completes is dropped.
    ///
    /// # Errors
    /// [`TooLarge`]; the parser cannot be used afterwards.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
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
        let line = String::from_utf8_lossy(&line);
        let mut line = &*line;
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            return self.data.take().map(|data| Event { name, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = value.to_string(),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_string()),
            },
            // Comments (empty name), ids, retry times.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.into(), data: data.into() }
    }

    fn all(bytes: &[u8], step: usize) -> Vec<Event> {
        let mut parser = Parser::new(1000);
        bytes.chunks(step).flat_map(|piece| parser.push(piece).unwrap()).collect()
    }

    #[test]
    fn fields_comments_and_line_ends_are_parsed() {
        let text = "\u{feff}event: a\ndata: one\ndata:two\n\n: ping\r\n\r\nid: 7\rdata: {\"x\": \"ä 日本\"}\r\rdata\n\nevent: lost\n\ndata: half";
        let expected = [event("a", "one\ntwo"), event("", r#"{"x": "ä 日本"}"#), event("", "")];
        for step in 1..text.len() {
            assert_eq!(all(text.as_bytes(), step), expected, "in pieces of {step}");
        }
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        assert_eq!(all(b"data: \xff\xfe\n\n", 3), [event("", "\u{fffd}\u{fffd}")]);
    }

    #[test]
    fn limit_applies_to_events_not_to_the_stream() {
        let mut parser = Parser::new(20);
        for _ in 0..100 {
            assert_eq!(parser.push(b"data: 0123456789\n\n").unwrap().len(), 1);
        }
        assert_eq!(parser.push(&[b'x'; 21]), Err(TooLarge));
        let mut parser = Parser::new(20);
        parser.push(b"data: 0123456789\n").unwrap();
        assert_eq!(parser.push(b"data: 01234567890123456789\n"), Err(TooLarge));
    }
}
