//! Tests of the parsers with saved screens of real agents (Claude Code 2.1.330, Codex 0.169.0, Gemini CLI 0.61.0 at
//! 120×40).

mod arbitrary_text;
mod claude;
mod codex;
mod conversation;
mod copilot;
mod gemini;
mod kilo;
mod kimi;
mod live;
mod opencode;
mod pi;
mod qwen;
mod ready;
mod rollout;
mod screens;
mod session_turns;
mod transcript;
mod transcript_cut;
mod turn_list;
mod usage;

use nerve_agent::parse::ParserKind;

use screens::{expect, parse};

#[test]
fn none_returns_whole_text() {
    let lines: Vec<String> = ["", "$ echo hi", "hi", "", "$"].map(String::from).to_vec();
    expect(
        &parse(ParserKind::None, "echo hi", &lines),
        "
        text
          $ echo hi
          hi

          $
        complete",
    );
    expect(&parse(ParserKind::None, "", &[]), "complete");
}

#[test]
fn every_name_has_a_parser() {
    for name in ["claude", "codex", "gemini", "opencode", "pi", "qwen", "copilot", "kimi", "none"] {
        let kind: ParserKind = name.parse().expect("a name");
        assert_eq!(kind.as_str(), name);
        assert!(
            nerve_agent::parse::parser(kind)
                .parse(&nerve_agent::parse::TurnText { prompt: "x", lines: &[] })
                .sections
                .is_empty()
        );
    }
}
