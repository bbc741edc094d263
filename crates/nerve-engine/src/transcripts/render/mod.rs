//! Renders transcripts: as Markdown, as one self-contained HTML file, or as plain text.

mod html;
mod markdown;
mod text;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nerve_api::reply::{Transcript, TranscriptDialog, TranscriptTurn};
use nerve_types::text::{one_line, shorten};
use nerve_types::{Section, Tokens};

pub use html::html;
pub use markdown::markdown;
pub use text::text;

/// Maximum length of a tool's arguments in a heading, in characters.
const MAX_ARGS: usize = 120;

/// Returns the title of a transcript.
fn title(transcript: &Transcript) -> String {
    let name = transcript.node_id.as_ref().or(transcript.recording_id.as_ref());
    format!("Transcript of {}", name.map_or("a recording", String::as_str))
}

/// Returns the known properties: a label and its value.
fn properties(transcript: &Transcript) -> Vec<(&'static str, &str)> {
    let properties = [
        ("session", &transcript.session_id),
        ("agent", &transcript.profile),
        ("directory", &transcript.cwd),
        ("conversation", &transcript.conversation_id),
        ("recording", &transcript.recording_id),
    ];
    properties.into_iter().filter_map(|(label, value)| Some((label, value.as_deref()?))).collect()
}

/// Returns the time of a turn, its tokens, and a remark if its end is unknown.
fn turn_details(turn: &TranscriptTurn, zone: &TimeZone) -> String {
    let time = turn.started_at.as_deref().map(|time| zoned_time(time, zone));
    let tokens = turn.tokens.and_then(token_text);
    let remark = (!turn.is_complete && !turn.sections.is_empty()).then(|| "incomplete".to_string());
    [time, tokens, remark].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Formats `2026-01-31T10:30:05.123Z` as `2026-01-31 11:30:05 +01:00`: a transcript may be read in another zone.
fn zoned_time(time: &str, zone: &TimeZone) -> String {
    let zoned = |at: Timestamp| at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S %:z").to_string();
    time.parse().map_or_else(|_| time.to_string(), zoned)
}

fn token_text(tokens: Tokens) -> Option<String> {
    match (tokens.input, tokens.output, tokens.total) {
        (Some(input), Some(output), _) => Some(format!("{input} tokens in, {output} out")),
        (_, _, Some(total)) => Some(format!("{total} tokens")),
        _ => None,
    }
}

/// Returns a tool call as one line: its name, its arguments and its status unless that is `ok`.
fn tool_heading(section: &Section) -> String {
    let property = |name: &str| section.metadata.get(name).map(String::as_str).unwrap_or_default();
    let args = shorten(&one_line(property("args")), MAX_ARGS);
    let status = Some(property("status")).filter(|status| !matches!(*status, "" | "ok"));
    let words = [Some(property("tool")), Some(args.as_str()), None];
    let line = words.into_iter().flatten().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    status.map_or(line.clone(), |status| format!("{line} ({status})"))
}

/// Describes a dialog and who answered it.
fn dialog_text(dialog: &TranscriptDialog, zone: &TimeZone) -> String {
    let answer = match &dialog.choice {
        Some(choice) => format!("answered with '{choice}'"),
        None => "closed without an answer".to_string(),
    };
    let by = [dialog.client.as_str(), dialog.transport.as_str()];
    let by = by.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ");
    let at =
        dialog.answered_at.as_deref().map(|at| format!(" at {}", zoned_time(at, zone))).unwrap_or_default();
    format!("Dialog '{}' {answer}{}{at}", dialog.dialog, if by.is_empty() { by } else { format!(" by {by}") })
}

#[cfg(test)]
mod tests {
    use nerve_types::SectionKind;

    use super::*;

    fn zone() -> TimeZone {
        TimeZone::fixed(jiff::tz::offset(1))
    }

    fn transcript() -> Transcript {
        let tool = Section::new(SectionKind::ToolCall, "a </pre> b\n```\nc")
            .with("tool", "Bash")
            .with("args", "{\"command\": \"ls <dir>\"}")
            .with("status", "error");
        let sections = vec![
            Section::new(SectionKind::Thinking, "hm"),
            tool,
            Section::new(SectionKind::Text, "# Done\n\n<b>bold</b>"),
        ];
        let dialog = TranscriptDialog {
            answered_at: Some("2026-01-31T10:30:07.000Z".into()),
            dialog: "permission".into(),
            choice: Some("yes".into()),
            client: "me, process 7".into(),
            transport: "unix".into(),
        };
        let turn = TranscriptTurn {
            turn: 1,
            prompt: "list\n<script>alert(1)</script>".into(),
            started_at: Some("2026-01-31T10:30:05.123Z".into()),
            sections,
            tokens: Some(Tokens { input: Some(12), output: Some(3), total: None }),
            is_complete: true,
            dialogs: vec![dialog],
            ..TranscriptTurn::default()
        };
        Transcript {
            node_id: Some("me".into()),
            profile: Some("claude".into()),
            turns: vec![turn],
            notes: vec!["something is missing".into()],
            ..Transcript::default()
        }
    }

    #[test]
    fn markdown_folds_tools_and_quotes_prompts() {
        let expected = "\
# Transcript of me

- agent: claude

*Note: something is missing*

## 1 · 2026-01-31 11:30:05 +01:00 · 12 tokens in, 3 out

> list
> <script>alert(1)</script>

<details><summary>Thinking</summary>

```text
hm
```

</details>

<details><summary>Bash {&quot;command&quot;: &quot;ls &lt;dir&gt;&quot;} (error)</summary>

````text
a </pre> b
```
c
````

</details>

# Done

<b>bold</b>

*Dialog 'permission' answered with 'yes' by me, process 7, unix at 2026-01-31 11:30:07 +01:00*
";
        assert_eq!(markdown(&transcript(), &zone()), expected);
    }

    #[test]
    fn html_is_self_contained_and_escaped() {
        let html = html(&transcript(), &zone());
        assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"), "{html}");
        assert!(
            html.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !html.contains("<script"),
            "{html}"
        );
        assert!(html.contains("a &lt;/pre&gt; b") && html.contains("&lt;b&gt;bold&lt;/b&gt;"), "{html}");
        for outside in ["http:", "https:", "src=", "@import", "<link"] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(html.contains("<h3>Done</h3>"), "{html}");
    }

    #[test]
    fn output_of_shells_is_no_markdown() {
        let mut transcript = transcript();
        transcript.turns[0].tokens = None;
        let rendered = html(&transcript, &zone());
        assert!(rendered.contains("<div class=\"text\"># Done\n"), "{rendered}");
        transcript.turns[0].source = nerve_api::reply::TranscriptSource::Agent;
        assert!(html(&transcript, &zone()).contains("<h3>Done</h3>"));
    }

    #[test]
    fn text_shows_prompts_and_answers() {
        let expected = "\
Transcript of me
agent: claude
Note: something is missing

[1] 2026-01-31 11:30:05 +01:00 · 12 tokens in, 3 out
> list
> <script>alert(1)</script>

(thinking) hm

* Bash {\"command\": \"ls <dir>\"} (error)
    a </pre> b
    ```
    c

# Done

<b>bold</b>

(Dialog 'permission' answered with 'yes' by me, process 7, unix at 2026-01-31 11:30:07 +01:00)
";
        assert_eq!(text(&transcript(), &zone()), expected);
    }
}
