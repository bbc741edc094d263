//! Reads token counts from responses of the Messages API.

use nerve_llm::sse::Parser;
use nerve_types::token_usage::TokenUsage;
use serde_json::Value;

/// Maximum size of an event that is parsed, in bytes.
const MAX_EVENT: usize = 4 << 20;
/// Maximum size of a response that is parsed as a whole, in bytes.
const MAX_MESSAGE: usize = 8 << 20;

/// Extracts usage, model and errors from a response as its bytes pass by.
#[derive(Debug)]
pub(crate) struct UsageReader {
    format: Format,
    usage: Option<TokenUsage>,
    model: Option<String>,
    error: Option<String>,
    has_stopped: bool,
}

#[derive(Debug)]
enum Format {
    Events(Parser),
    Whole(Vec<u8>),
    /// A response that cannot be parsed.
    Other,
}

impl UsageReader {
    /// Creates a reader for a response with this `Content-Type`.
    pub(crate) fn new(content_type: &str, is_encoded: bool) -> UsageReader {
        let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let format = match kind.as_str() {
            _ if is_encoded => Format::Other,
            "text/event-stream" => Format::Events(Parser::new(MAX_EVENT)),
            "application/json" => Format::Whole(Vec::new()),
            _ => Format::Other,
        };
        UsageReader { format, usage: None, model: None, error: None, has_stopped: false }
    }

    /// Reads a piece of the response.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        match &mut self.format {
            Format::Events(parser) => match parser.push(bytes) {
                Ok(events) => events.iter().for_each(|event| self.read_event(&event.data)),
                Err(_) => self.format = Format::Other,
            },
            Format::Whole(body) if body.len() + bytes.len() <= MAX_MESSAGE => body.extend_from_slice(bytes),
            Format::Whole(_) => self.format = Format::Other,
            Format::Other => {}
        }
    }

    /// Handles the end of the response.
    pub(crate) fn finish(&mut self) {
        if let Format::Whole(body) = std::mem::replace(&mut self.format, Format::Other)
            && let Ok(message) = serde_json::from_slice::<Value>(&body)
        {
            self.read_message(&message);
        }
    }

    /// Returns the usage reported so far.
    pub(crate) fn usage(&self) -> Option<TokenUsage> {
        self.usage
    }

    /// Returns the model named by the response.
    pub(crate) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Returns the error that the stream reports.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Returns true after the last event, even if the body continues.
    pub(crate) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    fn read_event(&mut self, data: &str) {
        // Most events are pieces of text and need no parsing.
        if !["\"usage\"", "\"error\"", "\"message_stop\""].iter().any(|word| data.contains(word)) {
            return;
        }
        let Ok(event) = serde_json::from_str::<Value>(data) else { return };
        match event["type"].as_str() {
            Some("message_start") => self.read_message(&event["message"]),
            Some("message_delta") => self.update_counts(&event["usage"]),
            Some("message_stop") => self.has_stopped = true,
            Some("error") => {
                let message = event["error"]["message"].as_str().unwrap_or("an error");
                self.error = Some(message.chars().take(2000).collect());
            }
            _ => {}
        }
    }

    fn read_message(&mut self, message: &Value) {
        self.model = message["model"].as_str().map(|name| name.chars().take(200).collect());
        self.update_counts(&message["usage"]);
    }

    /// Updates the counts. A stream has counts at its beginning and end; the last ones are valid.
    fn update_counts(&mut self, usage_json: &Value) {
        if !usage_json.is_object() {
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
            *count = usage_json[name].as_u64().unwrap_or(*count);
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
    fn stream_in_any_pieces() {
        for step in [1, 7, STREAM.len()] {
            let mut reader = UsageReader::new("text/event-stream; charset=utf-8", false);
            STREAM.as_bytes().chunks(step).for_each(|piece| reader.push(piece));
            assert_eq!(
                reader.usage(),
                Some(TokenUsage { input: 3, output: 9, cache_read: 4, cache_write: 5 }),
                "{step}"
            );
            assert_eq!(reader.model(), Some("m-1"));
        }
    }

    #[test]
    fn whole_message_but_no_other_content() {
        let mut reader = UsageReader::new("application/json", false);
        reader.push(b"{\"model\":\"m\",\"usage\":{\"input_tokens\":1,");
        reader.push(b"\"output_tokens\":2}}");
        assert_eq!(reader.usage(), None);
        reader.finish();
        assert_eq!(reader.usage(), Some(TokenUsage { input: 1, output: 2, ..TokenUsage::default() }));
        for (kind, encoded) in [("text/html", false), ("application/json", true), ("", false)] {
            let mut reader = UsageReader::new(kind, encoded);
            reader.push(b"{\"usage\":{\"input_tokens\":1}}");
            reader.finish();
            assert_eq!(reader.usage(), None);
        }
    }
}
