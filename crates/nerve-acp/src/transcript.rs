//! Earlier turns of a session as updates.

use std::path::Path;

use nerve_api::reply::TranscriptTurn;
use nerve_api::request::GetTranscript;
use nerve_client::RemoteNode;

use crate::rpc_error::RpcError;
use crate::server_error::from_client;
use crate::turn_updates::{section_updates, user_message};
use crate::types::SessionUpdate;

/// Maximum number of earlier turns that are sent.
const TURNS: usize = 200;

/// Returns the newest turns of a node as updates, oldest first.
///
/// # Errors
/// The node does not exist, or the nerve server cannot be reached.
pub(crate) async fn replay(node: &RemoteNode, cwd: &Path) -> Result<Vec<SessionUpdate>, RpcError> {
    let request = GetTranscript {
        node_id: Some(node.id().to_string()),
        session_id: node.session().map(str::to_string),
        limit: Some(TURNS),
        ..GetTranscript::default()
    };
    let transcript = node.client().request(&request).await.map_err(from_client)?;
    Ok(transcript.turns.iter().flat_map(|turn| turn_updates(turn, cwd)).collect())
}

fn turn_updates(turn: &TranscriptTurn, cwd: &Path) -> Vec<SessionUpdate> {
    let prompt = (!turn.prompt.is_empty()).then(|| user_message(&turn.prompt));
    let sections = turn.sections.iter().enumerate().flat_map(|(at, section)| {
        let id = section.metadata.get("id").cloned();
        section_updates(section, &id.unwrap_or_else(|| format!("turn-{}-{}", turn.turn, at + 1)), cwd)
    });
    prompt.into_iter().chain(sections).collect()
}

#[cfg(test)]
mod tests {
    use nerve_api::reply::Section;
    use nerve_api::value::SectionKind;
    use serde_json::{json, to_value};

    use super::*;

    #[test]
    fn turn_is_prompt_thought_tool_and_text() {
        let sections = vec![
            Section::new(SectionKind::Thinking, "hmm"),
            Section::new(SectionKind::ToolCall, "out").with("tool", "Bash").with("args", "ls"),
            Section::new(SectionKind::Text, "done"),
        ];
        let turn =
            TranscriptTurn { turn: 4, prompt: "go".to_string(), sections, ..TranscriptTurn::default() };
        let text = |text: &str| json!({ "type": "text", "text": text });
        let expected = json!([
            { "sessionUpdate": "user_message_chunk", "content": text("go") },
            { "sessionUpdate": "agent_thought_chunk", "content": text("hmm") },
            {
                "sessionUpdate": "tool_call", "toolCallId": "turn-4-2", "title": "Bash: ls", "kind": "execute",
                "status": "completed", "content": [{ "type": "content", "content": text("out") }], "rawInput": "ls",
            },
            { "sessionUpdate": "agent_message_chunk", "content": text("done") },
        ]);
        assert_eq!(to_value(turn_updates(&turn, Path::new("/"))).unwrap(), expected);
    }
}
