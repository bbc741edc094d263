//! Tokens of a reply, read off it as it passes.

use serde_json::Value;

use crate::sse::Parser;

/// Tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// That went in, without those of a cache.
    pub input: u64,
    /// That came out.
    pub output: u64,
    /// That went in and were in the cache.
    pub cache_read: u64,
    /// That went in and were put into the cache.
    pub cache_write: u64,
}

impl Usage {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }

    pub(crate) fn plus(self, other: Usage) -> Usage {
        Usage {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }
}

/// The largest event that is looked into, in bytes.
const EVENT: usize = 4 << 20;
/// The largest whole reply that is looked into, in bytes.
const WHOLE: usize = 8 << 20;

/// Takes the bytes of a reply of the Messages API; holds none of them back.
#[derive(Debug)]
pub(crate) struct Reader {
    form: Form,
    usage: Option<Usage>,
    model: Option<String>,
    error: Option<String>,
    has_stopped: bool,
}

#[derive(Debug)]
enum Form {
    Events(Parser),
    Whole(Vec<u8>),
    /// Nothing that can be read.
    Other,
}

impl Reader {
    /// For a reply with this `Content-Type` and `Content-Encoding`.
    pub(crate) fn new(content_type: &str, is_encoded: bool) -> Reader {
        let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let form = match kind.as_str() {
            _ if is_encoded => Form::Other,
            "text/event-stream" => Form::Events(Parser::new(EVENT)),
            "application/json" => Form::Whole(Vec::new()),
            _ => Form::Other,
        };
        Reader { form, usage: None, model: None, error: None, has_stopped: false }
    }

    /// A piece of the reply.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        match &mut self.form {
            Form::Events(parser) => match parser.push(bytes) {
                Ok(events) => events.iter().for_each(|event| self.event(&event.data)),
                Err(_) => self.form = Form::Other,
            },
            Form::Whole(body) if body.len() + bytes.len() <= WHOLE => body.extend_from_slice(bytes),
            Form::Whole(_) => self.form = Form::Other,
            Form::Other => {}
        }
    }

    /// The reply has ended.
    pub(crate) fn end(&mut self) {
        if let Form::Whole(body) = std::mem::replace(&mut self.form, Form::Other)
            && let Ok(message) = serde_json::from_slice::<Value>(&body)
        {
            self.message(&message);
        }
    }

    /// What was told so far; `None` if nothing was.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The model that answered, by its own word.
    pub(crate) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// What a stream says is wrong.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// A stream has told all that it has to tell, even if its body goes on.
    pub(crate) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    fn event(&mut self, data: &str) {
        // Most events are pieces of text: they are not parsed.
        if !["\"usage\"", "\"error\"", "\"message_stop\""].iter().any(|word| data.contains(word)) {
            return;
        }
        let Ok(event) = serde_json::from_str::<Value>(data) else { return };
        match event["type"].as_str() {
            Some("message_start") => self.message(&event["message"]),
            Some("message_delta") => self.count(&event["usage"]),
            Some("message_stop") => self.has_stopped = true,
            Some("error") => {
                let message = event["error"]["message"].as_str().unwrap_or("an error");
                self.error = Some(message.chars().take(2000).collect());
            }
            _ => {}
        }
    }

    fn message(&mut self, message: &Value) {
        self.model = message["model"].as_str().map(|name| name.chars().take(200).collect());
        self.count(&message["usage"]);
    }

    /// Counts come at the begin and at the end of a stream; the last ones count.
    fn count(&mut self, told: &Value) {
        if !told.is_object() {
            return;
        }
        let usage = self.usage.get_or_insert_default();
        let fields = [
            (&mut usage.input, "input_tokens"),
            (&mut usage.output, "output_tokens"),
            (&mut usage.cache_read, "cache_read_input_tokens"),
            (&mut usage.cache_write, "cache_creation_input_tokens"),
        ];
        for (count, name) in fields {
            *count = told[name].as_u64().unwrap_or(*count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m-1\",\"usage\":{\"input_tokens\":3,\"cache_read_input_tokens\":4,\"cache_creation_input_tokens\":5,\"output_tokens\":1}}}\n\n\
        event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"the \\\"usage\\\" of it\"}}\n\n\
        event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":9}}\n\n";

    #[test]
    fn a_stream_in_any_pieces() {
        for step in [1, 7, STREAM.len()] {
            let mut reader = Reader::new("text/event-stream; charset=utf-8", false);
            STREAM.as_bytes().chunks(step).for_each(|piece| reader.take(piece));
            assert_eq!(
                reader.usage(),
                Some(Usage { input: 3, output: 9, cache_read: 4, cache_write: 5 }),
                "{step}"
            );
            assert_eq!(reader.model(), Some("m-1"));
        }
    }

    #[test]
    fn a_whole_message_and_what_is_none() {
        let mut reader = Reader::new("application/json", false);
        reader.take(b"{\"model\":\"m\",\"usage\":{\"input_tokens\":1,");
        reader.take(b"\"output_tokens\":2}}");
        assert_eq!(reader.usage(), None);
        reader.end();
        assert_eq!(reader.usage(), Some(Usage { input: 1, output: 2, ..Usage::default() }));
        for (kind, encoded) in [("text/html", false), ("application/json", true), ("", false)] {
            let mut reader = Reader::new(kind, encoded);
            reader.take(b"{\"usage\":{\"input_tokens\":1}}");
            reader.end();
            assert_eq!(reader.usage(), None);
        }
    }
}
