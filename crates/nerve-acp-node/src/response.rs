//! The response of a turn, from its content and its stop reason.

use nerve_acp_protocol::types::{PromptResponse, StopReason, Usage};
use nerve_api::reply::Section;
use nerve_api::value::{Delivery, ResponseSource, SectionKind};
use nerve_node::response::{Response, truncate_to_limits};
use nerve_types::token_usage::TokenUsage;
use nerve_types::{TimeSpan, Tokens};

use crate::turn_content::TurnContent;

/// Builds the response of a turn that the agent has ended. `is_interrupted`: a request interrupted it, whatever the agent says.
pub(crate) fn build_response(
    node: &str,
    turn: u64,
    time: TimeSpan,
    content: TurnContent,
    end: &PromptResponse,
    is_interrupted: bool,
) -> Response {
    let text = content.text();
    let stop = if is_interrupted { StopReason::Cancelled } else { end.stop_reason };
    let mut sections = content.sections;
    let incomplete = match stop {
        StopReason::EndTurn | StopReason::Cancelled | StopReason::Refusal => None,
        StopReason::MaxTokens => Some("the model reached its limit of tokens"),
        StopReason::MaxTurnRequests => Some("the agent reached its limit of model requests in a turn"),
        StopReason::Unknown => Some("the agent ended it for an unknown reason"),
    };
    let incomplete = if content.is_truncated { Some("it is too large") } else { incomplete };
    match stop {
        StopReason::Cancelled => sections.push(Section::new(SectionKind::Interrupted, "")),
        StopReason::Refusal => {
            sections.push(Section::new(
                SectionKind::Error,
                "the agent refused to continue (stop reason refusal)",
            ));
        }
        _ => {}
    }
    let mut response = Response {
        node: node.to_string(),
        turn,
        raw: text.clone(),
        bytes: 0..text.len() as u64,
        text,
        sections,
        tokens: end.usage.map(count_tokens),
        is_complete: incomplete.is_none() && stop != StopReason::Cancelled,
        is_ready: true,
        is_agent: true,
        missing_text: incomplete.map(str::to_string),
        source: ResponseSource::Acp,
        delivery: if content.has_started { Delivery::Started } else { Delivery::Submitted },
        ended_by: format!("acp: {}", name(stop)),
        time,
        ..Response::default()
    };
    if stop == StopReason::Cancelled {
        response.attributes.insert("interrupted".to_string(), true.into());
    }
    response.attributes.insert("finish_reason".to_string(), name(stop).into());
    truncate_to_limits(&mut response);
    response
}

/// Returns the text of a turn that failed, cut at its beginning to what fits into a reply.
pub(crate) fn partial_text(content: &TurnContent) -> String {
    let mut response = Response { text: content.text(), ..Response::default() };
    truncate_to_limits(&mut response);
    response.text
}

fn count_tokens(usage: Usage) -> Tokens {
    let usage = TokenUsage::from(usage);
    Tokens { input: Some(usage.whole_input()), output: Some(usage.output), total: Some(usage.total()) }
}

fn name(stop: StopReason) -> &'static str {
    match stop {
        StopReason::EndTurn => "end_turn",
        StopReason::MaxTokens => "max_tokens",
        StopReason::MaxTurnRequests => "max_turn_requests",
        StopReason::Refusal => "refusal",
        StopReason::Cancelled => "cancelled",
        StopReason::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use nerve_acp_protocol::types::SessionUpdate;
    use nerve_node::error::ErrorKind;
    use nerve_types::activity::TsMs;
    use serde_json::{from_value, json};

    use super::*;

    fn response(text: &str, stop: &str, is_interrupted: bool) -> Response {
        let mut content = TurnContent::default();
        if !text.is_empty() {
            content.on_update(SessionUpdate::message(text), TsMs(1));
        }
        let end = from_value(json!({ "stopReason": stop })).unwrap();
        build_response("n", 1, TimeSpan::default(), content, &end, is_interrupted)
    }

    #[test]
    fn only_a_whole_answer_is_a_success() {
        let kind = |text: &str, stop: &str| response(text, stop, false).failure().map(|failure| failure.kind);
        assert_eq!(kind("yes", "end_turn"), None);
        assert_eq!(kind("", "end_turn"), Some(ErrorKind::NoAnswer));
        assert_eq!(kind("yes", "max_tokens"), Some(ErrorKind::Incomplete));
        assert_eq!(kind("yes", "max_turn_requests"), Some(ErrorKind::Incomplete));
        assert_eq!(kind("yes", "a new one"), Some(ErrorKind::Incomplete));
        assert_eq!(kind("yes", "refusal"), Some(ErrorKind::Api));
        assert_eq!(kind("yes", "cancelled"), Some(ErrorKind::Interrupted));
    }

    #[test]
    fn interrupted_turn_keeps_its_text() {
        let response = response("half", "end_turn", true);
        assert_eq!(response.failure().map(|failure| failure.kind), Some(ErrorKind::Interrupted));
        assert_eq!((response.text.as_str(), response.is_complete), ("half", false));
    }

    #[test]
    fn usage_counts_cached_tokens_as_input() {
        let usage = Usage { input_tokens: 1, output_tokens: 2, cached_read_tokens: 4, ..Usage::default() };
        let tokens = count_tokens(usage);
        assert_eq!((tokens.input, tokens.output, tokens.total), (Some(5), Some(2), Some(7)));
    }
}
