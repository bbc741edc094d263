//! Which turns are failures.

use nerve_agent::parse::Section;
use nerve_api::reply::Turn;
use nerve_api::value::{Delivery, SectionKind};
use nerve_node::error::ErrorKind;
use nerve_node::response::Response;
use serde_json::Map;

fn agent(sections: &[(SectionKind, &str)]) -> Response {
    let sections: Vec<Section> =
        sections.iter().map(|(kind, content)| Section::new(*kind, *content)).collect();
    let text = sections.iter().find(|section| section.kind == SectionKind::Text);
    Response {
        text: text.map_or(String::new(), |section| section.content.clone()),
        sections,
        is_complete: true,
        is_agent: true,
        delivery: Delivery::Started,
        ..Response::default()
    }
}

fn kind(response: &Response) -> Option<ErrorKind> {
    response.failure().map(|failure| failure.kind)
}

#[test]
fn turn_that_ends_with_an_error_failed() {
    use SectionKind::{Error, Text, Thinking, ToolCall};
    assert_eq!(kind(&agent(&[(Text, "Done")])), None);
    assert_eq!(kind(&agent(&[(Text, "I begin"), (Error, "529 overloaded")])), Some(ErrorKind::Api));
    assert_eq!(kind(&agent(&[(Error, "500"), (Thinking, "hm")])), Some(ErrorKind::Api));
    assert_eq!(kind(&agent(&[(Error, "500"), (ToolCall, "ls")])), Some(ErrorKind::Api), "no text");
    assert_eq!(kind(&agent(&[(Error, "retried"), (Text, "Done")])), None, "the agent recovered");
    assert!(agent(&[(Error, "529 overloaded")]).failure().unwrap().hint.is_some());
}

#[test]
fn interrupted_turn_failed_and_keeps_its_text() {
    let mut response = agent(&[(SectionKind::Text, "half")]);
    response.attributes.insert("interrupted".into(), true.into());
    response.is_complete = false;
    assert_eq!(kind(&response), Some(ErrorKind::Interrupted));
    let turn = Turn::from(response).response;
    assert!(turn.interrupted && !turn.success);
    assert_eq!((turn.text.as_str(), turn.error_type), ("half", Some(ErrorKind::Interrupted)));
    let by_key = agent(&[(SectionKind::Text, "half"), (SectionKind::Interrupted, "by user")]);
    assert_eq!(kind(&by_key), Some(ErrorKind::Interrupted));
}

#[test]
fn agent_without_work_and_text_gave_no_answer() {
    let silent = Response { delivery: Delivery::Submitted, ..agent(&[]) };
    assert_eq!(kind(&silent), Some(ErrorKind::NoAnswer));
    assert!(silent.failure().unwrap().hint.is_some());
    assert_eq!(kind(&Response { delivery: Delivery::Started, ..silent.clone() }), None, "it used tools");
    assert_eq!(kind(&Response { is_agent: false, ..silent }), None, "`cd` prints nothing");
}

#[test]
fn incomplete_answer_is_a_failure() {
    let whole = agent(&[(SectionKind::Text, "the end")]);
    let cut = Response { missing_text: Some("its first 9 bytes are left out".into()), ..whole.clone() };
    assert_eq!(kind(&cut), Some(ErrorKind::Incomplete));
    assert_eq!(kind(&Response { is_complete: false, ..whole }), Some(ErrorKind::Incomplete));
    let failed = Map::from_iter([("exit_code".to_string(), 3.into())]);
    assert_eq!(kind(&Response { attributes: failed, ..cut }), Some(ErrorKind::Process));
}
