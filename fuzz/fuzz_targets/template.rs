//! Compiles and renders a template over a JSON value: the input's first line.
#![no_main]

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Waker};

use libfuzzer_sys::fuzz_target;
use nerve_fuzz::text;
use nerve_graph::template::TemplateNode;
use nerve_node::Node;
use nerve_node::context::TurnContext;

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    let (input, template) = text.split_once('\n').unwrap_or(("null", &text));
    let Ok(node) = TemplateNode::new("t", template) else { return };
    let context = TurnContext::new().with_input(serde_json::from_str(input).unwrap_or_default());
    let rendered = pin!(node.execute(&context)).poll(&mut Context::from_waker(Waker::noop()));
    assert!(rendered.is_ready());
});
