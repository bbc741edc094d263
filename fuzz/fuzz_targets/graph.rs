//! Reads a graph file as YAML and JSON, compiles and draws it. A valid graph survives as a value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nerve_fuzz::text;
use nerve_graph::diagram;
use nerve_graph::file::{GraphFile, without_secrets};

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    for read in [GraphFile::from_yaml, GraphFile::from_json] {
        match read(&text, "graph") {
            Ok(file) => check(&file),
            Err(error) => drop(error.to_string()),
        }
    }
});

fn check(file: &GraphFile) {
    let value = file.to_value();
    let again = GraphFile::from_value(value.clone()).expect("a valid graph is refused as a value");
    assert_eq!(again.to_value(), value);
    let compiled = file.compile().expect("a valid graph does not compile");
    let _ = (compiled.graph.validate(), file.step_order(), file.undefined_nodes());
    let _ = (diagram::text(file), diagram::mermaid(file), diagram::dot(file), without_secrets(value));
}
