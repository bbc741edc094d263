//! The texts that are indexed, and where they come from.

use std::path::PathBuf;

use nerve_api::reply::Transcript;
use nerve_api::value::DocumentKind;
use nerve_search::ScreenText;
use nerve_types::activity::TsMs;
use nerve_types::{Section, SectionKind};

use crate::node_files::NodeKey;

/// Maximum number of characters of one document. The rest is cut off.
pub(super) const MAX_CHARS: usize = 256 << 10;

/// The source of indexed texts: a recording, or the history of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    /// Id of the recording; `None` for a history.
    pub(super) recording: Option<String>,
    pub(super) node: NodeKey,
    pub(super) started_ms: u64,
    /// End of the recording; `None` while it runs.
    pub(super) ended_ms: Option<u64>,
}

/// A text to index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) kind: DocumentKind,
    /// Number of the turn in the transcript, from 1.
    pub(super) turn: Option<u64>,
    pub(super) at_ms: u64,
    pub(super) text: String,
}

impl Document {
    /// Returns true if a part exceeds the limit.
    pub(super) fn is_cut(&self) -> bool {
        self.shortened().len() < self.text.len()
    }

    /// Returns the text without what exceeds the limit.
    pub(super) fn shortened(&self) -> &str {
        if self.text.len() <= MAX_CHARS {
            return &self.text;
        }
        let end = self.text.char_indices().nth(MAX_CHARS).map_or(self.text.len(), |(at, _)| at);
        &self.text[..end]
    }
}

/// Returns the documents of a transcript. `started_ms` is the time of turns without one.
pub(super) fn documents_of_transcript(transcript: &Transcript, started_ms: u64) -> Vec<Document> {
    let mut documents = Vec::new();
    for turn in &transcript.turns {
        let time = |text: &Option<String>| {
            text.clone().and_then(|text| TsMs::try_from(text).ok()).map(|TsMs(at)| at)
        };
        let began = time(&turn.started_at).unwrap_or(started_ms);
        let ended = time(&turn.ended_at).unwrap_or(began);
        let mut add = |kind, at_ms, text: String| {
            if !text.trim().is_empty() {
                documents.push(Document { kind, turn: Some(turn.turn), at_ms, text });
            }
        };
        add(DocumentKind::Prompt, began, turn.prompt.clone());
        let is_answer = |section: &&Section| section.kind != SectionKind::ToolCall;
        let answer = turn.sections.iter().filter(is_answer).map(|section| section.content.as_str());
        add(DocumentKind::Answer, ended, answer.collect::<Vec<_>>().join("\n\n"));
        for call in turn.sections.iter().filter(|section| section.kind == SectionKind::ToolCall) {
            let property = |name: &str| call.metadata.get(name).map(String::as_str).unwrap_or_default();
            let text = format!("{} {}\n{}", property("tool"), property("args"), call.content);
            add(DocumentKind::Tool, ended, text);
        }
    }
    documents
}

/// Returns the documents of a recording's screen.
pub(super) fn documents_of_screen(screen: ScreenText) -> Vec<Document> {
    let documents = screen.parts.into_iter().map(|part| Document {
        kind: DocumentKind::Screen,
        turn: None,
        at_ms: part.at.0 / 1_000_000,
        text: part.text,
    });
    documents.collect()
}
